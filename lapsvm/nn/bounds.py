"""Upper and lower bounds of Delta for one ranking, without torch: value, and how it changes with the scores."""

from collections.abc import Callable

from lapsvm.arrays import Float64
from lapsvm.nn.rankings import Flags
from lapsvm.ranking import RankLoss, ZeroOneLoss, most_violated_ranking

AnyLoss = RankLoss | ZeroOneLoss
Bound = Callable[[AnyLoss, Float64, Flags], tuple[float, Float64]]


def hinge(loss: AnyLoss, scores: Float64, positive: Flags) -> tuple[float, Float64]:
    """Return max_R (Delta + F) - F(R*), and the coefficients c of value = Delta - c @ scores."""
    found = most_violated_ranking(scores, positive, loss)
    return found.violation, found.coefficients


BOUNDS: dict[str, Bound] = {"hinge": hinge}
