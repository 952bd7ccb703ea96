"""How many boxes are right: from verdicts of a person on pictures that were drawn at random.

A figure is of held-out boxes alone: a box of a model that saw neither the picture's label nor its verdict. Verdicts of
pictures that were chosen in another way never count.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import hypergeom

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


def share_interval(right: int, of: int, among: int, level: float = LEVEL) -> tuple[float, float]:
    """Return the mid-P interval of a share: `right` of `of` pictures drawn without replacement from `among`.

    Numbers of right pictures among all are left out if so many or more (so few or fewer) in the draw are too unlikely,
    the drawn number itself counted by half (hypergeometric distribution).

    Parameters
    ----------
    right, of, among : int
        0 <= `right` <= `of` <= `among`, `of` >= 1.
    level : float, default 0.95

    Returns
    -------
    tuple of 2 floats
        In [right / among, 1].
    """
    numbers = np.arange(right, among - of + right + 1)
    drawn = hypergeom(among, numbers, of)
    half, least = drawn.pmf(right) / 2, (1 - level) / 2
    likely = numbers[(drawn.sf(right) + half > least) & (drawn.cdf(right - 1) + half > least)]
    return float(likely[0] / among), float(likely[-1] / among)


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
    absent = sum(one.verdict == "absent" for one in reviewed.verdicts.values())
    among = max(len(said), int((held_out.y > 0).sum()) - absent)
    return Verified(sum(said), len(said), among) if said else None


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
        "interval": "mid-P, hypergeometric",
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
