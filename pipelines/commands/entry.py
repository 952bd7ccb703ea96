"""Where the command begins: Ctrl-C is answered before anything is imported that takes time, and until the process ends.

This file therefore imports next to nothing. When the interpreter shuts down, it restores the default signal handlers; a
signal would then kill the process silently although its work is done. So we end the process ourselves before that, as
soon as its threads and all other functions of `atexit` are done.
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
