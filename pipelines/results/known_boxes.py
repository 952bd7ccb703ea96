"""Boxes that evaluation may use: those of the data set, or with ``--boxes`` those of a file or folder.

These are a COCO file or VOC annotations, with boxes of some pictures, matched with the pictures of the run.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lapsvm.boxes import from_voc
from lapsvm.catalog import GroundTruth, ImageRecord, truth_by_class
from lapsvm.coco_files import Corners, fault_sentence, read_coco
from lapsvm.errors import AnnotationError, MissingError
from lapsvm.voc_files import VocObject, read_voc_file

from ..run.context import RunContext
from ..run.limits import counted, listed
from .picture_names import PictureMatches, match_pictures

Truth = Mapping[str, Mapping[str, GroundTruth]]
"""Class -> picture id -> objects."""
Objects = list[tuple[str, Corners, bool]]  # class, corners, difficult
Records = Mapping[str, Sequence[ImageRecord]]


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


@dataclass(frozen=True)
class AttachedPicture:
    """One picture of the annotations: the names it may have, the first one preferred, and its objects."""

    names: tuple[str, ...]
    objects: Objects


@dataclass(frozen=True)
class AttachedBoxes:
    """The boxes of a run's pictures.

    Attributes
    ----------
    pictures : mapping of set name to (mapping of picture id to its objects)
    sentences : tuple of str
        What was matched, and what was left out.
    """

    pictures: Mapping[str, Mapping[str, Objects]]
    sentences: tuple[str, ...]


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
        known = attached.pictures[set_name]
        truth = truth_by_class({record.id: known.get(record.id, []) for record in records}, context.data.classes)
        return AnnotatedBoxes(truth, frozenset(known)) if known else None
    own = context.data.dataset.ground_truth(set_name)
    return None if own is None else AnnotatedBoxes(own, frozenset(record.id for record in records))


def check_boxes(context: RunContext) -> None:
    """Raise the errors of `known_boxes`, if it has one for a set of the run, and keep nothing of the boxes.

    For commands that train before they evaluate: what evaluation cannot read is refused first, and training still sees
    no box.
    """
    if context.settings.data.boxes:
        _read_attached(context)
        return
    for set_name in context.data.records:
        context.data.dataset.ground_truth(set_name)


def _attached(context: RunContext) -> AttachedBoxes:
    """Return the boxes of ``data.boxes``, which are read once per command; its first call reports on them."""
    if context.attached_boxes is None:
        context.attached_boxes = _read_attached(context)
        for sentence in context.attached_boxes.sentences:
            context.reporter.say(sentence)
    boxes: AttachedBoxes = context.attached_boxes
    return boxes


def _read_attached(context: RunContext) -> AttachedBoxes:
    """Return the boxes of ``data.boxes``; its error names the way out."""
    try:
        return attach_boxes(context.settings.data.boxes, context.data.records, context.data.classes)
    except AnnotationError as error:
        raise AnnotationError(f"{str(error).rstrip('.')}; give other --boxes, or '' for none.") from None


def attach_boxes(path: str, records: Records, classes: Sequence[str]) -> AttachedBoxes:
    """Read annotations and match them with pictures.

    Parameters
    ----------
    path : str
        A COCO file, or a folder of VOC annotations, also in subfolders.
    records : mapping of set name to its pictures
    classes : sequence of str

    Returns
    -------
    AttachedBoxes

    Raises
    ------
    MissingError
        If there is no such file or folder.
    AnnotationError
        If a file is broken, no box of a COCO file is usable, a VOC box is empty, or no picture or no class is the
        run's.
    """
    annotated, faults = read_annotated(path)
    matches = match_pictures([picture.names for picture in annotated], records)
    if not matches.pictures:
        first = annotated[0].names[0]
        raise AnnotationError(
            f"boxes {path} must name a picture of the run, but none of its {len(annotated):,} pictures is one, "
            f"such as {first!r}."
        )
    found: dict[str, dict[str, Objects]] = {set_name: {} for set_name in records}
    for (set_name, image_id), number in matches.pictures.items():
        found[set_name][image_id] = annotated[number].objects
    names = Counter(name for of_set in found.values() for objects in of_set.values() for name, _, _ in objects)
    if names and not names.keys() & set(classes):
        raise AnnotationError(
            f"boxes {path} must be of the run's classes {_names(classes)}, got {_names(sorted(names))}."
        )
    sentences = [*faults, *_match_sentences(annotated, matches), *_class_sentences(names, classes)]
    sentences += _contradictions(found, records, classes)
    return AttachedBoxes(found, tuple(f"boxes {path}: {sentence}" for sentence in sentences))


def read_annotated(path: str) -> tuple[list[AttachedPicture], list[str]]:
    """Return the annotated pictures of a COCO file or a folder of VOC annotations, and what it says of its faults.

    Errors are those of `attach_boxes`.
    """
    source = Path(path)
    if not source.exists():
        raise MissingError(f"boxes {path} are not there; name the file or folder with --boxes, '' for none.")
    pictures, fault = (_voc_pictures(source), "") if source.is_dir() else _coco_pictures(source)
    if not pictures:
        what = "no .xml file; a COCO file is named itself" if source.is_dir() else "no picture"
        raise AnnotationError(f"boxes {path} must be a COCO file or a folder of VOC annotations, but hold {what}.")
    return pictures, [fault] if fault else []


def _coco_pictures(path: Path) -> tuple[list[AttachedPicture], str]:
    """Return the pictures of a COCO file, and what is not taken from it; crowd regions are difficult."""
    file = read_coco(path, boxes=True, strict=False)
    if file.faults and all(one.corners is None for one in file.annotations):
        raise AnnotationError(f"boxes {file.path} must have a usable box, but {fault_sentence(file)}.")
    objects: dict[object, Objects] = defaultdict(list)
    for one in file.annotations:
        if one.corners is not None:
            objects[one.image_id].append((file.categories[one.category_id], one.corners, one.is_crowd))
    pictures = [AttachedPicture((name or str(key),), objects[key]) for key, name in file.file_names.items()]
    return pictures, fault_sentence(file)


def _voc_pictures(folder: Path) -> list[AttachedPicture]:
    """Return the pictures of the XML files in a folder."""
    pictures = []
    for path in sorted(folder.rglob("*.xml")):
        if path.name.startswith("."):  # as archives from other systems hold
            continue
        file = read_voc_file(path)
        own = path.relative_to(folder).with_suffix("").as_posix()
        pictures.append(AttachedPicture((own, *file.names), [_voc_object(path, one) for one in file.objects]))
    return pictures


def _voc_object(path: Path, one: VocObject) -> tuple[str, Corners, bool]:
    """Return the class, corners and difficulty of an object; AnnotationError if its box is empty."""
    x1, y1, x2, y2 = from_voc([one.corners])[0].tolist()
    if x1 >= x2 or y1 >= y2:
        got = ", ".join(f"{corner:g}" for corner in one.corners)
        raise AnnotationError(f"annotation {path}: the box of {one.name!r} must not be empty, got {got}.")
    return one.name, (x1, y1, x2, y2), one.difficult


def _match_sentences(annotated: Sequence[AttachedPicture], matches: PictureMatches) -> Iterator[str]:
    """Yield sentences on the pictures that were matched, and on those that were not."""
    left = len(annotated) - len(matches.unknown) - len(matches.ambiguous)
    yield f"{left:,} of {len(annotated):,} pictures are the run's"
    names = [picture.names[0] for picture in annotated]
    unknown, ambiguous = [names[one] for one in matches.unknown], [names[one] for one in matches.ambiguous]
    yield from counted(unknown, "are no pictures of the run and are left out")
    yield from counted(ambiguous, "may be several pictures of the run, or share one, and are left out")


def _class_sentences(names: Mapping[str, int], classes: Sequence[str]) -> Iterator[str]:
    """Yield a sentence on objects of other classes."""
    if others := {name: count for name, count in names.items() if name not in classes}:
        listed = _names(sorted(others))
        yield f"{sum(others.values()):,} boxes are of no class of the run and are left out: {listed}"


def _contradictions(
    found: Mapping[str, Mapping[str, Objects]], records: Records, classes: Sequence[str]
) -> Iterator[str]:
    """Yield a sentence if boxes and labels of pictures contradict each other."""
    denied, missing = set[str](), set[str]()
    for set_name, pictures in found.items():
        for record in (record for record in records[set_name] if record.id in pictures):
            shown = {name for name, _, _ in pictures[record.id]}
            denied |= {record.id for name in classes if name in shown and record.labels.get(name) == -1}
            missing |= {record.id for name in classes if name not in shown and record.labels.get(name) == 1}
    yield from counted(sorted(denied), "pictures have a box of a class that their label denies")
    yield from counted(sorted(missing), "pictures have no box of a class that they are labelled with")


def _names(names: Sequence[str]) -> str:
    return listed([repr(name) for name in names])
