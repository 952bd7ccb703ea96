"""How many boxes are right: from verdicts of a person on pictures that were drawn at random.

A figure is of held-out boxes alone: a box of a model that saw neither the picture's label nor its verdict. Verdicts of
pictures that were chosen in another way never count.
"""

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from ..fitting.reviewed import ReviewedClass, is_right
from ..run.context import RunContext
from .evaluation import SetEvaluation
from .held_out import HeldOut, read_held_out

LEVEL = 0.95
NORMAL = NormalDist().inv_cdf((1 + LEVEL) / 2)
ADVICE = "not verified: look at, or mark, 20 boxes"


@dataclass(frozen=True)
class Verified:
    """The share of right boxes of one class.

    Attributes
    ----------
    right, of : int
    among : int
        Pictures that show the class, from which `of` were drawn.
    """

    right: int
    of: int
    among: int

    @property
    def interval(self) -> tuple[float, float]:
        """The interval of the share among all pictures, at 95 %."""
        return share_interval(self.right, self.of, self.among)

    def row(self) -> dict[str, Any]:
        """Return the entry of evaluation.json."""
        low, high = self.interval
        return {"right": self.right, "of": self.of, "low": low, "high": high}

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.right} of {self.of} right: {100 * low:.0f} to {100 * high:.0f} %"


def share_interval(right: int, of: int, among: int) -> tuple[float, float]:
    """Return the interval of a share at 95 %: `right` of `of` pictures drawn without replacement from `among`.

    E. B. Wilson's interval (JASA 22, 1927) with the finite-population correction: the draw counts as one of
    of (among - 1) / (among - of) pictures with replacement. It ends where the pictures that were not drawn do.

    Parameters
    ----------
    right, of, among : int
        0 <= `right` <= `of` <= `among`, `of` >= 1.

    Returns
    -------
    tuple of 2 floats
        In [right / among, 1 - (of - right) / among].
    """
    share, least, most = right / of, right / among, 1 - (of - right) / among
    if among == of:
        return share, share
    inverse = NORMAL**2 * (among - of) / (of * (among - 1))  # z^2 / n
    centre, half = share + inverse / 2, math.sqrt(inverse * (share * (1 - share) + inverse / 4))
    return max(least, (centre - half) / (1 + inverse)), min(most, (centre + half) / (1 + inverse))


def verified(reviewed: ReviewedClass, held_out: HeldOut | None) -> Verified | None:
    """Return the figure of a class; None without a verdict on a random picture with a held-out box.

    A picture that does not show the class counts neither way. One in which no box was right, and none was drawn, counts
    as wrong, whatever box it has now.
    """
    if held_out is None:
        return None
    box_of = dict(zip(held_out.ids, held_out.boxes, strict=True))
    said = [
        is_right(box_of[picture], one)
        for picture, one in reviewed.verdicts.items()
        if one.order == "random" and one.verdict in ("boxes", "none") and picture in box_of
    ]
    absent = sum(one.verdict == "absent" for one in reviewed.verdicts.values())
    among = max(len(said), int((held_out.y > 0).sum()) - absent)
    return Verified(sum(said), len(said), among) if said else None


def verified_classes(context: RunContext) -> dict[str, Verified]:
    """Return class -> figure, for the classes that have one."""
    reviewed = reviewed_classes(context)
    figures = {name: verified(one, read_held_out(context.run, name)) for name, one in reviewed.items()}
    return {name: figure for name, figure in figures.items() if figure is not None}


def reviewed_classes(context: RunContext) -> dict[str, ReviewedClass]:
    """Return class -> its verdicts, for the classes that have some; none without shards, which know the pixels."""
    log, set_name = context.verdicts, context.train_set
    names = [name for name in context.data.classes if log.of_class(name)]
    if not names or not context.run.has_shards(set_name):
        return {}
    shards = context.shards(set_name)
    return {name: ReviewedClass.of_pictures(log, name, shards.image_ids, shards.pixel_hashes) for name in names}


def verified_table(figures: Mapping[str, Verified]) -> dict[str, Any]:
    """Return the entry "verified" of evaluation.json."""
    return {
        "level": LEVEL,
        "interval": "wilson, finite population",
        "boxes": "held out",
        "classes": {name: figure.row() for name, figure in figures.items()},
    }


def verified_sentences(
    context: RunContext, figures: Mapping[str, Verified], sets: Mapping[str, SetEvaluation]
) -> list[str]:
    """Return what the terminal and the page say of the boxes.

    Figures, verdicts that do not count, and where nothing is known, how to look. Boxes that are known of `sets`
    have figures of their own.
    """
    said = [f"{name}: {figure} (verdicts on random pictures)" for name, figure in figures.items()]
    notes = [note for one in reviewed_classes(context).values() for note in one.notes]
    is_known = said or any(one.truth is not None for one in sets.values())
    return [*said, *notes] if is_known else [*notes, f"{ADVICE}: {review_command(context)}"]


def review_command(context: RunContext) -> str:
    """Return the command, to paste into a terminal, that shows the run's boxes to a person."""
    return f"lapsvm review --out {shlex.quote(str(context.run.path))}"
