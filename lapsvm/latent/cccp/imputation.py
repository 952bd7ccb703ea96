"""What a convex problem fixes: the vectors of positive images, and windows of negative ones that are ignored."""

import numpy as np

from lapsvm.arrays import Float64, Index
from lapsvm.bags import Bags, BestWindows

_TIE = 1e-12  # relative difference of scores that is rounding


class ImputedWindows:
    """Each image is one of its windows, or the mean of several.

    Parameters
    ----------
    bags : Bags
    images : (m,) int
        The bags that are meant.
    index : (sum of counts,) int
        Their windows, image after image, best first.
    counts : (m,) int, optional
        How many windows stand for each image; by default 1.
    """

    def __init__(self, bags: Bags, images: Index, index: Index, counts: Index | None = None):
        self._bags, self._images, self.index = bags, images, index
        self._counts = np.ones(len(images), dtype=np.intp) if counts is None else counts
        self.owners = np.repeat(images, self._counts)
        self._starts = np.append(0, np.cumsum(self._counts)[:-1]).astype(np.intp)

    def on(self, bags: Bags) -> "ImputedWindows":
        """Return the same windows of other bags with the same numbers."""
        return ImputedWindows(bags, self._images, self.index, self._counts)

    @property
    def first(self) -> Index:
        """The first window (m,) of each image."""
        return self.index[self._starts]

    def scores(self, w: Float64) -> Float64:
        """Return the windows' mean scores."""
        scores = self._bags.score_rows(w, self.owners, self.index)
        return np.asarray(np.add.reduceat(scores, self._starts) / self._counts)

    def weighted_sum(self, coefficients: Float64) -> Float64:
        """Return the weighted sum of the windows' means."""
        shares = np.repeat(coefficients / self._counts, self._counts)
        return self._bags.sum_rows(shares, self.owners, self.index)

    def improved(self, other: "ImputedWindows", w: Float64) -> tuple["ImputedWindows", int]:
        """Return, for each image, its windows in `other` if they score more at `w`, and how many images changed.

        Ties but for rounding so neither raise the objective nor keep CCCP from resting. Both must have as many windows
        per image.
        """
        old = self.scores(w)
        better = other.scores(w) > old + _TIE * np.abs(old)
        index = np.where(np.repeat(better, self._counts), other.index, self.index)
        return ImputedWindows(self._bags, self._images, index, self._counts), int(better.sum())


class ImputedVectors:
    """Each image is one vector, such as the mean of its windows: the rows (m, d) of `vectors`."""

    def __init__(self, vectors: Float64):
        self._vectors = vectors

    def scores(self, w: Float64) -> Float64:
        """Return the vectors' scores."""
        return np.asarray(self._vectors @ w)

    def weighted_sum(self, coefficients: Float64) -> Float64:
        """Return the weighted sum of the vectors."""
        return np.asarray(coefficients @ self._vectors)


Imputed = ImputedWindows | ImputedVectors
"""One feature vector per image."""


def top_counts(bags: Bags, images: Index, top: float) -> Index:
    """Return the number of windows per image: `top` itself, or that share (< 1) of its windows, rounded up."""
    sizes = bags.n_competing[images]
    wanted = np.ceil(top * sizes - 1e-9) if top < 1 else np.full(len(sizes), top)
    return np.asarray(np.clip(wanted, 1, sizes), dtype=np.intp)


def top_windows(bags: Bags, images: Index, w: Float64, counts: Index) -> ImputedWindows:
    """Return the `counts` (m,) best windows of each image at `w`, best first; equal scores in their order."""
    pairs = zip(bags.subset(images).split_scores(w), counts, strict=True)
    chosen = [np.argsort(-values, kind="stable")[:count] for values, count in pairs]
    return ImputedWindows(bags, images, np.concatenate(chosen), counts)


class Trimming:
    """Negative images without their most confusing windows: robustness against objects that the labels do not tell.

    Parameters
    ----------
    bags : Bags
        The negative images.
    share : float
        How much of each image's windows is ignored, rounded down; one is always kept. Nothing is, before `renew`.
    """

    def __init__(self, bags: Bags, share: float):
        sizes = np.diff(bags.offsets)
        self._bags, self._inner = bags, bags.offsets[1:-1]
        # the rounding forgives products such as 0.7 * 10, which lie just below the whole number
        self._counts = np.minimum(np.floor(share * sizes + 1e-9).astype(np.intp), sizes - 1)
        self._ignored = np.zeros(bags.n_windows, dtype=np.bool_)

    def best(self, w: Float64) -> BestWindows:
        """Return each image's best window of those left; the first of equal ones."""
        scores = self._bags.score_windows(w)
        scores[self._ignored] = -np.inf
        parts = np.split(scores, self._inner)
        return BestWindows(
            np.array([values.argmax() for values in parts]), np.array([values.max() for values in parts])
        )

    def renew(self, w: Float64) -> int:
        """Ignore each image's best windows at `w` where that lowers its score; return for how many images it does.

        For fixed weights no other choice lowers a score more, so the objective never rises.
        """
        parts, ignored = np.split(self._bags.score_windows(w), self._inner), np.split(self._ignored, self._inner)
        changed = 0
        for scores, left_out, count in zip(parts, ignored, self._counts, strict=True):
            order: Index = np.argsort(-scores, kind="stable")
            if scores[order[count]] < scores[~left_out].max():
                left_out[:] = False
                left_out[order[:count]] = True
                changed += 1
        return changed
