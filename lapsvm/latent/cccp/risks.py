"""Risks: the loss of a ranking or classification by scores, with a plane below it.

A risk takes scores and labels and returns (offset, coefficients): the risk of any scores s' is at least
``offset - coefficients @ s'``, with equality at the scores given. Coefficients are >= 0 on positives and <= 0 on
negatives. Therefore the best window of a positive lowers the risk most, and that of a negative raises it most, which
makes imputation and inference separable (the thesis's propositions 2 and 3).
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from lapsvm.arrays import Float64, check_positive
from lapsvm.ranking import RankLoss, ZeroOneLoss, most_violated_ranking
from lapsvm.ranking.losses import as_loss


class Violation(NamedTuple):
    """The plane below a risk: ``offset - coefficients @ scores``."""

    offset: float
    coefficients: Float64


class Risk(Protocol):
    """The risk of a problem, convex in the scores."""

    def violation(self, scores: Float64, labels: Float64) -> Violation:
        """Return the plane that touches the risk at these scores (n,) of labels (n,) of +1 and -1."""
        ...


@dataclass(frozen=True)
class RankRisk:
    """The structured hinge of a rank loss: max over rankings R of Delta(R) + F(R) - F(R*).

    Parameters
    ----------
    loss : str or rank loss, default "ap"
        As `lapsvm.ranking.most_violated_ranking` takes it.
    """

    loss: "str | RankLoss | ZeroOneLoss" = "ap"

    def __post_init__(self) -> None:
        as_loss(self.loss)

    def violation(self, scores: Float64, labels: Float64) -> Violation:
        """Return the most violated ranking's plane."""
        found = most_violated_ranking(scores, labels, loss=self.loss)
        return Violation(found.loss, found.coefficients)


@dataclass(frozen=True)
class HingeRisk:
    """The sum of hinges max(0, 1 - y s), those of positives times J.

    Parameters
    ----------
    J : float, default 1.0
        Weight of the positives, > 0.
    """

    J: float = 1.0

    def __post_init__(self) -> None:
        check_positive("J", self.J)

    def violation(self, scores: Float64, labels: Float64) -> Violation:
        """Return the plane of the samples inside the margin."""
        weights = np.where(labels > 0, self.J, 1.0) * (labels * scores < 1)
        return Violation(float(weights.sum()), weights * labels)
