"""Boxes that evaluation may use: the data set's own, or with ``--boxes`` the boxes of a file or folder.

These are a COCO file or VOC annotations, with boxes of some pictures, matched with the pictures of the run.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

from lapsvm.annotations.coco import NO_CATEGORY, Corners, with_crowds
from lapsvm.annotations.formats import coco, voc
from lapsvm.annotations.pictures import AnnotatedFile, FilePicture
from lapsvm.box_faults import left_out_sentence, smaller_sentence
from lapsvm.catalog import GroundTruth, ImageRecord, truth_by_class
from lapsvm.errors import AnnotationError, ImageError, MissingError
from lapsvm.ground_truth import (
    TWICE,
    ObjectRow,
    Size,
    TruthByClass,
    distinct_objects,
    object_faults,
    with_remarks,
)
from lapsvm.pictures.reading import seen_size
from lapsvm.texts.sentences import counted, listed

from ..context import StoredRun, stored_sizes
from ..run.dataset import RunData
from ..run.folder import RunFolder
from .matching import PictureMatches, match_pictures

Truth = Mapping[str, Mapping[str, GroundTruth]]
"""Class -> picture id -> objects."""
Objects = list[tuple[str, Corners, bool]]  # class, corners, difficult
Records = Mapping[str, Sequence[ImageRecord]]
SizeOf = Callable[[str, str], Size | None]
"""Set and picture id -> width and height of the picture; None if they are not known."""


@dataclass(frozen=True)
class AnnotatedBoxes:
    """The boxes of one set.

    Attributes
    ----------
    truth : Truth
        With an entry for every picture of the set; an empty one for a picture whose boxes are not known.
    pictures : frozenset of str
        Pictures whose boxes are known.
    note : str
        What is left out of the data set's own boxes, as the end of a sentence; "" for nothing.
    """

    truth: Truth
    pictures: frozenset[str]
    note: str = ""


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


@dataclass(frozen=True, eq=False)
class BoxSource:
    """Where the boxes of a run's pictures come from.

    Attributes
    ----------
    run : RunFolder
        Its shards know the sizes of pictures.
    data : RunData
    boxes : str
        The setting ``data.boxes``: a file or folder whose boxes alone count; "" for those of the data set.
    say : callable
        Receives sentences on `boxes` when they have been read, which is done once.
    """

    run: RunFolder
    data: RunData
    boxes: str
    say: Callable[[str], None] = lambda _: None

    @classmethod
    def of(cls, stored: StoredRun, say: Callable[[str], None] = lambda _: None) -> Self:
        """Return where the boxes of a run come from."""
        return cls(stored.folder, stored.data, stored.settings.data.boxes, say)

    @cached_property
    def attached(self) -> AttachedBoxes:
        """The boxes of the file or folder."""
        attached = _read_attached(self)
        for sentence in attached.sentences:
            self.say(sentence)
        return attached


def known_boxes(source: BoxSource, set_name: str) -> AnnotatedBoxes | None:
    """Return the boxes of a set, for evaluation alone; None if there are none, and nothing to say of them.

    Boxes that cannot be used, as `lapsvm.box_faults` says, are left out; those of a picture that has such ones alone
    are not known. With the setting ``data.boxes`` only the boxes of that file or folder count.

    Raises
    ------
    AnnotationError
        If annotations are broken, or those of ``data.boxes`` name no picture or no class of the run.
    MissingError
        If ``data.boxes`` does not exist.
    """
    data = source.data
    records = data.records[set_name]
    if source.boxes:
        known = source.attached.pictures[set_name]
        truth = truth_by_class({record.id: known.get(record.id, []) for record in records}, data.classes)
        return AnnotatedBoxes(truth, frozenset(known)) if known else None
    own = data.dataset.ground_truth(set_name)
    if own is None:
        return None
    given = own if isinstance(own, TruthByClass) else TruthByClass(own)
    size_of = size_in(source.run, data.records)
    ids = {record.id for record in records}
    unknown = ids - {image_id for of_class in given.values() for image_id in of_class}  # pictures that were taught
    boxed = {key for of_class in given.values() for key, item in of_class.items() if len(item.boxes)} & ids
    sizes = {image_id: size for image_id in boxed if (size := size_of(set_name, image_id)) is not None}
    found = given.checked(sizes)
    for name in data.classes:  # some may be new
        absent = unknown if name in found else ids
        found.setdefault(name, {}).update(dict.fromkeys(absent, GroundTruth.of_objects([])))
    pictures = frozenset() if found.is_empty else frozenset(ids) - found.unknown - unknown
    unstated = {key: size for key, size in sizes.items() if key not in given.sizes}
    of_pictures = ((key, item) for of_class in found.values() for key, item in of_class.items() if key in unstated)
    asked = smaller_sentence((box, unstated[key]) for key, item in of_pictures for box in item.boxes.tolist())
    return AnnotatedBoxes(found, pictures, "; ".join(filter(None, (found.sentence, asked))))


def size_in(run: RunFolder, records: Records) -> SizeOf:
    """Return a function (set, picture) -> size, from the run's shards or else from the picture's file."""

    def size_of(set_name: str, image_id: str) -> Size | None:
        if set_name not in stored:
            stored[set_name] = stored_sizes(run, set_name)
        size = stored[set_name].get(image_id)
        if size is None:
            with suppress(ImageError, MissingError):
                size = seen_size(paths[set_name][image_id])
        return size

    stored = dict[str, dict[str, tuple[int, int]]]()
    paths = {name: {item.id: item.path for item in of_set} for name, of_set in records.items()}
    return size_of


def check_boxes(source: BoxSource) -> None:
    """Raise the errors of `known_boxes`, if it has one for a set of the run, and keep nothing of the boxes.

    For commands that train before they evaluate: what evaluation cannot read is refused first, and training still sees
    no box.
    """
    if source.boxes:
        _read_attached(source)
        return
    for set_name in source.data.records:
        source.data.dataset.ground_truth(set_name)


def _read_attached(source: BoxSource) -> AttachedBoxes:
    """Return the boxes of the file or folder; its error names the way out."""
    try:
        data = source.data
        return attach_boxes(source.boxes, data.records, data.classes, size_in(source.run, data.records))
    except AnnotationError as error:
        raise AnnotationError(f"{str(error).rstrip('.')}; give other --boxes, or '' for none.") from None


def attach_boxes(
    path: str, records: Records, classes: Sequence[str], size_of: SizeOf = lambda *_: None
) -> AttachedBoxes:
    """Read annotations and match them with pictures.

    Parameters
    ----------
    path : str
        A COCO file, or a folder of VOC annotations, also in subfolders.
    records : mapping of set name to its pictures
    classes : sequence of str
    size_of : callable, optional
        Returns the size of a picture from its set and id.

    Returns
    -------
    AttachedBoxes

    Raises
    ------
    MissingError
        If there is no such file or folder.
    AnnotationError
        If a file is broken, no box can be used, or no picture or no class is the run's.
    """
    file = read_annotated(path)
    annotated = file.pictures
    rows = [_rows(picture) for picture in annotated]
    contents = [(picture.size, frozenset(of_picture)) for picture, of_picture in zip(annotated, rows, strict=True)]
    matches = match_pictures([picture.names for picture in annotated], records, contents)
    if not matches.pictures and not matches.unequal:
        first = annotated[0].names[0]
        raise AnnotationError(
            f"boxes {path} must name a picture of the run, but none of its {len(annotated):,} pictures is one, "
            f"such as {first!r}."
        )
    sizes = {number: size_of(*picture) for picture, number in matches.pictures.items()}
    objects, note = _usable(path, file, rows, sizes)
    found: dict[str, dict[str, Objects]] = {set_name: {} for set_name in records}
    for (set_name, image_id), number in matches.pictures.items():
        if objects[number] or not rows[number]:
            found[set_name][image_id] = objects[number]
    names = Counter(name for of_set in found.values() for objects in of_set.values() for name, _, _ in objects)
    if names and not names.keys() & set(classes):
        raise AnnotationError(
            f"boxes {path} must be of the run's classes {_names(classes)}, got {_names(sorted(names))}."
        )
    unstated = ((objects[at], size) for at, size in sizes.items() if size and not annotated[at].size)
    asked = smaller_sentence((corners, size) for of_one, size in unstated for _, corners, _ in of_one)
    note += [asked] if asked else []
    sentences = [*note, *_match_sentences(annotated, matches), *_class_sentences(names, classes)]
    sentences += _contradictions(found, records, classes)
    return AttachedBoxes(found, tuple(f"boxes {path}: {sentence}" for sentence in sentences))


def _usable(
    path: str, file: AnnotatedFile, rows: Sequence[list[ObjectRow]], sizes: Mapping[int, Size | None]
) -> tuple[list[Objects], list[str]]:
    """Return the objects of every picture that can be used, and what is said of the others; `sizes` are by number.

    Raises AnnotationError if there are annotations and none can be used.
    """
    objects, remarks, total = list[Objects](), Counter(file.counts), file.n_without_category
    faults = Counter[str]()
    for number, picture in enumerate(file.pictures):
        kept, n_again = distinct_objects(rows[number])
        wrong = object_faults([row[1] for row in kept], picture.size, sizes.get(number))
        faults.update(filter(None, wrong))
        objects.append(_objects(kept, wrong))
        total += len(kept)
        remarks[TWICE] += n_again
    faults += Counter({NO_CATEGORY: file.n_without_category})
    sentence = left_out_sentence(faults, total)
    if 0 < total == sum(faults.values()):
        raise AnnotationError(f"boxes {path} must have a usable box, but {sentence}.")
    crowds = (box.difficult == coco.CROWD_REGION and not box.fault for item in file.pictures for box in item.boxes)
    note = with_remarks(with_crowds(sentence, sum(crowds)), remarks)
    return objects, [note] if note else []


def _objects(rows: Iterable[ObjectRow], faults: Sequence[str]) -> Objects:
    """Return the objects without a fault."""
    kept = (row for row, fault in zip(rows, faults, strict=True) if not fault)
    return [(name, corners, difficult) for name, corners, difficult in kept if isinstance(corners, tuple)]


def read_annotated(path: str) -> AnnotatedFile:
    """Return the annotated pictures of a COCO file or a folder of VOC annotations.

    Raises
    ------
    MissingError
        If there is no such file or folder.
    AnnotationError
        If a file is broken, or there is no picture.
    """
    source = Path(path)
    if not source.exists():
        raise MissingError(f"boxes {path} are not there; name the file or folder with --boxes, '' for none.")
    try:
        file = voc.read(source, is_strict=True) if source.is_dir() else coco.read(source)
    except AnnotationError as error:
        if source.is_dir() or source.suffix.lower() in ("", ".json"):
            raise
        rule = "must be a COCO file (.json) or a folder of VOC annotations (.xml)"
        raise AnnotationError(f"boxes {path} {rule}, got a {source.suffix} file: {error}") from None
    if not file.pictures:
        what = "no .xml file; a COCO file is named itself" if source.is_dir() else "no picture"
        raise AnnotationError(f"boxes {path} must be a COCO file or a folder of VOC annotations, but hold {what}.")
    return file


def _rows(picture: FilePicture) -> list[ObjectRow]:
    """Return the objects of a picture: class, corners or a fault in their place, and whether it is difficult."""
    boxes = (box for box in picture.boxes if box.fault != NO_CATEGORY)
    return [(box.class_name, box.fault or box.corners, bool(box.difficult)) for box in boxes]


def _match_sentences(annotated: Sequence[FilePicture], matches: PictureMatches) -> Iterator[str]:
    """Yield sentences on the pictures that were matched, and on those that were not."""
    left = len(annotated) - len(matches.unknown) - len(matches.ambiguous) - len(matches.unequal)
    yield f"{left:,} of {len(annotated):,} pictures are the run's"
    names = [picture.names[0] for picture in annotated]
    unknown, ambiguous = [names[item] for item in matches.unknown], [names[item] for item in matches.ambiguous]
    yield from counted(unknown, "are no pictures of the run and are left out")
    yield from counted(ambiguous, "may be several pictures of the run, or share one, and are left out")
    unequal = [names[item] for item in matches.unequal]
    yield from counted(unequal, "are entries of one picture with different boxes, of which none are taken")


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
