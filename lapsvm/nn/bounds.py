"""Upper and lower bounds of Delta for one ranking, without torch: value, and how it changes with the scores.

A bound returns its value and the coefficients c of value = constant - c @ scores. Scores are those of F, so that
scores / eps give the bounds of direct loss minimisation: (max_R F + eps Delta - max_R F) / eps and its mirror image.
"""

from collections.abc import Callable

import numpy as np

from lapsvm.arrays import Array, Float64
from lapsvm.blas import dot
from lapsvm.nn.rankings import Flags, Labels, one_ranking
from lapsvm.ranking import (
    NDCGLoss,
    RankLoss,
    ZeroOneLoss,
    loss_diminished_ranking,
    most_violated_ranking,
    predicted_ranking,
)
from lapsvm.ranking.graded import GRADED_BOUNDS, GradedRankings
from lapsvm.ranking.inference import as_scores, check_usable, violation_and_gradient
from lapsvm.ranking.predicted import subtract_predicted

AnyLoss = RankLoss | ZeroOneLoss
Bound = Callable[[AnyLoss, Float64, Flags], tuple[float, Float64]]


def hinge(loss: AnyLoss, scores: Float64, positive: Flags) -> tuple[float, Float64]:
    """Return max_R (Delta + F) - F(R*) and its coefficients."""
    found = most_violated_ranking(scores, positive, loss)
    return found.violation, found.coefficients


def up(loss: AnyLoss, scores: Float64, positive: Flags) -> tuple[float, Float64]:
    """Return max_R (Delta + F) - max_R F, at least Delta of the predicted ranking, and its coefficients."""
    high = most_violated_ranking(scores, positive, loss)
    delta_of_predicted, coefficients = _less_predicted(high.coefficients, scores, positive, loss)
    value = high.loss - _product(coefficients, scores, positive, loss)
    return max(value, delta_of_predicted), coefficients


def down(loss: AnyLoss, scores: Float64, positive: Flags) -> tuple[float, Float64]:
    """Return max_R F - max_R (F - Delta), at most Delta of the predicted ranking, and its coefficients."""
    low = loss_diminished_ranking(scores, positive, loss)
    delta_of_predicted, coefficients = _less_predicted(low.coefficients, scores, positive, loss)
    np.negative(coefficients, out=coefficients)
    value = low.loss - _product(coefficients, scores, positive, loss)
    return min(value, delta_of_predicted), coefficients


def delta(loss: AnyLoss, scores: Float64, positive: Flags) -> tuple[float, Float64]:
    """Return Delta of the predicted ranking, and that ranking's coefficients."""
    predicted = predicted_ranking(scores, positive, loss)
    return predicted.loss, predicted.coefficients


def _less_predicted(coefficients: Float64, scores: Float64, positive: Flags, loss: AnyLoss) -> tuple[float, Float64]:
    """Return Delta of the predicted ranking, and the coefficients less its own, in the same memory if possible."""
    if isinstance(loss, RankLoss):
        return subtract_predicted(as_scores(scores), positive.nonzero()[0], loss, coefficients), coefficients
    predicted = predicted_ranking(scores, positive, loss)
    return predicted.loss, coefficients - predicted.coefficients


def _product(coefficients: Float64, scores: Float64, positive: Flags, loss: AnyLoss) -> float:
    """Return coefficients @ scores; those of rankings sum to 0, so that a shift of the scores reduces rounding."""
    centre = 0.0 if isinstance(loss, ZeroOneLoss) else scores[positive].min()
    return dot(coefficients, scores - centre)


BOUNDS: dict[str, Bound] = {"hinge": hinge, "up": up, "down": down, "delta": delta}


def bounded(bound: str, loss: AnyLoss, scores: Float64, labels: Labels) -> tuple[float, Float64]:
    """Return the value and coefficients of a bound; gains of which one is not 0 are binary labels."""
    positive = labels > 0
    if not isinstance(loss, NDCGLoss) or (not positive.all() and np.ptp(labels[positive].astype(np.float64)) == 0):
        return BOUNDS[bound](loss, scores, positive)
    check_usable(scores)
    return GRADED_BOUNDS[bound](GradedRankings(loss, scores, labels.astype(np.float64)), scores)


def solve_one(bound: str, loss: AnyLoss, scores: Array, labels: Array, scale: float) -> tuple[float, Array] | None:
    """Return value and gradient of one ranking in the scores' type, or None where `solve_rankings` has to look closer.

    The result is that of `solve_rankings`. Small batches take a third of the time; the hinge reads float32 scores and
    writes their gradient in the kernel, without arrays in float64.
    """
    positive = one_ranking(scores, labels)
    if positive is None:
        return None
    if bound == "hinge" and scores.dtype == np.float32 and isinstance(loss, RankLoss):
        return violation_and_gradient(np.ascontiguousarray(scores), positive.nonzero()[0], loss, scale)
    value, coefficients = BOUNDS[bound](loss, np.multiply(scores, scale, dtype=np.float64), positive)
    return value, np.multiply(coefficients, -scale, out=np.empty_like(scores), casting="same_kind")
