"""The predicted ranking, and loss-diminished inference: the ranking with a large score and a small loss."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lapsvm._ext import diminished as _kernel
from lapsvm.arrays import Float64, Index, check_choice
from lapsvm.blas import dot
from lapsvm.ranking import derivatives, reference
from lapsvm.ranking.inference import as_scores, check_usable, positive_indices, raise_not_finite
from lapsvm.ranking.losses import RankLoss, ZeroOneLoss, as_loss

METHODS = ("auto", "reference")


@dataclass(frozen=True, slots=True)
class ScoredRanking:
    """A ranking R, next to R*, which has every positive on top.

    Attributes
    ----------
    ranks : ndarray of int, shape (n_neg,)
        Interleaving ranks 1 .. P + 1 of the negatives, in their input order: one plus the number of positives above.
    loss : float
        Delta of the ranking.
    advantage : float
        F(R) - F(R*).
    coefficients : ndarray of float64, shape (n,)
        Psi(R*) - Psi(R) = sum_k coefficients[k] phi_k, in input order; so advantage = -coefficients @ scores.
    """

    ranks: Index
    loss: float
    advantage: float
    coefficients: Float64


def predicted_ranking(
    scores: ArrayLike, labels: ArrayLike, loss: str | RankLoss | ZeroOneLoss = "ap", method: str = "auto"
) -> ScoredRanking:
    """Return the ranking by the scores, which maximises F, and its loss.

    Parameters
    ----------
    scores, labels, loss
        As in :func:`most_violated_ranking`.
    method : "auto" or "reference", default="auto"
        The kernel, or its readable twin in plain Python.

    Returns
    -------
    ScoredRanking
        Among equal scores the first in input order counts as the higher one, so that the loss may differ from one
        minus the metric, which shares ties out. The 0-1 loss has the labelling by the scores' signs.

    Raises
    ------
    NotFiniteError, OneClassError, ShapeError, OptionError, InputError
        As in :func:`most_violated_ranking`.
    """
    return _rank(scores, labels, loss, method, diminished=False)


def loss_diminished_ranking(
    scores: ArrayLike, labels: ArrayLike, loss: str | RankLoss | ZeroOneLoss = "ap", method: str = "auto"
) -> ScoredRanking:
    """Return the ranking with the largest F(R) - Delta(R), exactly.

    Parameters
    ----------
    scores, labels, loss
        As in :func:`most_violated_ranking`; the loss need not satisfy C2, nor be 0 or more.
    method : "auto" or "reference", default="auto"
        The kernel, or its readable twin in plain Python.

    Returns
    -------
    ScoredRanking
        If several rankings are best, one of those with the fewest swapped pairs.

    Raises
    ------
    NotFiniteError, OneClassError, ShapeError, OptionError, InputError
        As in :func:`most_violated_ranking`.

    Notes
    -----
    Inference of direct loss minimisation's downward step (Song et al., ICML 2016). Only the M negatives above some
    positive take part. For NDCG, AUC, MRR and Pos@Top a swapped pair never costs more at a worse positive, so that
    each positive chooses by itself how many negatives stand above it, by divide and conquer:
    O(N log P + M log M + M log P). AP has no such rule: two searches per positive confine its number to a band, and
    dynamic programming inside the bands takes O(P M) at worst, and one bit of memory per pair. A user's loss takes
    O(P N) and one call of `derivative` per negative.
    """
    return _rank(scores, labels, loss, method, diminished=True)


def _rank(scores: ArrayLike, labels: ArrayLike, loss: object, method: str, diminished: bool) -> ScoredRanking:
    """Check the arguments and run the method."""
    array = as_scores(scores)
    positive = positive_indices(labels, len(array))
    rank_loss = as_loss(loss)
    check_choice("method", method, METHODS)
    if isinstance(rank_loss, ZeroOneLoss):
        return _labelled(array, positive, diminished)
    if method == "reference":
        return _by_reference(array, positive, rank_loss, diminished)
    return _compiled(array, positive, rank_loss, diminished)


def _compiled(scores: Float64, positive: Index, loss: RankLoss, diminished: bool) -> ScoredRanking:
    """Run the kernel."""
    n_pos, n_neg = len(positive), len(scores) - len(positive)
    kernel = loss.kernel(n_pos, n_neg)
    result = _kernel.rank(scores, positive, kernel.kind, kernel.norm, kernel.discount, kernel.gains, diminished)
    if result is None:
        raise_not_finite(scores)
    ranks, coefficients, above, delta = result
    if kernel.gains is not None:
        if isinstance(kernel.gains, derivatives.DerivativeCache):
            kernel.gains.check_finite()
        delta = derivatives.value(loss, above, n_neg)
    return ScoredRanking(ranks, delta, _advantage(coefficients, scores, positive), coefficients)


def subtract_predicted(scores: Float64, positive: Index, loss: RankLoss, coefficients: Float64) -> float:
    """Subtract the coefficients of the predicted ranking in place, and return its loss.

    Parameters
    ----------
    scores : (n,) float64, contiguous
    positive : (n_pos,) int
        Indices of the positives, ascending, at least one and not all.
    loss : RankLoss
    coefficients : (n,) float64, contiguous

    Raises
    ------
    NotFiniteError, InputError
        As :func:`predicted_ranking`.
    """
    n_neg = len(scores) - len(positive)
    kernel = loss.kernel(len(positive), n_neg)
    result = _kernel.subtract_predicted(scores, positive, kernel.kind, kernel.norm, kernel.discount, coefficients)
    if result is None:
        raise_not_finite(scores)
    above, delta = result
    return delta if kernel.gains is None else derivatives.value(loss, above, n_neg)


def _by_reference(scores: Float64, positive: Index, loss: RankLoss, diminished: bool) -> ScoredRanking:
    """Run the readable twin in plain Python."""
    check_usable(scores)
    n_pos, n_neg = len(positive), len(scores) - len(positive)
    if diminished:
        derivatives.evaluated(loss, n_pos, n_neg, range(1, n_neg + 1)).check_finite()
    ranks, coefficients, above = reference.predicted(scores, positive, loss if diminished else None)
    delta = derivatives.value(loss, above, n_neg)
    return ScoredRanking(ranks, delta, _advantage(coefficients, scores, positive), coefficients)


def _labelled(scores: Float64, positive: Index, diminished: bool) -> ScoredRanking:
    """Return the labelling of the 0-1 loss: a sample is positive if its score is above 0."""
    check_usable(scores)
    n = len(scores)
    signs = np.full(n, -1.0)
    signs[positive] = 1.0
    margins = signs * scores
    wrong = margins < -1 if diminished else np.where(signs > 0, scores <= 0, scores > 0)
    coefficients = np.where(wrong, signs / n, 0.0)
    ranks = np.where(np.delete(wrong, positive), 1, len(positive) + 1)
    return ScoredRanking(ranks, float(wrong.mean()), -dot(coefficients, scores), coefficients)


def _advantage(coefficients: Float64, scores: Float64, positive: Index) -> float:
    """Return F(R) - F(R*) of a ranking; its coefficients sum to 0, so that a shift of the scores is harmless."""
    return -dot(coefficients, scores - scores[positive].min())
