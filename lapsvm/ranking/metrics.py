"""Metrics of a ranking by scores; each loss is one minus a metric.

All take ``(scores, labels)`` in this order; labels are binary, 1 is positive, 0 and -1 are negative. The metrics depend
only on the order of the scores. Equal scores are treated as in scikit-learn where it has the metric, and
pessimistically otherwise; each docstring states how.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Array, Float64, Index, as_floats
from lapsvm.errors import OneClassError
from lapsvm.ranking.discounts import as_discount, tabulate
from lapsvm.ranking.inference import as_labels


def average_precision(scores: ArrayLike, labels: ArrayLike) -> float:
    """Return the mean over the positives of the precision at their rank.

    Parameters
    ----------
    scores : array-like of float, shape (n,)
    labels : array-like of bool, int or float, shape (n,)
        Binary: 1 is positive, 0 and -1 are negative; at least one positive.

    Returns
    -------
    float
        Equal scores share the precision at the end of their group, as in scikit-learn's average_precision_score.

    Raises
    ------
    NotFiniteError, ShapeError, InputError
        If scores or labels are not finite numbers of one dimension and the same length, or labels are not binary.
    OneClassError
        If no label is positive.
    """
    positives, total = _groups(*_checked(scores, labels))
    retrieved = np.cumsum(positives)
    return float(np.sum(positives * retrieved / np.cumsum(total)) / retrieved[-1])


def ndcg(
    scores: ArrayLike,
    labels: ArrayLike,
    discount: str | ArrayLike | Callable[[Index], ArrayLike] = "log",
    k: int | None = None,
) -> float:
    """Return the normalised discounted cumulative gain of the positives.

    Parameters
    ----------
    scores, labels : array-like, shape (n,)
        As in :func:`average_precision`.
    discount, k
        As in :class:`lapsvm.ranking.NDCGLoss`. Its cut-off shifts the discount, whereas scikit-learn's ``k`` sets it
        to 0.

    Returns
    -------
    float
        Equal scores share the mean discount of their ranks, as in scikit-learn's ndcg_score.

    Raises
    ------
    NotFiniteError, ShapeError, InputError, OneClassError
        As in :func:`average_precision`; InputError also for a discount that is not convex and non-increasing.
    """
    positives, total = _groups(*_checked(scores, labels))
    last = np.cumsum(total)
    gains = np.cumsum(tabulate(as_discount(discount, k), int(last[-1])))
    mean_discount = (gains[last] - gains[last - total]) / total
    return float(np.sum(positives * mean_discount) / gains[int(positives.sum())])


def roc_auc(scores: ArrayLike, labels: ArrayLike) -> float:
    """Return the share of pairs (positive, negative) in the right order.

    Parameters
    ----------
    scores, labels : array-like, shape (n,)
        As in :func:`average_precision`, with at least one negative too.

    Returns
    -------
    float
        A pair of equal scores counts one half, as in scikit-learn's roc_auc_score.

    Raises
    ------
    NotFiniteError, ShapeError, InputError
        As in :func:`average_precision`.
    OneClassError
        If no label is positive, or none is negative.
    """
    values, positive = _checked(scores, labels)
    if positive.all():
        raise OneClassError(f"labels must hold at least one negative, got {len(positive)} positives.")
    positives, total = _groups(values, positive)
    negatives = total - positives
    below = negatives.sum() - np.cumsum(negatives)
    return float(np.sum(positives * (below + 0.5 * negatives)) / (float(positives.sum()) * float(negatives.sum())))


def reciprocal_rank(scores: ArrayLike, labels: ArrayLike) -> float:
    """Return 1 / rank of the best positive; negatives with the same score rank above it.

    Parameters
    ----------
    scores, labels : array-like, shape (n,)
        As in :func:`average_precision`.

    Returns
    -------
    float

    Raises
    ------
    NotFiniteError, ShapeError, InputError, OneClassError
        As in :func:`average_precision`.
    """
    values, positive = _checked(scores, labels)
    best = values[positive].max()
    return 1.0 / (1.0 + float(np.count_nonzero(values[~positive] >= best)))


def positives_at_top(scores: ArrayLike, labels: ArrayLike) -> float:
    """Return the share of positives above every negative; a positive that ties with one is not above it.

    Parameters
    ----------
    scores, labels : array-like, shape (n,)
        As in :func:`average_precision`.

    Returns
    -------
    float

    Raises
    ------
    NotFiniteError, ShapeError, InputError, OneClassError
        As in :func:`average_precision`.
    """
    values, positive = _checked(scores, labels)
    return float(np.mean(values[positive] > values[~positive].max(initial=-np.inf)))


def _checked(scores: ArrayLike, labels: ArrayLike) -> tuple[Float64, Array]:
    """Return the checked scores, and a mask of the positive samples."""
    values = as_floats("scores", scores, ndim=1)
    positive = np.asarray(as_labels(labels, len(values)) > 0)
    if not positive.any():
        raise OneClassError(f"labels must hold at least one positive (> 0), got none among {len(values)}.")
    return values, positive


def _groups(values: Float64, positive: Array) -> tuple[Index, Index]:
    """Return the numbers of positives and of samples in each group of equal scores, best group first."""
    order = np.argsort(-values, kind="stable")
    ordered = values[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    total = np.diff(np.append(starts, len(values)))
    return np.add.reduceat(positive[order].astype(np.intp), starts), total
