"""What verdicts say of the training pictures: which count, the labels they mend, and the boxes they settle."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from lapsvm.arrays import Float64
from lapsvm.boxes import as_boxes, iou
from lapsvm.features import ShardSet
from lapsvm.ground_truth import Size
from lapsvm.latent import KnownBoxes
from lapsvm.texts.sentences import counted

from ..run.dataset import Labels, content_hash
from .counting import decided, labels_after, of_other_pictures, usable_verdicts
from .verdict import Verdict, VerdictLog

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

    def known(self, ids: Sequence[str], labels: Labels) -> dict[int, KnownBoxes]:
        """Return row -> known boxes of the positive pictures (n,) of which verdicts settle some."""
        rows = [row for row in np.flatnonzero(labels > 0).tolist() if ids[row] in self.verdicts]
        settled = {row: one for row in rows if (one := self.verdicts[ids[row]]).boxes or one.rejected}
        return {row: KnownBoxes(_boxes(one.boxes), _boxes(one.rejected)) for row, one in settled.items()}


def reviewed_by_class(log: VerdictLog, shards: ShardSet, names: Iterable[str]) -> dict[str, ReviewedClass]:
    """Return class -> its verdicts that belong to the pictures of shards as they are, and lie in them."""
    hashes = shards.hashes
    sizes = shards.sizes if log.by_class else {}
    return {name: _reviewed(name, decided(log.of_class(name)), hashes, sizes) for name in names}


def _reviewed(
    name: str, said: Mapping[str, Verdict], hashes: Mapping[str, str], sizes: Mapping[str, Size]
) -> ReviewedClass:
    unknown, changed = of_other_pictures(said, hashes, hashes)
    present = [said[picture] for picture in sorted(said.keys() - {*unknown, *changed})]
    usable, faults = usable_verdicts(present, (name,), lambda one: sizes.get(one.picture))
    notes = [
        *counted(unknown, f"verdicts of {name!r} are of pictures that the training set lacks, and are left out"),
        *counted(changed, f"verdicts of {name!r} are of pictures that have changed since, and are left out"),
        *faults,
    ]
    return ReviewedClass(name, {one.picture: one for one in usable}, tuple(f"{note}." for note in notes))


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
    """

    known: Mapping[int, KnownBoxes] = field(default_factory=dict)
    labels_key: Mapping[str, object] = field(default_factory=dict)
    boxes_key: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def mended_labels(reviewed: ReviewedClass, y: Labels, ids: Sequence[str]) -> tuple[Labels, Reviews]:
    """Return the labels (n,) after the verdicts, and what else training takes from these."""
    labels = labels_after(reviewed.verdicts, y, ids)
    known = reviewed.known(ids, labels)
    changed = [(ids[row], int(labels[row])) for row in np.flatnonzero(y != labels).tolist()]
    settled = [(ids[row], boxes.true.tolist(), boxes.wrong.tolist()) for row, boxes in sorted(known.items())]
    keys = _key("mended_labels", changed), _key("reviewed_pictures", settled)
    return labels, Reviews(known, *keys, reviewed.notes)


def is_right(box: Float64, verdict: Verdict) -> bool:
    """Return whether a box (4,) overlaps a true box of a verdict by more than `SAME`."""
    return bool(verdict.boxes) and bool(iou(box[None], _boxes(verdict.boxes)).max() > SAME)


def _key(name: str, content: Sequence[object]) -> dict[str, object]:
    return {name: len(content), f"{name}_hash": content_hash(content)} if content else {}


def _boxes(boxes: Sequence[Sequence[float]]) -> Float64:
    return as_boxes(np.array(boxes, dtype=np.float64).reshape(-1, 4))
