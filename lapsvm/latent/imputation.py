"""What stands for images while a convex problem is solved: one of their windows, or the mean of all."""

from typing import Protocol

import numpy as np

from lapsvm.arrays import Float64, Index
from lapsvm.bags import Bags, BestWindows


class Imputed(Protocol):
    """One feature vector per image."""

    def scores(self, w: Float64) -> Float64:
        """Return their scores (m,)."""
        ...

    def weighted_sum(self, coefficients: Float64) -> Float64:
        """Return the sum (d,) of coefficients (m,) times the vectors."""
        ...


class ImputedWindows:
    """Each image is one of its windows."""

    def __init__(self, bags: Bags, images: Index, index: Index):
        self._bags, self._images, self.index = bags, images, index

    def replaced(self, index: Index) -> "ImputedWindows":
        """Return the same images with other windows."""
        return ImputedWindows(self._bags, self._images, index)

    def scores(self, w: Float64) -> Float64:
        """Return the windows' scores."""
        return self._bags.score_rows(w, self._images, self.index)

    def weighted_sum(self, coefficients: Float64) -> Float64:
        """Return the weighted sum of the windows."""
        return self._bags.sum_rows(coefficients, self._images, self.index)


class ImputedMeans:
    """Each image is the mean of its windows."""

    def __init__(self, bags: Bags, images: Index):
        self._means = bags.means(images)

    def scores(self, w: Float64) -> Float64:
        """Return the means' scores."""
        return np.asarray(self._means @ w)

    def weighted_sum(self, coefficients: Float64) -> Float64:
        """Return the weighted sum of the means."""
        return np.asarray(coefficients @ self._means)


def improve(current: ImputedWindows, best: BestWindows, w: Float64) -> tuple[ImputedWindows, int]:
    """Return the images at their `best` windows for `w`, and how many changed.

    A window is replaced only by one that scores more, so that near ties, which a pass decides in float32, neither
    raise the objective nor keep CCCP from resting.
    """
    better = best.score > current.scores(w)
    return current.replaced(np.where(better, best.index, current.index)), int(better.sum())
