"""Ctrl-C at any time: one line and exit status 130, whatever the libraries above it make of a KeyboardInterrupt.

SIGTERM is treated alike. A signal that was ignored when the program began (a background job's Ctrl-C) stays ignored.
"""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from .signals import SIGNALS, leave


@dataclass
class Interruption:
    """Whether a signal came."""

    came: bool = False

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Raise KeyboardInterrupt at the first signal; end the process at the second. No file is left half written."""
        if self.came:
            leave(number, frame)
        self.came = True
        sys.unraisablehook = _say_nothing  # an exception that a destructor swallows is the interruption itself
        raise KeyboardInterrupt


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Raise KeyboardInterrupt at the first signal while the block runs; yields whether it came."""
    interruption, hook = Interruption(), sys.unraisablehook
    with handled(interruption.receive):
        try:
            yield interruption
        finally:
            sys.unraisablehook = hook


@contextmanager
def handled(handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    """Answer both signals with a handler while the block runs."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        if before[number] != signal.SIG_IGN:
            signal.signal(number, handler)
    try:
        yield
    finally:
        for number in SIGNALS:
            signal.signal(number, before[number])


def _say_nothing(_: Any) -> None:
    """Take the place of a hook."""
