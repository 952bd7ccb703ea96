"""Loss-augmented inference: find the ranking that violates its constraint most."""

from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike

from lapsvm._ext import inference as _kernel
from lapsvm.arrays import Array, Float32, Float64, Index, as_array, check_binary, check_choice, check_finite, is_binary
from lapsvm.errors import InputError, NotFiniteError, OneClassError, OptionError, ShapeError
from lapsvm.ranking import derivatives, reference
from lapsvm.ranking.losses import APLoss, NDCGLoss, RankLoss, ZeroOneLoss, as_loss

LARGEST: float = _kernel.LARGEST
"""Magnitude up to which scores are taken."""

METHODS = ("auto", "optranks", "search", "greedy", "reference")
# method numbers of cython_ext/inference.pyx
_COMPILED = {"auto": 0, "optranks": 1, "search": 2, "greedy": 3}
# the counting method of "auto" uses 32-bit counts
_MAX_COUNT = 2**31
_ONLY_FOR: dict[str, tuple[type[RankLoss], ...]] = {"search": (APLoss,), "greedy": (APLoss, NDCGLoss)}


@dataclass(frozen=True, slots=True)
class ViolatedRanking:
    """The ranking R with the largest Delta(R) + F(R) - F(R*), R* having every positive on top.

    Attributes
    ----------
    ranks : ndarray of int, shape (n_neg,)
        Interleaving ranks 1 .. P + 1 of the negatives, in their input order: one plus the number of positives above.
    loss : float
        Delta of the ranking.
    violation : float
        Delta + F(R) - F(R*), at least 0.
    coefficients : ndarray of float64, shape (n,)
        Psi(R*) - Psi(R) = sum_k coefficients[k] phi_k, in input order; so violation = loss - coefficients @ scores.
    """

    ranks: Index
    loss: float
    violation: float
    coefficients: Float64


def most_violated_ranking(
    scores: ArrayLike, labels: ArrayLike, loss: str | RankLoss | ZeroOneLoss = "ap", method: str = "auto"
) -> ViolatedRanking:
    """Return the ranking that violates its constraint most, exactly.

    Parameters
    ----------
    scores : array-like of float, shape (n,)
        Finite scores up to 1e290 in magnitude; the computation uses float64 and does not modify them.
    labels : array-like of bool, int or float, shape (n,)
        Binary: 1 is positive, 0 and -1 are negative; at least one of each.
    loss : str or RankLoss, default="ap"
        A name of `lapsvm.ranking.losses.NAMED`, or a loss object.
    method : str, default="auto"
        "auto" is the fastest exact method; "optranks" is divide and conquer (any rank loss); "search" adds binary
        searches over ranks (AP only); "greedy" is the papers' baseline (AP and NDCG); "reference" is the readable
        twin in plain Python.

    Returns
    -------
    ViolatedRanking

    Raises
    ------
    NotFiniteError
        If a score is NaN, infinite or beyond 1e290.
    OneClassError
        If no label is positive, or none is negative.
    ShapeError
        If scores or labels have more than one dimension, or their lengths differ.
    OptionError
        If the loss or the method does not exist, or the method does not support the loss.
    InputError
        If a label is not binary; or if a user's loss violates condition C2 in a checked derivative, falls below 0,
        changes between calls, or returns anything but finite numbers.

    Notes
    -----
    Mohapatra et al., CVPR 2018, problem (6) and Algorithm 1. Among equal scores the first in input order counts as
    the higher one; the violation does not depend on this order. If several rankings have the largest violation, any of
    them may be returned. If rounding makes the violation negative, the result is R* with violation 0.

    The 0-1 loss has labellings instead of rankings: Delta is the share of misclassified samples, violation is the mean
    hinge (1/n) sum_k max(0, 1 - y_k s_k), coefficients are y_k / n where 1 - y_k s_k > 0, and `ranks` are 1 for
    negatives taken as positive and P + 1 for the others.
    """
    array = as_scores(scores)
    positive = positive_indices(labels, len(array))
    rank_loss = as_loss(loss)
    check_choice("method", method, METHODS)
    if isinstance(rank_loss, ZeroOneLoss):
        return _misclassified(array, positive, method)
    if method == "reference":
        return _by_reference(array, positive, rank_loss)
    return _compiled(array, positive, rank_loss, method)


def as_scores(scores: ArrayLike) -> Float64:
    """Return the scores as a contiguous float64 array of one dimension; whether they are finite is checked later."""
    array = as_array("scores", scores)
    if array.dtype != np.float64 or not array.flags.c_contiguous:
        if array.dtype.kind not in "biuf":
            raise InputError(f"scores must be real numbers, got dtype {array.dtype}.")
        array = np.ascontiguousarray(array, dtype=np.float64)
    if array.ndim != 1:
        raise ShapeError(f"scores must have 1 dimension, got shape {array.shape}.")
    return array


def as_labels(labels: ArrayLike, n: int) -> Array:
    """Return the labels (n,) as an array after all checks of each of them."""
    array = as_array("labels", labels)
    if array.shape != (n,):
        raise ShapeError(f"labels must have shape ({n},) like scores, got {array.shape}.")
    if array.dtype.kind not in "biuf":
        raise InputError(f"labels must be numbers or booleans, got dtype {array.dtype}.")
    if not is_binary(array):
        check_finite("labels", array)
        check_binary("labels", array)
    return array


def positive_indices(labels: ArrayLike, n: int) -> Index:
    """Return the indices of the positive labels in ascending order, after all checks of the labels."""
    array = as_labels(labels, n)
    positive: Index = (array if array.dtype.kind == "b" else array > 0).nonzero()[0]
    if not 0 < len(positive) < n:
        missing = "negative" if n and len(positive) == n else "positive"
        raise OneClassError(
            f"labels must hold at least one positive (> 0) and one negative, got no {missing} among {n}."
        )
    return positive


def _compiled(scores: Float64, positive: Index, loss: RankLoss, method: str) -> ViolatedRanking:
    """Run the kernel."""
    n_pos, n_neg = len(positive), len(scores) - len(positive)
    supported = _ONLY_FOR.get(method)
    if supported and not isinstance(loss, supported):
        names = " and ".join(kind.name for kind in supported)
        raise OptionError(f"method {method!r} exists for the loss {names} only, got {loss!r}.")
    code = _COMPILED["optranks" if method == "auto" and len(scores) >= _MAX_COUNT else method]
    kernel = loss.kernel(n_pos, n_neg)
    if kernel.gains is not None:
        _check_user_loss(loss, n_pos, n_neg, method)
    result = _kernel.most_violated(scores, positive, kernel.kind, kernel.norm, kernel.discount, kernel.gains, code)
    if result is None:
        raise_not_finite(scores)
    ranks, coefficients, above, delta, weighted = result
    if isinstance(kernel.gains, derivatives.DerivativeCache):
        kernel.gains.check()
    if kernel.gains is not None:
        delta = derivatives.value(loss, above, n_neg)
    return _violated(ranks, coefficients, delta, delta - weighted, n_pos)


def violation_and_gradient(scores: Float32, positive: Index, loss: RankLoss, scale: float) -> tuple[float, Float32]:
    """Return the violation of the most violated ranking by scale * scores, and its gradient in float32.

    The same as `most_violated_ranking` of the scores in float64, and -scale times its coefficients, in half the memory.

    Parameters
    ----------
    scores : (n,) float32, contiguous
    positive : (n_pos,) int
        Indices of the positives, ascending, at least one and not all.
    loss : RankLoss
    scale : float

    Raises
    ------
    NotFiniteError, InputError
        As `most_violated_ranking`.
    """
    n_pos, n_neg = len(positive), len(scores) - len(positive)
    kernel = loss.kernel(n_pos, n_neg)
    if kernel.gains is not None or len(scores) >= _MAX_COUNT:
        ranking = _compiled(np.multiply(scores, scale, dtype=np.float64), positive, loss, "auto")
        return ranking.violation, np.multiply(ranking.coefficients, -scale).astype(np.float32)
    result = _kernel.violation_gradient(scores, scale, positive, kernel.kind, kernel.norm, kernel.discount)
    if result is None:
        raise_not_finite(np.multiply(scores, scale, dtype=np.float64))
    gradient, delta, weighted = result
    if delta - weighted < 0:
        gradient.fill(0.0)
    return max(delta - weighted, 0.0), gradient


def _check_user_loss(loss: RankLoss, n_pos: int, n_neg: int, method: str) -> None:
    """Raise unless the method evaluates derivatives and the checked derivatives satisfy C2."""
    if method in _ONLY_FOR:
        raise OptionError(f"method {method!r} does not evaluate derivatives, so it does not support {loss!r}.")
    derivatives.check_loss(loss, n_pos, n_neg)


def _by_reference(scores: Float64, positive: Index, loss: RankLoss) -> ViolatedRanking:
    """Run the readable twin in plain Python."""
    check_usable(scores)
    if type(loss).kernel is RankLoss.kernel:
        _check_user_loss(loss, len(positive), len(scores) - len(positive), "reference")
    ranks, coefficients, above = reference.most_violated(scores, positive, loss)
    delta = derivatives.value(loss, above, len(scores) - len(positive))
    centre = scores[positive].min()
    return _violated(ranks, coefficients, delta, delta - float(coefficients @ (scores - centre)), len(positive))


def _violated(ranks: Index, coefficients: Float64, delta: float, violation: float, n_pos: int) -> ViolatedRanking:
    """Return the result, or R* with violation 0 if rounding makes the violation negative."""
    if violation < 0:
        ranks.fill(n_pos + 1)
        coefficients.fill(0.0)
        delta = violation = 0.0
    return ViolatedRanking(ranks, delta, violation, coefficients)


def _misclassified(scores: Float64, positive: Index, method: str) -> ViolatedRanking:
    """Return the most violated labelling of the 0-1 loss."""
    if method in ("search", "greedy"):
        raise OptionError(f"method {method!r} does not support the loss 'zero_one', which is solved per sample.")
    check_usable(scores)
    n = len(scores)
    signs = np.full(n, -1.0)
    signs[positive] = 1.0
    slack: Float64 = 1.0 - signs * scores
    wrong = slack > 0
    coefficients: Float64 = np.where(wrong, signs / n, 0.0)
    ranks = np.where(np.delete(wrong, positive), 1, len(positive) + 1)
    violation = float(slack[wrong].sum()) / n
    return ViolatedRanking(ranks, float(wrong.mean()), violation, coefficients)


def check_usable(scores: Float64) -> None:
    """Raise NotFiniteError unless every score is finite and within the kernels' limit."""
    if not (np.abs(scores) <= LARGEST).all():
        raise_not_finite(scores)


def raise_not_finite(scores: Array) -> NoReturn:
    """Raise NotFiniteError for the first score that is not finite or too large."""
    check_finite("scores", scores)
    k = int(np.argmax(np.abs(scores) > LARGEST))
    if abs(scores[k]) <= LARGEST:
        raise NotFiniteError("scores must not change while they are read, got different values in two reads.")
    raise NotFiniteError(f"scores must be at most {LARGEST:g} in magnitude, got {scores[k]} at index {k}.")
