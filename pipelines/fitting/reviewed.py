"""What verdicts say of the training pictures: which count, the labels they mend, and the boxes they settle."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from lapsvm.arrays import Float64
from lapsvm.boxes import as_boxes, iou
from lapsvm.ground_truth import Size
from lapsvm.latent import KnownBoxes

from ..run.dataset import Labels, content_hash
from ..run.denied import labels_after
from ..run.limits import counted
from ..run.verdicts import Verdict, VerdictLog, usable_verdicts

SAME = 0.5
"""Boxes with a greater IoU are the same: one that is a true box is right, as in CorLoc, one that is a rejected box is
wrong."""


@dataclass(frozen=True)
class ReviewedClass:
    """The verdicts of one class that belong to the pictures of its training set as they are.

    Attributes
    ----------
    name : str
    verdicts : mapping of picture to Verdict
        Without "skip".
    notes : tuple of str
        Sentences on verdicts that do not count: of unknown and of changed pictures, and with boxes outside of them.
    """

    name: str
    verdicts: Mapping[str, Verdict]
    notes: tuple[str, ...] = ()

    @classmethod
    def of_pictures(
        cls, log: VerdictLog, name: str, ids: Sequence[str], pixel_hashes: Sequence[str], sizes: Mapping[str, Size]
    ) -> "ReviewedClass":
        """Return the verdicts of a class that belong to pictures with these names and hashes, and lie in them.

        `sizes` are width and height by picture.
        """
        hashes = dict(zip(ids, pixel_hashes, strict=True))
        said = {picture: one for picture, one in log.of_class(name).items() if one.verdict != "skip"}
        unknown = [picture for picture in said if picture not in hashes]
        changed = [
            picture for picture, one in said.items() if picture in hashes and one.pixels not in ("", hashes[picture])
        ]
        present = [said[picture] for picture in sorted(said.keys() - {*unknown, *changed})]
        usable, faults = usable_verdicts(present, (name,), lambda one: sizes.get(one.picture))
        notes = _note(name, unknown, "pictures that the training set lacks")
        notes += _note(name, changed, "pictures that have changed since")
        return cls(name, {one.picture: one for one in usable}, (*notes, *(f"{fault}." for fault in faults)))

    def known(self, ids: Sequence[str], labels: Labels) -> dict[int, KnownBoxes]:
        """Return row -> known boxes of the positive pictures (n,) of which verdicts settle some."""
        rows = [row for row in np.flatnonzero(labels > 0).tolist() if ids[row] in self.verdicts]
        found = {row: settled_boxes(self.verdicts[ids[row]]) for row in rows}
        return {row: boxes for row, boxes in found.items() if len(boxes.true) or len(boxes.wrong)}


@dataclass(frozen=True, eq=False)
class Reviews:
    """What training takes from the verdicts of a class.

    Attributes
    ----------
    known : mapping of row to KnownBoxes
        Of positive pictures.
    labels_key, boxes_key : dict
        What a model's provenance records of mended labels and of known boxes; empty where the verdicts say nothing.
    notes : tuple of str
        Sentences on verdicts that do not count.
    random : tuple of int
        The rows of `known` whose pictures were drawn at random.
    """

    known: Mapping[int, KnownBoxes] = field(default_factory=dict)
    labels_key: Mapping[str, object] = field(default_factory=dict)
    boxes_key: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    random: tuple[int, ...] = ()


def mended_labels(reviewed: ReviewedClass, y: Labels, ids: Sequence[str]) -> tuple[Labels, Reviews]:
    """Return the labels (n,) after the verdicts, and what else training takes from these."""
    labels = labels_after(reviewed.verdicts, y, ids)
    known = reviewed.known(ids, labels)
    changed = [(ids[row], int(labels[row])) for row in np.flatnonzero(y != labels).tolist()]
    settled = [(ids[row], boxes.true.tolist(), boxes.wrong.tolist()) for row, boxes in sorted(known.items())]
    keys = _key("mended_labels", changed), _key("reviewed_pictures", settled)
    random = tuple(row for row in sorted(known) if reviewed.verdicts[ids[row]].order == "random")
    return labels, Reviews(known, *keys, reviewed.notes, random)


def settled_boxes(verdict: Verdict) -> KnownBoxes:
    """Return the boxes that a verdict settles: the true ones, or else those that were shown and rejected."""
    return KnownBoxes(_boxes(verdict.boxes), _boxes(verdict.candidates if verdict.verdict == "none" else ()))


def is_right(box: Float64, verdict: Verdict) -> bool:
    """Return whether a box (4,) overlaps a true box of a verdict by more than `SAME`."""
    return bool(verdict.boxes) and bool(iou(box[None], _boxes(verdict.boxes)).max() > SAME)


def _key(name: str, content: Sequence[object]) -> dict[str, object]:
    return {name: len(content), f"{name}_hash": content_hash(content)} if content else {}


def _boxes(boxes: Sequence[Sequence[float]]) -> Float64:
    return as_boxes(np.array(boxes, dtype=np.float64).reshape(-1, 4))


def _note(name: str, pictures: Sequence[str], what: str) -> list[str]:
    return [f"{note}." for note in counted(pictures, f"verdicts of {name!r} are of {what}, and are left out")]
