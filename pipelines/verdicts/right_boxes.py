"""How many boxes are right: from verdicts of a person on pictures that were drawn at random.

A figure is of held-out boxes alone: a box of a model that saw neither the picture's label nor its verdict. Verdicts of
pictures that were chosen in another way never count.

Held-out scores of all pictures make the interval narrower where higher ones go along with right boxes. Like the boxes
they are of models that saw no verdict of their picture, so those of pictures with a verdict are a random sample. The
agreement with the final model's box is not: once that model has learned from a verdict, its box there is right.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Float64, Index
from lapsvm.evaluation.intervals import NORMAL, wilson

from ..run.dataset import Labels
from .reviewed import is_right
from .verdict import Verdict

PSEUDO = 2
"""Verdicts, one right and one wrong, that are added to those that scores explain, and that no score explains."""


class ScoreEvidence(NamedTuple):
    """What the scores of all pictures say beside the verdicts on some.

    Attributes
    ----------
    shift : float
        What is added to the share of right boxes, because the pictures with a verdict have other scores than all.
    explained : float
        The share of the variance of verdicts that scores explain, from 0 to 1.
    """

    shift: float = 0.0
    explained: float = 0.0


NO_EVIDENCE = ScoreEvidence()


@dataclass(frozen=True)
class Verified:
    """The share of right boxes of one class.

    Attributes
    ----------
    right, of : int
    among : int
        Pictures that show the class, from which `of` were drawn.
    scores : ScoreEvidence, optional
    """

    right: int
    of: int
    among: int
    scores: ScoreEvidence = NO_EVIDENCE

    @property
    def interval(self) -> tuple[float, float]:
        """The interval of the share among all pictures, at 95 %."""
        return share_interval(self.right, self.of, self.among, self.scores)

    def row(self) -> dict[str, Any]:
        """Return the entry of evaluation.json."""
        low, high = self.interval
        return {"right": self.right, "of": self.of, "low": low, "high": high}

    def __str__(self) -> str:
        if self.of == self.among:  # nothing is left to be uncertain of
            return f"{self.right} of {self.of} right: {100 * self.right / self.of:.0f} %, of all pictures"
        low, high = self.interval
        return f"{self.right} of {self.of} right: {100 * low:.0f} to {100 * high:.0f} %"


def share_interval(right: int, of: int, among: int, scores: ScoreEvidence = NO_EVIDENCE) -> tuple[float, float]:
    """Return the interval of a share at 95 %: `right` of `of` pictures drawn without replacement from `among`.

    E. B. Wilson's interval (Probable Inference, 1927) with the finite-population correction: the draw counts as one of
    of (among - 1) / (among - of) pictures with replacement, divided by the share of the variance that scores leave
    unexplained. It ends where the pictures that were not drawn do.

    Parameters
    ----------
    right, of, among : int
        0 <= `right` <= `of` <= `among`, `of` >= 1.
    scores : ScoreEvidence, optional
        Without, the interval is that of the verdicts alone.

    Returns
    -------
    tuple of 2 floats
        In [right / among, 1 - (of - right) / among].
    """
    least, most = right / among, 1 - (of - right) / among
    if among == of:
        return right / of, right / of
    share = min(max(right / of + scores.shift, least), most)
    inverse = NORMAL**2 * (1 - scores.explained) * (among - of) / (of * (among - 1))  # z^2 / n
    low, high = wilson(share, inverse)
    return max(least, low), min(most, high)


def score_evidence(right: NDArray[np.bool_], drawn: Index, score: Float64) -> ScoreEvidence:
    """Return the estimate from the scores of all pictures and the verdicts on drawn ones.

    The regression estimator of samples (W. G. Cochran, Sampling Techniques, 1977, chapter 7) of verdicts on the ranks
    of scores. What is explained is adjusted R^2 (M. Ezekiel, Methods of Correlation Analysis, 1930), and the slope is
    multiplied by adjusted over plain R^2. So scores that tell nothing change nothing, as in A. N. Angelopoulos, J. C.
    Duchi and T. Zrnic, PPI++: Efficient Prediction-Powered Inference, 2023, whose intervals are for larger samples.

    Parameters
    ----------
    right : (n,) bool
        Verdicts, `n` >= 1.
    drawn : (n,) intp
        Their pictures among all.
    score : (N,) float64
        Scores of all pictures; only their order counts.

    Returns
    -------
    ScoreEvidence
        Zeros for fewer than three verdicts and for equal scores.
    """
    ordered, n = np.sort(score), len(right)
    ranks = np.searchsorted(ordered, score) + np.searchsorted(ordered, score, side="right")  # equal scores share one
    if n < 3 or ranks.min() == ranks.max():
        return NO_EVIDENCE
    own, extra = ranks[drawn], PSEUDO / n
    covariance = float(((own - own.mean()) * right).mean())
    variance = float(own.var() + extra * ranks.var())
    plain = covariance**2 / (variance * float(right.var() + extra / 4))
    adjusted = 1 - (1 - plain) * (n - 1) / (n - 2)
    if adjusted <= 0:
        return NO_EVIDENCE
    slope = covariance / variance * adjusted / plain
    return ScoreEvidence(slope * float(ranks.mean() - own.mean()), adjusted)


def verified(
    said: Mapping[str, Verdict], ids: Sequence[str], y: Labels, score: Float64, boxes: Float64
) -> Verified | None:
    """Return the figure of a class for picture -> verdict; None without one on a random picture with a held-out box.

    The pictures `ids` with labels `y` (n,) have such scores (n,) and boxes (n, 4). A picture that does not show the
    class counts neither way. One in which no box was right, and none was drawn, counts as wrong, whatever box it has
    now.
    """
    random = {name for name, verdict in said.items() if verdict.counts_in_figures}
    absent = {name for name, verdict in said.items() if verdict.label(1) < 0}
    labelled = zip(ids, y > 0, strict=True)
    rows = [row for row, (name, shows) in enumerate(labelled) if name in random or (shows and name not in absent)]
    drawn = [place for place, row in enumerate(rows) if ids[row] in random]
    if not drawn:
        return None
    right = [is_right(boxes[rows[place]], said[ids[rows[place]]]) for place in drawn]
    scores = score_evidence(np.array(right), np.array(drawn), score[rows])
    return Verified(sum(right), len(right), len(rows), scores)
