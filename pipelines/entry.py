"""Where the command begins: Ctrl-C is answered before anything is imported that takes time, and until the process ends.

So this file imports next to nothing.
"""

import os
import signal

INTERRUPTED = 130  # as shells count: 128 + SIGINT
LINE = "lapsvm: interrupted; what is done is kept, the same command continues."
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def leave(_: int, __: object) -> None:
    """End the process now, in one line."""
    os.write(2, (LINE + "\n").encode())
    os._exit(INTERRUPTED)


def main() -> None:
    """Run the command line."""
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, leave)  # while a command runs it answers itself
    from .cli import main as run

    run()
