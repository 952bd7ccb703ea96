"""Objectness as a prior of where an object ends.

Labels say that something is in a picture, not where it ends: a part, the object, and the object with its context
separate the same pictures. People mark what stands out, so a window's objectness (`lapsvm.objectness`) counts beside
its score when refinement chooses the windows of positive pictures. The models that learn from these windows need no
objectness when they detect.

Objects of some classes do not stand out: cells among cells, a break at an edge. So the prior counts as far as windows
that scores choose alone stand out already, on average over a chain's own positive pictures. No box and no label of a
chain's fold decides that.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Float64
from lapsvm.errors import OptionError
from lapsvm.texts.sentences import listed

from ...settings.settings import ObjectnessSettings

STANDS_OUT = (0.1, 0.2)
"""Mean objectness of the windows that scores choose: up to the first the prior is left out, from the second it counts
in full. Chosen on sets of pictures with one left out (docs/measurements/objectness.md)."""


@dataclass(frozen=True, eq=False)
class ObjectnessPrior:
    """The objectness of windows, and how much it counts.

    Attributes
    ----------
    values : (n_windows,)
        In 0..1, of all pictures one after the other; NaN in pictures that were not measured.
    weight : float
        By how many standard deviations of a picture's scores a window with objectness 1 is ahead of one with 0.
    is_decided : bool, default False
        Whether `weight` holds whatever stands out.
    """

    values: NDArray[np.floating]
    weight: float
    is_decided: bool = False

    def of_class(self, name: str, settings: ObjectnessSettings) -> Self | None:
        """Return the prior of a class. None if the settings name the classes that use it, and not this one."""
        if not settings.classes:
            return self
        return replace(self, is_decided=True) if name in settings.classes else None

    def standing(self, windows: NDArray[np.intp]) -> float | None:
        """Return the mean objectness of windows, by their index among all. None if no window was measured."""
        measured = self.values[windows][~np.isnan(self.values[windows])]
        return float(measured.mean(dtype=np.float64)) if len(measured) else None

    def share(self, standing: float | None) -> float:
        """Return the share of the prior, from 0 to 1, for the mean objectness of the windows that scores choose."""
        if standing is None:
            return 0.0
        low, high = STANDS_OUT
        return 1.0 if self.is_decided else min(max((standing - low) / (high - low), 0.0), 1.0)

    def added(self, scores: Float64, windows: slice, share: float) -> Float64:
        """Return the scores (n,) of a picture's windows in their standard deviations, with a share of the prior.

        The scores of a picture that was not measured are returned as they are.
        """
        values = self.values[windows]
        if not share or np.isnan(values).any():
            return scores
        return np.asarray((scores - scores.mean()) / (scores.std() or 1.0) + share * self.weight * values)


def share_text(share: float) -> str:
    """Return how much the prior counts, as the end of a sentence."""
    return {0.0: "does not count", 1.0: "counts in full"}.get(share, f"counts by {share:.2f}")


def check_classes(settings: ObjectnessSettings, classes: Collection[str]) -> None:
    """Raise OptionError if the settings name a class that the run does not learn."""
    unknown = [name for name in settings.classes if name not in classes]
    if unknown:
        raise OptionError(
            f"setting objectness.classes must name classes of the run, {listed(sorted(classes))}, got {unknown[0]!r}."
        )
