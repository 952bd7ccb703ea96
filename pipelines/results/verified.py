"""How many boxes are right: from verdicts of a person on pictures that were drawn at random.

A figure is of held-out boxes alone: a box of a model that saw neither the picture's label nor its verdict. Verdicts of
pictures that were chosen in another way never count.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any

from scipy.special import ndtri

from lapsvm.features import open_shards

from ..fitting.verdicts.reviewed import ReviewedClass, is_right
from ..run.context import RunContext
from ..run.settings import BASELINES
from .held_out import HeldOut, read_held_out

LEVEL = 0.95
ADVICE = "not verified: look at, or mark, 20 boxes"


@dataclass(frozen=True)
class Verified:
    """The share of right boxes of one class.

    Attributes
    ----------
    right, of : int
    """

    right: int
    of: int

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's interval of the share at 95 %."""
        return wilson(self.right, self.of)

    def row(self) -> dict[str, Any]:
        """Return the entry of evaluation.json."""
        low, high = self.interval
        return {"right": self.right, "of": self.of, "low": low, "high": high}

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.right} of {self.of} right: {100 * low:.0f} to {100 * high:.0f} %"


def wilson(right: int, of: int, level: float = LEVEL) -> tuple[float, float]:
    """Return Wilson's score interval of a share.

    Parameters
    ----------
    right, of : int
        `right` of `of` >= 1 independent draws.
    level : float, default 0.95

    Returns
    -------
    tuple of 2 floats
        In [0, 1].
    """
    z = float(ndtri((1 + level) / 2))
    share, unit = right / of, z * z / of
    middle = (share + unit / 2) / (1 + unit)
    half = z / (1 + unit) * sqrt(share * (1 - share) / of + unit / (4 * of))
    return (0.0 if right == 0 else max(0.0, middle - half)), (1.0 if right == of else min(1.0, middle + half))


def verified(reviewed: ReviewedClass, held_out: HeldOut) -> Verified | None:
    """Return the figure of a class; None without a verdict on a random picture with a held-out box.

    A picture that does not show the class counts neither way. One in which no box was right, and none was drawn, counts
    as wrong, whatever box it has now.
    """
    box_of = dict(zip(held_out.ids, held_out.boxes, strict=True))
    said = [
        is_right(box_of[picture], one)
        for picture, one in reviewed.verdicts.items()
        if one.order == "random" and one.verdict in ("boxes", "none") and picture in box_of
    ]
    return Verified(sum(said), len(said)) if said else None


def verified_classes(context: RunContext) -> dict[str, Verified]:
    """Return class -> figure, for the classes that have one."""
    reviewed = reviewed_classes(context)
    held_out = {name: read_held_out(context.run, name) for name in reviewed}
    figures = {name: verified(one, of) for name, one in reviewed.items() if (of := held_out[name]) is not None}
    return {name: figure for name, figure in figures.items() if figure is not None}


def reviewed_classes(context: RunContext) -> dict[str, ReviewedClass]:
    """Return class -> its verdicts, for the classes that have some; none without shards, which know the pixels."""
    log, set_name = context.verdicts, context.settings.data.train_set
    names = [name for name in context.data.classes if log.of_class(name)]
    if not names or not context.run.has_shards(set_name):
        return {}
    shards = open_shards(context.run.shards(set_name))
    return {name: ReviewedClass.of_pictures(log, name, shards.image_ids, shards.pixel_hashes) for name in names}


def verified_table(figures: Mapping[str, Verified]) -> dict[str, Any]:
    """Return the entry "verified" of evaluation.json."""
    return {
        "level": LEVEL,
        "interval": "wilson",
        "boxes": "held out",
        "classes": {name: figure.row() for name, figure in figures.items()},
    }


def verified_sentences(context: RunContext, figures: Mapping[str, Verified], *, has_boxes: bool) -> list[str]:
    """Return what the terminal and the page say of the boxes.

    Figures, verdicts that do not count, and where nothing is known, how to look. `has_boxes` is whether the boxes of
    some pictures are known, which figures of their own are about.
    """
    said = [f"{name}: {figure} (verdicts on random pictures)" for name, figure in figures.items()]
    notes = [note for one in reviewed_classes(context).values() for note in one.notes]
    command = f"lapsvm review --out {shlex.quote(str(context.run.path))}"
    is_known = said or has_boxes or context.settings.train.learner in BASELINES
    return [*said, *notes] if is_known else [*notes, f"{ADVICE}: {command}"]
