"""Paired comparisons of two learners: t-tests over folds or seeds, and a bootstrap over pictures.

The bootstrap draws the same pictures with replacement for both learners. `draw_pictures` counts how often each picture
is drawn. The functions ``*_draws`` return a metric for every draw, equal to the evaluation of the repeated pictures;
`figures` makes intervals from them.

Efron, Tibshirani, "An Introduction to the Bootstrap" (1993), sections 13.3 and 15.4; Holm, "A simple sequentially
rejective multiple test procedure" (1979); Nadeau, Bengio, "Inference for the generalization error" (2003).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lapsvm.arrays import Float64, Index, as_flags, as_floats, as_numbers, as_whole_numbers, check_same_length
from lapsvm.errors import InputError, ShapeError
from lapsvm.evaluation.average_precision import labelled_scores, recall_levels
from lapsvm.evaluation.boxes.matching import FALSE_POSITIVE, IGNORED, TRUE_POSITIVE

Counts = NDArray[np.signedinteger]

_MAX_COUNTS = 2**28  # draws times pictures: 1 GiB
_ALLOWED_DRAWS = 2000  # always allowed, for any number of pictures

_ROUNDING = 1e-12  # differences with a smaller relative spread are equal


@dataclass(frozen=True)
class PairedTest:
    """A two-sided paired t-test.

    Attributes
    ----------
    difference : float
        Mean of second - first.
    statistic : float or None
        Student's t with n - 1 degrees of freedom; None if all differences are equal.
    p_value : float
        If all differences are equal: 1 if they are 0, else 0.
    n : int
        Number of pairs.
    """

    difference: float
    statistic: float | None
    p_value: float
    n: int


def paired_t_test(first: ArrayLike, second: ArrayLike, overlap: float = 0.0) -> PairedTest:
    """Test whether two learners' values, pair by pair, have the same mean.

    The training sets of cross-validation folds overlap, so that the values are not independent and the plain test
    rejects too often. `overlap` corrects for this (Nadeau and Bengio 2003): the variance of the mean becomes
    (1/n + overlap) s^2 instead of s^2 / n.

    Parameters
    ----------
    first, second : array-like of shape (n,), n >= 2
        One value per fold, or per seed.
    overlap : float, default 0
        Ratio of test to training pictures of a fold: 1 / (k - 1) for k folds. 0 is the plain test.

    Returns
    -------
    PairedTest

    Raises
    ------
    ShapeError, NotFiniteError, InputError
        If the values are not n >= 2 finite pairs, or `overlap` is negative.
    """
    before, after = as_floats("first", first, 1), as_floats("second", second, 1)
    check_same_length("first", before, "second", after)
    if len(before) < 2:
        raise InputError(f"first and second must have at least 2 values, got {len(before)}.")
    if not overlap >= 0:
        raise InputError(f"overlap must be 0 or more, got {overlap}.")
    differences, n = after - before, len(before)
    mean, spread = float(differences.mean()), float(differences.std(ddof=1))
    if spread <= _ROUNDING * max(np.abs(before).max(), np.abs(after).max()):
        return PairedTest(mean, None, 1.0 if np.abs(differences).max() <= spread else 0.0, n)
    from scipy.special import stdtr

    statistic = mean / (spread * float(np.sqrt(1 / n + overlap)))
    return PairedTest(mean, statistic, float(2 * stdtr(n - 1, -abs(statistic))), n)


def holm(p_values: ArrayLike) -> Float64:
    """Adjust p-values of several hypotheses so that the familywise error rate is controlled (Holm 1979).

    Parameters
    ----------
    p_values : array-like of shape (m,)
        In [0, 1]; m may be 0.

    Returns
    -------
    ndarray of shape (m,), float64
        In the order given: the largest, over the p-values up to this one, of p times the number of p-values that are
        not smaller, at most 1. A hypothesis is rejected at a level if its adjusted p-value is at most that.

    Raises
    ------
    ShapeError, NotFiniteError, InputError
        If they are not p-values.
    """
    values = as_floats("p_values", p_values, 1)
    if ((values < 0) | (values > 1)).any():
        raise InputError(f"p_values must be between 0 and 1, got {values[(values < 0) | (values > 1)][0]:g}.")
    order = np.argsort(values, kind="stable")
    adjusted = np.empty(len(values))
    adjusted[order] = np.maximum.accumulate(np.minimum(1.0, values[order] * np.arange(len(values), 0, -1)))
    return adjusted


def draw_pictures(n: int, draws: int, seed: int, groups: ArrayLike | None = None) -> Counts:
    """Return the counts of n pictures in draws of n with replacement.

    Parameters
    ----------
    n : int, >= 1
        Pictures.
    draws : int, >= 1
        Number of samples of n pictures.
    seed : int
    groups : array-like of shape (n,) of int, optional
        The group of each picture. Groups are then drawn, as many as there are, with all their pictures.

    Returns
    -------
    ndarray of shape (draws, n), int32
        Every row sums to n without groups of several pictures.

    Raises
    ------
    ShapeError, InputError
        If groups are not n whole numbers, there is no picture or no draw, or their product is above 2**28 and there
        are more than 2000 draws.
    """
    for name, value in (("n", n), ("draws", draws)):
        if value < 1:
            raise InputError(f"{name} must be 1 or more, got {value}.")
    most = max(_ALLOWED_DRAWS, _MAX_COUNTS // n)
    if draws > most:
        raise InputError(f"draws of {n:,} pictures must be at most {most:,}, got {draws:,}.")
    group = np.arange(n) if groups is None else np.unique(as_whole_numbers("groups", groups), return_inverse=True)[1]
    check_same_length("groups", group, "pictures", range(n))
    n_groups = int(group.max()) + 1
    counts = np.random.default_rng(seed).multinomial(n_groups, np.full(n_groups, 1 / n_groups), size=draws)
    counts = counts if n_groups == n else counts[:, group]
    return np.asfortranarray(counts, dtype=np.int32)  # metrics gather and sum pictures


def image_ap_draws(scores: ArrayLike, labels: ArrayLike, counts: ArrayLike) -> Float64:
    """Return the image-level AP of every draw: `image_average_precision` of the pictures repeated as often as drawn.

    Parameters
    ----------
    scores, labels : array-like of shape (n,)
        As in `image_average_precision`.
    counts : array-like of shape (draws, n)
        From `draw_pictures`.

    Returns
    -------
    ndarray of shape (draws,), float64
        NaN in a draw without a positive.

    Raises
    ------
    ShapeError, NotFiniteError, InputError
        If an array breaks its rule.
    """
    values, signs = labelled_scores(scores, labels)
    drawn = _as_counts(counts, len(values))
    order = np.argsort(-values, kind="stable")
    order = order[signs[order] != 0]
    is_positive = signs[order] > 0
    ends = np.flatnonzero(np.diff(values[order], append=np.inf) != 0)  # last picture of each group of equal scores
    ends = ends[np.diff(np.cumsum(is_positive)[ends], prepend=0) > 0]  # groups without a positive contribute nothing
    segments = np.searchsorted(ends, np.arange(len(order)))  # a group with a positive ends its segment
    ranked = np.cumsum(_sums(segments, order, len(ends), drawn), axis=0)
    gains = _sums(segments[is_positive], order[is_positive], len(ends), drawn)
    return _ratio((gains * _ratio(np.cumsum(gains, axis=0), ranked, 0.0)).sum(axis=0), gains.sum(axis=0), np.nan)


def image_auroc_draws(scores: ArrayLike, labels: ArrayLike, counts: ArrayLike) -> Float64:
    """Return the area under the ROC curve of every draw: `image_auroc` of the pictures repeated as often as drawn.

    Arguments and errors are those of `image_ap_draws`.

    Returns
    -------
    ndarray of shape (draws,), float64
        NaN in a draw without a positive or without a negative.
    """
    values, signs = labelled_scores(scores, labels)
    drawn = _as_counts(counts, len(values))
    positive, negative = np.flatnonzero(signs > 0), np.flatnonzero(signs < 0)
    levels, level = np.unique(values[positive], return_inverse=True)
    gains = _sums(level, positive, len(levels), drawn)
    won = np.zeros(len(drawn))
    for side in ("left", "right"):  # negatives of at most each level, and below it: equal scores count one half
        outranked = _sums(np.searchsorted(levels, values[negative], side), negative, len(levels), drawn)
        won += 0.5 * np.einsum("ld,ld->d", gains, np.cumsum(outranked, axis=0), dtype=np.float64)
    pairs = gains.sum(axis=0, dtype=np.float64) * (drawn @ (signs < 0).astype(drawn.dtype))
    return _ratio(won, pairs, np.nan)


def detection_ap_draws(
    outcomes: ArrayLike, pictures: ArrayLike, npos: ArrayLike, counts: ArrayLike, grid: str = "matlab"
) -> tuple[Float64, Float64]:
    """Return the two APs of `evaluate_voc` for every draw of pictures.

    Matching within a picture does not depend on the draw. Repeated detections are adjacent in the ranking.

    Parameters
    ----------
    outcomes : array-like of shape (m,)
        Outcomes, best first: 1 true positive, 0 ignored, -1 false positive (``ClassResult.matches.outcome``).
    pictures : array-like of shape (m,), int
        The detection's picture, 0..n-1.
    npos : array-like of shape (n,)
        Objects of every picture that are not difficult.
    counts : array-like of shape (draws, n)
        From `draw_pictures`.
    grid : {"matlab", "octave", "exact"}, default "matlab"
        As in `average_precision_11point`.

    Returns
    -------
    ap_11point, ap_area : ndarrays of shape (draws,), float64
        NaN in a draw without an object.

    Raises
    ------
    ShapeError, NotFiniteError, InputError, OptionError
        If an array breaks its rule, or the grid is unknown.
    """
    levels = recall_levels(grid)
    kinds, objects = as_floats("outcomes", outcomes, 1), as_floats("npos", npos, 1)
    image_indices = as_whole_numbers("pictures", pictures)
    drawn = _as_counts(counts, len(objects))
    check_same_length("outcomes", kinds, "pictures", image_indices)
    if not np.isin(kinds, (TRUE_POSITIVE, IGNORED, FALSE_POSITIVE)).all():
        raise InputError("outcomes must be 1, 0 or -1, got another value.")
    if len(image_indices) and not 0 <= image_indices.min() <= image_indices.max() < len(objects):
        raise InputError(
            f"pictures must be from 0 to {len(objects) - 1}, got {image_indices.min()} to {image_indices.max()}."
        )
    retrieved, ranked = _at_true_positives(kinds, image_indices, drawn)
    has_objects = np.flatnonzero(objects)
    total = objects[has_objects] @ drawn.T[has_objects]
    recall, precision = _ratio(retrieved, total, 0.0), _ratio(retrieved, ranked, 0.0)
    # precision only decreases between true positives, so that they determine the envelope
    envelope = np.maximum.accumulate(precision[::-1])[::-1]
    area = (np.diff(recall, axis=0, prepend=0.0) * envelope).sum(axis=0)
    points = np.mean([_precision_from(recall, envelope, level) for level in levels], axis=0)
    return np.where(total > 0, points, np.nan), np.where(total > 0, area, np.nan)


def share_draws(hits: ArrayLike, pictures: ArrayLike, counts: ArrayLike) -> Float64:
    """Return the share of hits of every draw, for instance CorLoc.

    Parameters
    ----------
    hits : array-like of shape (m,)
        True for a hit, one entry per counted picture.
    pictures : array-like of shape (m,), int
        Index of the picture, 0..n-1.
    counts : array-like of shape (draws, n)
        From `draw_pictures`.

    Returns
    -------
    ndarray of shape (draws,), float64
        NaN in a draw without a counted picture.

    Raises
    ------
    ShapeError
        If hits and pictures differ in length.
    NotFiniteError, InputError
        If a hit is neither True nor False.
    """
    flags, image_indices = as_flags("hits", hits), as_whole_numbers("pictures", pictures)
    check_same_length("hits", flags, "pictures", image_indices)
    weights = as_numbers("counts", counts)[:, image_indices]
    return _ratio((weights * flags).sum(axis=1), weights.sum(axis=1), np.nan)


def _at_true_positives(kinds: Float64, image_indices: Index, drawn: Counts) -> tuple[Counts, Counts]:
    """Return the numbers (true positives, draws) of true positives and counted detections up to each true positive."""
    counted = np.flatnonzero(kinds != IGNORED)
    is_true = kinds[counted] == TRUE_POSITIVE
    segments = np.cumsum(is_true) - is_true  # a true positive ends its segment
    ranked = np.cumsum(_sums(segments, image_indices[counted], int(is_true.sum()), drawn), axis=0)
    return np.cumsum(drawn.T[image_indices[counted][is_true]], axis=0), ranked


def _sums(segments: Index, pictures: Index, n_segments: int, drawn: Counts) -> Counts:
    """Return the summed counts (n_segments, draws) of the pictures of each segment; a larger segment is left out.

    A sparse matrix counts the pictures of a segment; one product sums them for all draws.
    """
    from scipy.sparse import csr_matrix

    kept = segments < n_segments
    ones = np.ones(int(kept.sum()), dtype=drawn.dtype)
    sizes = csr_matrix((ones, (segments[kept], pictures[kept])), shape=(n_segments, drawn.shape[1]))
    return np.asarray(sizes @ drawn.T)


def _precision_from(recall: Float64, envelope: Float64, level: float) -> Float64:
    """Return each draw's best precision at a recall of at least `level`, or 0 if it is never reached."""
    first = (recall < level).sum(axis=0)
    reached = np.flatnonzero(first < len(recall))
    best = np.zeros(len(first))
    best[reached] = envelope[first[reached], reached]
    return best


def _ratio(numerator: ArrayLike, denominator: ArrayLike, undefined: float) -> Float64:
    """Return numerator / denominator, or `undefined` where the denominator is 0."""
    top, bottom = np.broadcast_arrays(np.asarray(numerator, dtype=np.float64), np.asarray(denominator))
    return np.asarray(np.divide(top, bottom, out=np.full(top.shape, undefined), where=bottom > 0))


def _as_counts(counts: ArrayLike, n: int) -> Counts:
    """Return checked counts of shape (draws, n), of a type that holds their sums."""
    array = np.asarray(counts)
    if array.ndim != 2 or array.shape[1] != n or array.dtype.kind not in "iu":
        raise ShapeError(f"counts must be whole numbers of shape (draws, {n}), got {array.shape} of {array.dtype}.")
    return array if array.dtype == np.int32 else array.astype(np.int64, copy=False)
