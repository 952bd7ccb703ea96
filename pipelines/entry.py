"""Where the command begins: Ctrl-C is answered before anything heavy is imported, and until the process has ended."""

import signal

from .interruption import leave


def main() -> None:
    """Run the command line."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(
                number, leave
            )  # nothing is under way yet, and nothing any more after the commands' own answer
    from .cli import main as run

    run()
