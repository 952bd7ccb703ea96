"""Intervals of figures. This module alone knows the level.

A share of pictures has an exact interval (`share_interval`), of pictures in groups by their effective number.

A figure of a ranking, AUROC or average precision, has a variance from bootstrap draws. Few pictures in a perfect order
have none: every draw of them is perfect. So half a pseudo-object is added (`smoothed`): of U objects and one more,
which counts one half, the figure has a value inside (0, 1), and the pseudo-object's variance 1 / (2 U^2) is added to
that of the draws. It vanishes as 1 / U^2 where the variance of the draws does as 1 / U. The interval is Wilson's of the
share that has this variance (`ranking_interval`), with Student's quantile. The mean over classes is a figure, too, with
the mean of the smoothed values and pseudo-objects that correlate as the classes do; so is a difference, whose interval
is symmetric (`difference_interval`).

`benchmarks/learning/interval_coverage.py` measures how often all of them hold the truth.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lapsvm.arrays import Float64, Index

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


def share_by_group(hits: NDArray[np.bool_], group: Index, sizes: Index) -> float:
    """Return the share of hits in which each group counts the same: the mean over groups of a group's share.

    The parameters are those of `effective_number`. Of G groups the share varies no more than that of G independent
    pictures, whatever the groups' sizes, so `clopper_pearson` of its G-fold of G holds; (0, 1) of no group.
    """
    return float((np.bincount(group, hits, len(sizes)) / sizes).mean()) if len(sizes) else 0.0


def effective_groups(groups: ArrayLike) -> float:
    """Return the number of equal groups that are as many as these: n^2 over the sum of squared sizes (L. Kish, 1965).

    Parameters
    ----------
    groups : array-like of shape (n,) of int, n >= 1
        The group of each picture.
    """
    sizes = np.unique(groups, return_counts=True)[1].astype(np.float64)
    return float(sizes.sum() ** 2 / (sizes @ sizes))


class Smoothed(NamedTuple):
    """A figure of some objects and a pseudo-object that counts one half, and the pseudo-object's variance."""

    value: float
    variance: float


def smoothed(value: float, units: float) -> Smoothed:
    """Return the figure with a pseudo-object.

    Parameters
    ----------
    value : float
        In [0, 1].
    units : float
        The number of objects, of independent ones if they are in groups.
    """
    return Smoothed((units * value + 0.5) / (units + 1), 0.5 / units**2)


def draws_variance(draws: Float64, n_groups: float) -> float:
    """Return the variance of a figure by its bootstrap draws, 0 without two that are defined.

    A bootstrap of G groups has the variance of G - 1.

    Parameters
    ----------
    draws : (draws,) float64
        NaN where undefined.
    n_groups : float
        Groups, or pictures on their own, that were drawn.
    """
    known = draws[~np.isnan(draws)]
    return float(known.var()) * n_groups / max(n_groups - 1, 1) if len(known) else 0.0


def ranking_interval(value: float, with_pseudo: Smoothed, variance: float, n_groups: float) -> tuple[float, float]:
    """Return the interval of a figure of a ranking, within [0, 1].

    Parameters
    ----------
    value : float
    with_pseudo : Smoothed
    variance : float
        Of the figure, see `draws_variance`.
    n_groups : float
        Effective groups that were drawn; they give the degrees of freedom.
    """
    spread = with_pseudo.value * (1 - with_pseudo.value)
    return wilson(value, student_quantile(n_groups) ** 2 * (variance + with_pseudo.variance) / spread)


def correlation(first: Float64, second: Float64) -> float:
    """Return the correlation of two figures over their draws; 0 where either does not vary, or one is undefined."""
    defined = ~(np.isnan(first) | np.isnan(second))
    centred = [draws[defined] - draws[defined].mean() for draws in (first, second) if defined.any()]
    norm = math.sqrt(math.prod(float(draws @ draws) for draws in centred))  # exact for equal draws
    return min(1.0, float(centred[0] @ centred[1]) / norm) if centred and norm else 0.0


def correlations(figures: Sequence[Float64]) -> Float64:
    """Return the correlations (k, k) of k figures over their draws, 0 as in `correlation`, 1 with themselves."""
    draws = np.ma.masked_invalid(figures)
    centred = np.ma.filled(draws - draws.mean(axis=1, keepdims=True), 0.0)
    norms = np.sqrt((centred**2).sum(axis=1, keepdims=True))
    units = np.divide(centred, norms, out=np.zeros_like(centred), where=norms > 0)
    matrix = units @ units.T
    np.fill_diagonal(matrix, 1.0)
    return np.asarray(matrix)


def pseudo_variance(first: Smoothed, second: Smoothed, shared: float) -> float:
    """Return the variance that pseudo-objects give to a difference of figures with a correlation.

    They correlate as the figures do, so that a figure does not differ from itself.
    """
    deviations = math.sqrt(first.variance), math.sqrt(second.variance)
    return (deviations[0] - deviations[1]) ** 2 + 2 * (1 - shared) * math.prod(deviations)


class DifferenceInterval(NamedTuple):
    """The interval of a difference, and the two-sided p-value: the level at which the interval would end at 0."""

    low: float
    high: float
    p_value: float


def difference_interval(difference: float, variance: float, n_groups: float) -> DifferenceInterval:
    """Return Student's interval of a difference, within [-1, 1].

    Parameters
    ----------
    difference : float
    variance : float
        Of the difference, at least 0.
    n_groups : float
        As in `ranking_interval`.
    """
    from scipy.special import stdtr

    error = math.sqrt(variance)
    half = student_quantile(n_groups) * error
    statistic = abs(difference) / error if error else math.inf
    p_value = 2 * float(stdtr(_freedom(n_groups), -statistic)) if difference else 1.0
    return DifferenceInterval(max(-1.0, difference - half), min(1.0, difference + half), p_value)


def student_quantile(n_groups: float) -> float:
    """Return the standard errors on either side of a mean of groups, or folds, that `LEVEL` takes."""
    from scipy.special import stdtrit

    return float(stdtrit(_freedom(n_groups), (1 + LEVEL) / 2))


def _freedom(n_groups: float) -> float:
    return max(n_groups - 1, _LEAST_FREEDOM)
