"""Where the command begins: Ctrl-C is answered before anything is imported that takes time, and until the process ends.

So this file imports next to nothing. While the interpreter takes itself down it gives the signals back to the system,
which would kill the process without a word, though its work is done: so the process ends before that, once everything
that waits for its end (threads, `atexit`) has had its turn.
"""

import atexit
import os
import signal
import sys

INTERRUPTED = 130  # as shells count: 128 + SIGINT
LINE = "lapsvm: interrupted; what is done is kept, the same command continues."
UNHEARD = 120  # as Python does where standard output cannot be written
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
    outcome: list[int] = []
    atexit.register(_end, outcome)  # the first to be registered has its turn last
    from .cli import main as run

    try:
        run()
    except SystemExit as end:
        outcome += [end.code] if isinstance(end.code, int) else []
        raise


def _end(outcome: list[int]) -> None:
    """End the process with the status that the command gave, if it gave one, once what was printed is out."""
    if not outcome:
        return
    status = outcome[0]
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):  # nobody listens any more
            status = status or UNHEARD
    os._exit(status)
