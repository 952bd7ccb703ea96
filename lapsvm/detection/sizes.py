"""How large the objects of a class are, from the few boxes that a person knows: a prior among a picture's windows.

Labels say where something is, and leave its extent open; a few boxes tell how large such things are, whatever they look
like, if they are seen from one distance. The prior counts where the boxes agree, and less the more there are, because
the model learns extent from them, too.
"""

from typing import Any, NamedTuple, Self

import numpy as np

from lapsvm.arrays import Array, Float64, is_optional_number

LEAST = 3
"""The number of boxes from which on they say whether they agree."""
AGREEING = 0.04, 0.08
"""The variance of the logarithm of the boxes' sides up to which the prior counts in full, and from which on it is left
out, see research/notebook/2026-11-small-things.md."""
ENOUGH = 5
"""The number of boxes up to which the prior counts in full, and then in inverse proportion to them."""
WIDE = 0.5
"""The deviation of the logarithm of a side before any box is known."""
COUNTED = 4
"""The number of boxes at which their own deviation counts as much as `WIDE`."""
FARTHEST = 3.0
"""The largest loss, in standard deviations of the scores: of a window of quite another size."""


class SizePrior(NamedTuple):
    """The logarithms of width and height in pixels.

    Attributes
    ----------
    width, height : float
        Their means.
    width_variance, height_variance : float
        Those of the next box: they hold the uncertainty of the means.
    weight : float
        From 0 to 1.
    """

    width: float
    height: float
    width_variance: float
    height_variance: float
    weight: float

    @classmethod
    def of(cls, boxes: Array) -> Self | None:
        """Return the prior of known boxes (m, 4). None if they are too few, or differ too much."""
        count, sides = len(boxes), _sides(boxes)
        if count < LEAST:
            return None
        full, never = AGREEING
        agreement = min((never - float(sides.var(axis=0, ddof=1).mean())) / (never - full), 1.0)
        if agreement <= 0:
            return None
        spread = (COUNTED * WIDE**2 + count * sides.var(axis=0)) / (COUNTED + count) * (1 + 1 / count)
        (width, height), variances = sides.mean(axis=0).tolist(), spread.tolist()
        return cls(width, height, variances[0], variances[1], agreement * min(1.0, ENOUGH / count))

    @classmethod
    def from_json(cls, stored: Any) -> Self | None:
        """Return the prior that a model records. None if it records none."""
        if not isinstance(stored, list) or len(stored) != len(cls._fields):
            return None
        is_prior = all(is_optional_number(value) and value is not None for value in stored)
        return cls(*stored) if is_prior and min(stored[2:]) > 0 else None

    def ranked(self, scores: Float64, boxes: Array) -> Float64:
        """Return the scores (n,) of a picture's windows (n, 4), less for windows of other sizes than the objects'.

        The loss is half the squared distance of the logarithms in their deviations, at most `FARTHEST`, in standard
        deviations of the scores, times the weight. Finally all are shifted so that the best score of the picture is
        what it was, and the order of pictures is kept.
        """
        if not len(scores):
            return scores
        distances = ((_sides(boxes) - self[:2]) ** 2 / np.array(self[2:4])).sum(axis=1)
        ranked = scores - self.weight * scores.std() * np.minimum(distances / 2, FARTHEST)
        return np.asarray(ranked - ranked.max() + scores.max())


def _sides(boxes: Array) -> Float64:
    """Return the logarithms of the sides (m, 2) of boxes (m, 4)."""
    return np.asarray(np.log(np.maximum(np.asarray(boxes[:, 2:] - boxes[:, :2], dtype=np.float64), 1.0)))
