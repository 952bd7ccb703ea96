"""Intervals of shares: exact ones, of independent pictures and of pictures in groups. This module knows the level."""

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lapsvm.arrays import Index

LEVEL = 0.95
"""Confidence level of every interval that the program prints."""
NORMAL = NormalDist().inv_cdf((1 + LEVEL) / 2)
"""Standard deviations on either side of a normal value that `LEVEL` takes."""
_LEAST_FREEDOM = 0.2  # below it Student's quantiles leave float64


def clopper_pearson(count: float, of: float) -> tuple[float, float]:
    """Return the exact interval of a share: C. J. Clopper and E. S. Pearson (1934).

    Parameters
    ----------
    count, of : float
        `count` of `of` independent pictures, 0 <= `count` <= `of`. Neither need be whole, see `effective_number`.

    Returns
    -------
    tuple of 2 floats
        (0, 1) of no picture.
    """
    from scipy.special import betaincinv

    tail = (1 - LEVEL) / 2
    low = float(betaincinv(count, of - count + 1, tail)) if count else 0.0
    high = float(betaincinv(count + 1, of - count, 1 - tail)) if count < of else 1.0
    return low, high


def share_interval(hits: ArrayLike, groups: ArrayLike | None = None) -> tuple[float, float]:
    """Return the interval of the share of hits among pictures, which may be in groups.

    Parameters
    ----------
    hits : array-like of shape (n,), bool
    groups : array-like of shape (n,) of int, optional
        The group of each picture; without it each is on its own.
    """
    flags = np.asarray(hits, bool)
    if groups is None or not len(flags):
        return clopper_pearson(float(flags.sum()), float(len(flags)))
    _, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    of = float(len(flags)) if len(sizes) == len(flags) else effective_number(flags, group, sizes)
    return clopper_pearson(of * float(flags.mean()), of)


def effective_number(hits: NDArray[np.bool_], group: Index, sizes: Index) -> float:
    """Return the number of independent pictures that tell as much of a share as pictures in groups do.

    E. L. Korn and B. I. Graubard, Confidence Intervals for Proportions with Small Expected Number of Positive Counts
    Estimated from Survey Data, 1998: the number by which the share varies as it does between groups, smaller the fewer
    groups there are, and at most n. Groups of unequal sizes count as n^2 over the sum of squared sizes, so that one
    that has most pictures leaves almost nothing known. Of a share of 0 or 1, where nothing varies, it is the number of
    groups.

    Parameters
    ----------
    hits : (n,) bool
    group : (n,) int
        The group of each picture, 0 .. G - 1.
    sizes : (G,) int
    """
    from scipy.special import stdtrit

    n, n_groups, share = len(hits), len(sizes), float(hits.mean())
    if n_groups == 1 or share in (0, 1):
        return float(n_groups)
    freedom = max(n**2 / float(sizes @ sizes) - 1, _LEAST_FREEDOM)
    excess = np.bincount(group, hits - share)
    variance = n_groups / (n_groups - 1) * float(excess @ excess) / n**2
    tail = 1 - (1 - LEVEL) / 2
    known = (stdtrit(n - 1, tail) / stdtrit(freedom, tail)) ** 2
    return min(float(n), float(known) * share * (1 - share) / variance) if variance else float(n)


def wilson(share: float, inverse: float) -> tuple[float, float]:
    """Return E. B. Wilson's interval of a share (Probable Inference, 1927), within [0, 1].

    Parameters
    ----------
    share : float
    inverse : float
        `NORMAL` squared over the number of independent pictures.
    """
    centre, half = share + inverse / 2, math.sqrt(inverse * (share * (1 - share) + inverse / 4))
    return max(0.0, (centre - half) / (1 + inverse)), min(1.0, (centre + half) / (1 + inverse))
