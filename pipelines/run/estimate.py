"""How long a run will take, said once, after its first pictures."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from .progress import Reporter

AFTER = 20  # pictures
PREPARED = 0.8  # share of a picture's time that proposals and network take; the rest is pooling and writing
LEARNING = 0.2
"""Seconds of training, refinement and detection per training picture and class, over those of a picture's extraction;
measured for the recipe best, see docs/measurements/features.md."""


@dataclass
class Estimate:
    """Says how long extraction will take, and what comes after it.

    Attributes
    ----------
    reporter : Reporter
    later : float
        Seconds of the later stages over those of one picture; 0: nothing is said of them.
    clock : callable
        Seconds.
    """

    reporter: Reporter
    later: float = 0.0
    clock: Callable[[], float] = time.monotonic
    _total: int = 0
    _skip: int = 0
    _steps: int = 0
    _done: float = 0.0
    _began: float | None = None
    _said: bool = field(default=False, repr=False)

    def begin(self, total: int, skip: int = 0) -> None:
        """Begin to count: there are `total` pictures, and the first `skip` go faster than the others."""
        self._total, self._skip, self._steps, self._done, self._began = total, skip, 0, 0.0, None

    def step(self, count: int = 1, share: float = 1.0) -> None:
        """Count `count` pictures of which `share` of the work is done; the first one begins the time."""
        self._steps += count
        if self._said or self._steps <= self._skip:
            return
        if self._began is None:
            self._began = self.clock()
            return
        self._done += count * share
        if self._steps - self._skip >= AFTER:
            self._say((self.clock() - self._began) / self._done)

    def _say(self, seconds: float) -> None:
        """Print the line, from the seconds of a picture."""
        self._said = True
        if self._total <= AFTER:
            return
        line = f"extract: about {roughly(seconds * self._total)} for {self._total:,} pictures"
        more = f"; training and detection take about {roughly(seconds * self.later)} more" if self.later else ""
        self.reporter.say(line + more)


def roughly(seconds: float) -> str:
    """Return a duration to about a tenth: 40 s, 3 min, 2 h 20 min."""
    if seconds < 90:
        return f"{max(5, 5 * round(seconds / 5))} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(10 * round(seconds / 600), 60)
    return f"{hours} h" + (f" {minutes} min" if minutes else "")
