"""Where the command begins: Ctrl-C is answered before anything is imported that takes time, and until the process ends.

So this file imports next to nothing. While the interpreter takes itself down it gives the signals back to the system,
which would kill the process without a word, though its work is done: so the process ends before that, once everything
that waits for its end (threads, `atexit`) has had its turn.
"""

import atexit
import signal

from ..cli.signals import SIGNALS, _end, leave


def main() -> None:
    """Run the command line."""
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, leave)  # while a command runs it answers itself
    outcome: list[int] = []
    atexit.register(_end, outcome)  # the first to be registered has its turn last
    from .verbs import main as run

    try:
        run()
    except SystemExit as end:
        outcome += [end.code] if isinstance(end.code, int) else []
        raise
