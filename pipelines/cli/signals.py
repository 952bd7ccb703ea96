"""Signals that end the program, and the line it then prints; the module imports next to nothing."""

import os
import signal
import sys

INTERRUPTED = 130  # as shells count: 128 + SIGINT
LINE = "lapsvm: interrupted; what is done is kept, the same command continues."
UNHEARD = 120  # as Python does where standard output cannot be written
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Farewell:
    """The last line of a command that a signal ends: `LINE`, or a line of the command's own."""

    line = LINE


def leave(_: int, __: object) -> None:
    """End the process now, in one line."""
    os.write(2, (Farewell.line + "\n").encode())
    os._exit(INTERRUPTED)


def _end(outcome: list[int]) -> None:
    """End the process with the status of the command, if it has one, once all output is written."""
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
