"""How many boxes are right: from verdicts of a person on pictures that were drawn at random.

A figure is of held-out boxes alone: a box of a model that saw neither the picture's label nor its verdict. Verdicts of
pictures that were chosen in another way never count.

Held-out scores of all pictures make the interval narrower where higher ones go along with right boxes. Like the boxes
they are of models that saw no verdict of their picture, so those of pictures with a verdict are a random sample. The
agreement with the final model's box is not: once that model has learned from a verdict, its box there is right.
"""

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Float64, Index

from ..fitting.reviewed import ReviewedClass, is_right
from ..run.context import StoredRun
from ..run.folder import RunFolder
from .evaluation import SetEvaluation
from .held_out import HeldOut, read_held_out

LEVEL = 0.95
NORMAL = NormalDist().inv_cdf((1 + LEVEL) / 2)
PSEUDO = 2
"""Verdicts, one right and one wrong, that are added to those that scores explain, and that no score explains."""
CHOSEN = (
    "verdicts are on pictures that were not drawn at random, as those of a merged export: they teach, and count in no "
    "share of right boxes"
)
ADVICE = "nothing is known of the boxes yet: look at, or mark, 20"


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
    centre, half = share + inverse / 2, math.sqrt(inverse * (share * (1 - share) + inverse / 4))
    return max(least, (centre - half) / (1 + inverse)), min(most, (centre + half) / (1 + inverse))


def score_evidence(right: NDArray[np.bool_], drawn: Index, score: Float64) -> ScoreEvidence:
    """Return what the scores of all pictures say beside the verdicts on those that were drawn.

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


def verified(reviewed: ReviewedClass, held_out: HeldOut | None) -> Verified | None:
    """Return the figure of a class; None without a verdict on a random picture with a held-out box.

    A picture that does not show the class counts neither way. One in which no box was right, and none was drawn, counts
    as wrong, whatever box it has now.
    """
    if held_out is None:
        return None
    said = reviewed.verdicts
    random = {name for name, one in said.items() if one.order == "random" and one.verdict in ("boxes", "none")}
    absent = {name for name, one in said.items() if one.verdict == "absent"}
    labelled = zip(held_out.ids, held_out.y > 0, strict=True)
    rows = [row for row, (name, y) in enumerate(labelled) if name in random or (y and name not in absent)]
    drawn = [place for place, row in enumerate(rows) if held_out.ids[row] in random]
    if not drawn:
        return None
    right = [is_right(held_out.boxes[rows[place]], said[held_out.ids[rows[place]]]) for place in drawn]
    scores = score_evidence(np.array(right), np.array(drawn), held_out.score[rows])
    return Verified(sum(right), len(right), len(rows), scores)


def verified_classes(stored: StoredRun) -> dict[str, Verified]:
    """Return class -> figure, for the classes that have one."""
    reviewed = reviewed_classes(stored)
    figures = {name: verified(one, read_held_out(stored.folder, name)) for name, one in reviewed.items()}
    return {name: figure for name, figure in figures.items() if figure is not None}


def reviewed_classes(stored: StoredRun) -> dict[str, ReviewedClass]:
    """Return class -> its verdicts, for the classes that have some; none without shards, which know the pixels."""
    log = stored.verdicts
    names = [name for name in stored.data.classes if log.of_class(name)]
    shards = stored.shards_if_any(stored.train_set) if names else None
    if shards is None:
        return {}
    pictures = (shards.image_ids, shards.pixel_hashes, shards.sizes)
    return {name: ReviewedClass.of_pictures(log, name, *pictures) for name in names}


def verified_table(figures: Mapping[str, Verified]) -> dict[str, Any]:
    """Return the entry "verified" of evaluation.json."""
    return {
        "level": LEVEL,
        "interval": "wilson with held-out scores, finite population",
        "boxes": "held out",
        "classes": {name: figure.row() for name, figure in figures.items()},
    }


def verified_sentences(
    stored: StoredRun, figures: Mapping[str, Verified], sets: Mapping[str, SetEvaluation]
) -> list[str]:
    """Return what the terminal and the page say of the boxes.

    Figures, verdicts that do not count, and the classes of whose boxes nothing is known, with how to look. Boxes that
    are known of `sets` have figures of their own.
    """
    said = [f"{name}: {figure} (verdicts on random pictures)" for name, figure in figures.items()]
    reviewed = reviewed_classes(stored).values()
    notes = [note for one in reviewed for note in one.notes]
    chosen = sum(verdict.order != "random" for one in reviewed for verdict in one.verdicts.values())
    notes += [f"{chosen:,} {CHOSEN}"] if chosen and not said else []
    unknown = [name for name in stored.data.classes if name not in figures]
    if not unknown or any(one.truth is not None for one in sets.values()):
        return [*said, *notes]
    of = f" of {', '.join(unknown)}" if said else ""
    return [*said, *notes, f"{ADVICE}{of}: {review_command(stored.folder)}"]


def review_command(run: RunFolder) -> str:
    """Return the command, to paste into a terminal, that shows the run's boxes to a person."""
    return f"lapsvm review --out {shlex.quote(str(run.path))}"
