"""Boxes that evaluation may use: those of the data set, or with ``--boxes`` those of a file or folder."""

from collections.abc import Mapping
from dataclasses import dataclass

from lapsvm.catalog import GroundTruth
from lapsvm.errors import AnnotationError

from ...run.context import RunContext
from .attached import AttachedBoxes, attach_boxes

Truth = Mapping[str, Mapping[str, GroundTruth]]
"""Class -> picture id -> objects."""


@dataclass(frozen=True)
class AnnotatedBoxes:
    """The boxes of one set.

    Attributes
    ----------
    truth : Truth
        With an entry for every picture of the set; an empty one for a picture whose boxes are not known.
    pictures : frozenset of str
        Pictures whose boxes are known.
    """

    truth: Truth
    pictures: frozenset[str]


def known_boxes(context: RunContext, set_name: str) -> AnnotatedBoxes | None:
    """Return the boxes of a set, for evaluation alone; None if no box of the set is known.

    With the setting ``data.boxes`` only the boxes of that file or folder count.

    Raises
    ------
    AnnotationError
        If annotations are broken, or those of ``data.boxes`` name no picture or no class of the run.
    MissingError
        If ``data.boxes`` does not exist.
    """
    records = context.data.records[set_name]
    if context.settings.data.boxes:
        attached = _attached(context)
        pictures = frozenset(attached.pictures[set_name])
        return AnnotatedBoxes(attached.truth(set_name, records, context.data.classes), pictures) if pictures else None
    truth = context.data.dataset.ground_truth(set_name)
    return None if truth is None else AnnotatedBoxes(truth, frozenset(record.id for record in records))


def _attached(context: RunContext) -> AttachedBoxes:
    """Return the boxes of ``data.boxes``, which are read once per command; its first call reports on them."""
    if context.attached_boxes is None:
        try:
            attached = attach_boxes(context.settings.data.boxes, context.data.records, context.data.classes)
        except AnnotationError as error:
            raise AnnotationError(
                f"{str(error).rstrip('.')}; evaluate with other --boxes, or with '' for none."
            ) from None
        for sentence in attached.sentences:
            context.reporter.say(sentence)
        context.attached_boxes = attached
    boxes: AttachedBoxes = context.attached_boxes
    return boxes
