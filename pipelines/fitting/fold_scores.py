"""Scores of pictures by models that were trained without them, brought to the scale of the final model.

A ranking loss fixes the order of scores, not their zero, and models of fewer pictures have other weights; so scores of
different folds' models are not comparable as they are. The pictures that both a fold's model and the final model were
trained with have scores by both: a fold's scores are shifted and stretched until these have the same mean and standard
deviation. Labels of held-out pictures take no part in it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Float64, Index

Gains = Callable[[Float64, NDArray[np.bool_]], Float64]
"""What the best boxes of some pictures (n,) gain in detection by some weights (d,), (m,) for m pictures."""


class FoldPart(NamedTuple):
    """What one fold's model says.

    Attributes
    ----------
    held_out : (n,) bool
        The pictures that it was trained without; labelled ones only.
    score, window : (m,) float64 and (m,) intp
        Best score of each held-out picture, and the index of its best window inside the picture, before smoothing.
    center, spread : float
        Mean and standard deviation of the best scores of the pictures that it was trained with.
    """

    held_out: NDArray[np.bool_]
    score: Float64
    window: Index
    center: float
    spread: float

    @classmethod
    def of(cls, held_out: NDArray[np.bool_], seen: NDArray[np.bool_], score: Float64, window: Index) -> Self:
        """Return the part of a model with these best scores (n,) and windows (n,) of all pictures."""
        trained = score[seen]
        return cls(held_out, score[held_out], window[held_out], float(trained.mean()), float(trained.std()))

    def raised(self, gain: Float64) -> Self:
        """Return the part with what the best boxes of the held-out pictures gain in detection, (m,)."""
        return self._replace(score=self.score + gain)


@dataclass(frozen=True, eq=False)
class FoldScores:
    """Held-out scores of the n training pictures.

    Attributes
    ----------
    fold : (n,) intp
        The fold, from 1, whose model did not see the picture; 0 for pictures in no fold, which are left out.
    score : (n,) float64
        Best score by that model in detection, in its own scale.
    window : (n,) intp
        Index of the best window inside the picture, before smoothing and box support.
    center, spread : (folds,) float64
        As for `FoldPart`.
    """

    fold: Index
    score: Float64
    window: Index
    center: Float64
    spread: Float64

    @classmethod
    def join(cls, parts: Sequence[FoldPart]) -> Self:
        """Return the scores of all folds."""
        n_pictures = len(parts[0].held_out)
        fold, window = np.zeros(n_pictures, dtype=np.intp), np.zeros(n_pictures, dtype=np.intp)
        score = np.zeros(n_pictures)
        for number, part in enumerate(parts, start=1):
            fold[part.held_out], score[part.held_out], window[part.held_out] = number, part.score, part.window
        return cls(fold, score, window, *np.array([(part.center, part.spread) for part in parts]).T)

    def aligned(self, final: Float64) -> Float64:
        """Return the scores (n,) in the scale of the final model, whose best scores are `final` (n,)."""
        aligned = np.zeros_like(self.score)
        for number, (center, spread) in enumerate(zip(self.center, self.spread, strict=True), start=1):
            own = self.fold == number
            trained = final[(self.fold > 0) & ~own]
            factor = trained.std() / spread if spread > 0 else 1.0
            aligned[own] = trained.mean() + (self.score[own] - center) * factor
        return aligned

    def as_json(self) -> dict[str, Any]:
        """Return the arrays as lists, from which `from_json` makes equal ones."""
        return {name: array.tolist() for name, array in vars(self).items()}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Return the scores that `as_json` wrote."""
        fold, window = (np.array(content[name], dtype=np.intp) for name in ("fold", "window"))
        score, center, spread = (np.array(content[name], dtype=np.float64) for name in ("score", "center", "spread"))
        return cls(fold, score, window, center, spread)
