"""Average precision of a precision-recall curve by the VOC devkits of 2007 and 2010, and image-level AP.

The devkit of 2007 defines its grid as ``t = 0:0.1:1`` and compares ``recall >= t``. The last bit of t decides whether a
recall of exactly 3/10, 6/10 or 7/10 reaches it:

========  ======================  =====  =====  =========================================================
grid      0.3                     0.6    0.7    defined by
========  ======================  =====  =====  =========================================================
"matlab"  .30000000000000004      .6     .7     the devkit in MATLAB, whose colon range starts from both
                                                ends (the default)
"octave"  .30000000000000004      .6...1 .7...1 i * 0.1: the devkit in Octave, and ``np.arange(0, 1.1, 0.1)``
                                                of py-faster-rcnn, detectron2 and others
"exact"   .3                      .6     .7     i / 10: a recall of exactly i/10 always counts
========  ======================  =====  =====  =========================================================

They differ only if the recall of a detection is exactly one of these values, by at most 1/11 for each.
"""

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Float64, as_floats, check_choice, check_same_length
from lapsvm.errors import InputError

RECALL_GRIDS: dict[str, tuple[float, ...]] = {
    "matlab": (*(i * 0.1 for i in range(6)), *(1 - i * 0.1 for i in range(4, -1, -1))),
    "octave": tuple(i * 0.1 for i in range(11)),
    "exact": tuple(i / 10 for i in range(11)),
}


def recall_levels(grid: str) -> tuple[float, ...]:
    """Return the recalls of a grid, or raise OptionError if its name is not known."""
    check_choice("grid", grid, RECALL_GRIDS)
    return RECALL_GRIDS[grid]


def average_precision_11point(recall: ArrayLike, precision: ArrayLike, grid: str = "matlab") -> float:
    """Return the VOC2007 average precision: the mean over eleven recalls of the best precision at or above each.

    Parameters
    ----------
    recall : array-like of shape (n,)
        Non-decreasing.
    precision : array-like of shape (n,)
    grid : {"matlab", "octave", "exact"}, default "matlab"
        The floating-point values of 0, 0.1, ..., 1; see the module.

    Returns
    -------
    float
        In [0, 1]; 0 for an empty curve.

    Raises
    ------
    OptionError
        If the grid is unknown.
    ShapeError, NotFiniteError, InputError
        If the arrays are not a curve.
    """
    levels = recall_levels(grid)
    recall, envelope = _curve(recall, precision)
    first = np.searchsorted(recall, levels, side="left")
    return float(np.append(envelope, 0.0)[first].mean())


def average_precision_area(recall: ArrayLike, precision: ArrayLike) -> float:
    """Return the average precision of VOC2010 and later: the area under the monotone envelope (VOCap.m).

    Parameters
    ----------
    recall : array-like of shape (n,)
        Non-decreasing.
    precision : array-like of shape (n,)

    Returns
    -------
    float
        In [0, 1]; 0 for an empty curve.

    Raises
    ------
    ShapeError, NotFiniteError, InputError
        If the arrays are not a curve.
    """
    recall, envelope = _curve(recall, precision)
    return float((np.diff(recall, prepend=0.0) * envelope).sum())


def _curve(recall: ArrayLike, precision: ArrayLike) -> tuple[Float64, Float64]:
    """Return the checked recall, and the best precision at each recall or above."""
    recalls, precisions = as_floats("recall", recall, 1), as_floats("precision", precision, 1)
    check_same_length("recall", recalls, "precision", precisions)
    if (np.diff(recalls) < 0).any():
        raise InputError(
            f"recall must not decrease, got {recalls[np.argmax(np.diff(recalls) < 0) + 1]} after a larger value."
        )
    return recalls, np.maximum.accumulate(precisions[::-1])[::-1]


def image_average_precision(scores: ArrayLike, labels: ArrayLike) -> float | None:
    """Return the image-level average precision: pictures ranked by the score of their best window.

    Parameters
    ----------
    scores : array-like of shape (n,)
    labels : array-like of shape (n,)
        +1, -1, or 0 for a picture that is left out.

    Returns
    -------
    float or None
        scikit-learn's ``average_precision_score`` over the pictures labelled +1 or -1; None without a positive.

    Raises
    ------
    ShapeError, NotFiniteError, InputError
        If an array breaks its rule.
    """
    values, signs = labelled_scores(scores, labels)
    if not (signs > 0).any():
        return None
    from sklearn.metrics import average_precision_score

    labelled = signs != 0
    return min(float(average_precision_score(signs[labelled] > 0, values[labelled])), 1.0)  # rounding may pass 1


def image_auroc(scores: ArrayLike, labels: ArrayLike) -> float | None:
    """Return the share of pairs of a picture with and one without the class that scores put in order.

    Parameters
    ----------
    scores, labels : array-like of shape (n,)
        As in `image_average_precision`, with its errors.

    Returns
    -------
    float or None
        scikit-learn's ``roc_auc_score``: equal scores count one half. None without a positive or a negative.
    """
    values, signs = labelled_scores(scores, labels)
    if not ((signs > 0).any() and (signs < 0).any()):
        return None
    from sklearn.metrics import roc_auc_score

    labelled = signs != 0
    return float(roc_auc_score(signs[labelled] > 0, values[labelled]))


def labelled_scores(scores: ArrayLike, labels: ArrayLike) -> tuple[Float64, Float64]:
    """Return the checked scores and labels (n,) of pictures."""
    values, signs = as_floats("scores", scores, 1), as_floats("labels", labels, 1)
    check_same_length("scores", values, "labels", signs)
    wrong = signs[~np.isin(signs, (-1, 0, 1))]
    if len(wrong):
        raise InputError(f"labels must be +1, -1 or 0, got {wrong[0]}.")
    return values, signs
