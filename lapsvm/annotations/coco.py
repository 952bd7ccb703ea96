"""COCO JSON files: pictures, categories and annotations, with consistency checks.

Boxes are read on request only, so that code that needs labels never sees boxes.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from lapsvm.box_faults import NO_BOX, NOT_NUMBERS, ROTATED, is_rotated, left_out_sentence
from lapsvm.errors import AnnotationError, DataError, ResultsError
from lapsvm.ground_truth import PICTURES_TWICE, TWICE, Size, object_faults, with_remarks
from lapsvm.texts.agreement import agreed
from lapsvm.texts.reading import read_json

Corners = tuple[float, float, float, float]

CROWD = "crowd regions"
NO_CATEGORY = "of a category that the file does not list"
RUN_LENGTHS = "with a mask in run lengths and no box"
_BBOX_RULE = "four finite numbers as bbox (x, y, width, height)"


@dataclass(frozen=True)
class CocoAnnotation:
    """One object.

    Attributes
    ----------
    image_id, category_id : int or str
    is_crowd : bool
        Whether the region contains several objects that are not separated.
    corners : tuple of float, or None
        x1, y1, x2, y2; None if boxes were not read, or this one is not usable.
    area : float or None
        Area in the file, for instance of a mask; None if boxes were not read.
    fault : str
        Why its box is not usable, as `lapsvm.box_faults` says; "" if it is, or boxes were not read.
    """

    image_id: Hashable
    category_id: Hashable
    is_crowd: bool
    corners: Corners | None = None
    area: float | None = None
    fault: str = ""


@dataclass(frozen=True)
class CocoFile:
    """The content of a file of annotations.

    Attributes
    ----------
    path : Path
    file_names : mapping of image id to ``file_name``, in file order
        "" if the file has none.
    categories : mapping of category id to name
    annotations : tuple of CocoAnnotation
    faults : mapping of str to int
        How many annotations have no usable box or no category, by fault, and how many are crowd regions.
    without_category : frozenset of image id
        The pictures with an annotation of a category that the file does not list; what they show is not known.
    sizes : mapping of image id to (width, height)
        Of the pictures of which the file has both, above 0.
    repeats : mapping of image id to image id
        Entries that only repeat an earlier one of the same ``file_name``, size and annotations.
    n_twice : int
        Number of boxes that are given again for the same picture, and are left out.
    """

    path: Path
    file_names: Mapping[Hashable, str]
    categories: Mapping[Hashable, str]
    annotations: tuple[CocoAnnotation, ...]
    faults: Mapping[str, int] = field(default_factory=dict)
    without_category: frozenset[Hashable] = frozenset()
    sizes: Mapping[Hashable, tuple[float, float]] = field(default_factory=dict)
    repeats: Mapping[Hashable, Hashable] = field(default_factory=dict)
    n_twice: int = 0

    @property
    def remarks(self) -> dict[str, int]:
        """What the file gives twice, and how often."""
        return {TWICE: self.n_twice, PICTURES_TWICE: len(self.repeats)}


@dataclass(frozen=True)
class CocoResult:
    """One detection of a results file, with the same attributes."""

    image_id: Hashable
    category_id: Hashable
    score: float
    corners: Corners


def read_coco(path: str | Path, *, boxes: bool = False) -> CocoFile:
    """Read a file of annotations; annotations of a category that it does not list are left out.

    Equal entries are one, and so are equal boxes of a category in a picture. Categories that no annotation uses are
    left out where another one has their name.

    Parameters
    ----------
    path : str or Path
    boxes : bool, default False
        Whether to read boxes. Segmentations are ignored.

    Returns
    -------
    CocoFile

    Raises
    ------
    MissingError
        If there is no such file.
    AnnotationError
        If it is not JSON or not a COCO file; an id belongs to different entries; two categories of the same name have
        annotations; or an annotation has a picture that the file does not list.
    """
    path = Path(path)
    content = read_json(path, "file of annotations", AnnotationError)
    if not isinstance(content, dict):
        raise AnnotationError(f"{path} must hold a JSON object with images, got {_short(content)}.")
    images = _by_id(content, "images", path)
    rows, n_repeated = _annotation_rows(content, path)
    names = _category_names(content, rows, path)
    sizes = {key: _numbers([entry.get("width"), entry.get("height")], 2) for key, entry in images.items()}
    known = {key: (size[0], size[1]) for key, size in sizes.items() if size and min(size) > 0}
    used = {index: row for index, row in enumerate(rows) if _is_listed(row.get("category_id"), names)}
    others = [row.get("image_id") for index, row in enumerate(rows) if index not in used]
    annotations = [_annotation(row, f"{path}: annotation {row.get('id', at)}", images) for at, row in used.items()]
    judged = _judged(annotations, list(used.values()), known)
    kept = _first_of_equals(judged)
    faults = Counter(judged[at].fault or CROWD for at in kept if judged[at].fault or judged[at].is_crowd)
    faults += Counter({NO_CATEGORY: len(others)})
    files = {key: _text(entry, "file_name", f"{path}: image {key}", "") for key, entry in images.items()}
    without_category = frozenset(as_id(image) for image in others if _is_listed(image, images))
    repeats = _repeats(files, known, [judged[at] for at in kept], without_category)
    read, n_twice = judged if boxes else annotations, n_repeated + len(judged) - len(kept)
    taken = tuple(read[at] for at in kept)
    return CocoFile(path, files, names, taken, faults, without_category, known, repeats, n_twice)


def _first_of_equals(annotations: Sequence[CocoAnnotation]) -> list[int]:
    """Return the numbers of annotations without those that repeat the box of an earlier one; unusable ones stay."""
    keys = (
        (at,) if item.corners is None else (item.image_id, item.category_id, item.is_crowd, item.corners)
        for at, item in enumerate(annotations)
    )
    return list(agreed(zip(keys, range(len(annotations)), strict=True), same=lambda *_: True).taken.values())


def _repeats(
    files: Mapping[Hashable, str],
    sizes: Mapping[Hashable, Size],
    annotations: Sequence[CocoAnnotation],
    without_category: Iterable[Hashable],
) -> dict[Hashable, Hashable]:
    """Return image id -> the image of the same file name that says the same, where all of that name do."""
    said = defaultdict[Hashable, set[tuple[object, ...]]](set)
    for item in annotations:
        said[item.image_id].add((item.category_id, item.is_crowd, item.corners or item.fault))
    for key in without_category:
        said[key].add((NO_CATEGORY,))
    named = [(str(PurePosixPath(name)), key) for key, name in files.items() if name]
    equal = agreed(
        named, same=lambda item, other: (sizes.get(item), said[item]) == (sizes.get(other), said[other])
    ).taken
    return {key: equal[name] for name, key in named if equal.get(name, key) != key}


def _category_names(content: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], path: Path) -> dict[Hashable, str]:
    """Return id -> name of the categories; of several of one name the one that annotations use, or else the first.

    Raises AnnotationError if they use several of one name.
    """
    entries = _by_id(content, "categories", path)
    names = {key: _text(entry, "name", f"{path}: category {key}") for key, entry in entries.items()}
    used = {as_id(row.get("category_id")) for row in rows}
    in_use = agreed((name, key) for key, name in names.items() if key in used)
    for name, ids in in_use.unequal.items():
        raise AnnotationError(
            f"{path}: names of categories must differ where annotations use them, got {name!r} for the ids "
            f"{_short(ids[0])} and {_short(ids[1])}; give one of them another name, or its annotations the other id."
        )
    first = {name: key for key, name in reversed(names.items())} | in_use.taken
    return {key: name for key, name in names.items() if first[name] == key}


def fault_sentence(file: CocoFile) -> str:
    """Return the annotations of a file that evaluation leaves out, as the end of a sentence. "" if it takes all."""
    unusable = {fault: count for fault, count in file.faults.items() if fault != CROWD}
    total = len(file.annotations) + unusable.get(NO_CATEGORY, 0)
    sentence = with_crowds(left_out_sentence(unusable, total), file.faults.get(CROWD, 0))
    return with_remarks(sentence, file.remarks)


def with_crowds(sentence: str, n_crowds: int) -> str:
    """Add crowd regions to the end of a sentence on omitted annotations, if there are any."""
    crowds = f"{n_crowds:,} crowd regions count as difficult" if n_crowds else ""
    return "; ".join(clause for clause in (sentence, crowds) if clause)


def read_coco_results(path: str | Path, truth: CocoFile) -> list[CocoResult]:
    """Read a file of results: a list of objects with image_id, category_id, bbox and score.

    Parameters
    ----------
    path : str or Path
    truth : CocoFile
        Ground truth with the pictures and categories of the results.

    Returns
    -------
    list of CocoResult
        In file order; boxes are unchanged, including inverted ones.

    Raises
    ------
    MissingError
        If there is no such file.
    ResultsError
        If it is not a list of results, or a result has a picture or a category that `truth` does not list.
    """
    path = Path(path)
    rows = read_json(path, "file of results", ResultsError)
    if not isinstance(rows, list):
        raise ResultsError(f"{path} must hold a JSON list of results, got {_short(rows)}.")
    results = []
    for index, row in enumerate(rows):
        where = f"{path}: result {index}"
        if not isinstance(row, dict):
            raise ResultsError(f"{where} must be an object, got {_short(row)}.")
        image = _reference(
            row, "image_id", truth.file_names, f"{where} must be in an image of {truth.path}", ResultsError
        )
        category = _reference(row, "category_id", truth.categories, f"{where} must have its categories", ResultsError)
        score = _numbers([row.get("score")], 1)
        if score is None:
            raise ResultsError(f"{where} must have a finite score, got {_short(row.get('score'))}.")
        corners = corners_of_bbox(row.get("bbox"))
        if corners is None:
            raise ResultsError(f"{where} must have {_BBOX_RULE}, got {_short(row.get('bbox'))}.")
        results.append(CocoResult(image, category, score[0], corners))
    return results


def _listed(content: Mapping[str, Any], key: str, path: Path) -> list[dict[str, Any]]:
    """Return a list of objects of a file."""
    rows = content.get(key)
    if not isinstance(rows, list):
        raise AnnotationError(f"{path} must have a list {key!r}, got {_short(rows)}.")
    for index, row in enumerate(rows):
        if not isinstance(row, dict):
            raise AnnotationError(f"{path}: entry {index} of {key} must be an object, got {_short(row)}.")
    return rows


def _by_id(content: Mapping[str, Any], key: str, path: Path) -> dict[Hashable, dict[str, Any]]:
    """Return id -> object of a list, in file order."""
    ids = []
    for index, row in enumerate(_listed(content, key, path)):
        annotation_id = as_id(row.get("id"))
        if annotation_id is None:
            raise AnnotationError(
                f"{path}: entry {index} of {key} must have a whole number or a text as id, got {_short(row.get('id'))}."
            )
        ids.append((annotation_id, row))
    entries = agreed(ids)
    for rows in entries.unequal.values():
        raise AnnotationError(f"{path}: ids of {key} must differ, got {rows[1]['id']!r} twice.")
    return entries.taken


def _annotation_rows(content: Mapping[str, Any], path: Path) -> tuple[list[dict[str, Any]], int]:
    """Return the annotations, equal ones of one id once, and how often one is repeated.

    Raises AnnotationError if an id is none, or belongs to different annotations.
    """
    rule = f"{path}: ids of annotations must be numbers or texts and differ"
    records = list[tuple[Hashable, dict[str, Any]]]()
    for at, row in enumerate(_listed(content, "annotations", path)):
        key = as_id(row.get("id"))
        if key is None and row.get("id") is not None:
            raise AnnotationError(f"{rule}, got {_short(row['id'])}.")
        records.append(((key,) if key is not None else (at, "without an id"), row))
    agreement = agreed(records)
    for rows in agreement.unequal.values():
        raise AnnotationError(f"{rule}, got {_short(rows[1]['id'])}.")
    return list(agreement.taken.values()), agreement.n_repeated


def _annotation(row: Mapping[str, Any], where: str, images: Mapping[Hashable, Any]) -> CocoAnnotation:
    """Return one annotation of a listed category, which must be of a listed image, without its box."""
    image = _reference(row, "image_id", images, f"{where} must have an image of the file", AnnotationError)
    crowd = row.get("iscrowd", 0)
    if crowd not in (0, 1):
        raise AnnotationError(f"{where} must have 0 or 1 as iscrowd, got {_short(crowd)}.")
    return CocoAnnotation(image, as_id(row["category_id"]), bool(crowd))


def _judged(
    annotations: Sequence[CocoAnnotation], rows: Sequence[Mapping[str, Any]], sizes: Mapping[Hashable, Size]
) -> list[CocoAnnotation]:
    """Return annotations with their boxes, or with the faults of these in pictures of the stated sizes."""
    of_picture = defaultdict[Hashable, list[int]](list)
    for number, annotation in enumerate(annotations):
        of_picture[annotation.image_id].append(number)
    judged = list(annotations)
    for image_id, numbers in of_picture.items():
        boxes = [_box(rows[number]) for number in numbers]
        for number, box, fault in zip(numbers, boxes, object_faults(boxes, sizes.get(image_id)), strict=True):
            judged[number] = _with_box(annotations[number], rows[number], box, fault)
    return judged


def _with_box(annotation: CocoAnnotation, row: Mapping[str, Any], box: Corners | str, fault: str) -> CocoAnnotation:
    """Return an annotation with its corners and area, or with its fault."""
    if fault or isinstance(box, str):
        return replace(annotation, fault=fault)
    x1, y1, x2, y2 = box
    (area,) = _numbers([row.get("area")], 1) or [(x2 - x1) * (y2 - y1)]
    return replace(annotation, corners=box, area=area)


def _box(row: Mapping[str, Any]) -> Corners | str:
    """Return the corners of the box of an annotation, or why it has none."""
    bbox, attributes = row.get("bbox"), row.get("attributes")
    angles = [row.get("rotation"), attributes.get("rotation") if isinstance(attributes, dict) else None]
    if any(map(is_rotated, angles)) or _numbers(bbox, 5):  # of five numbers the last is an angle
        return ROTATED
    if not bbox:
        return RUN_LENGTHS if isinstance(row.get("segmentation"), dict) else NO_BOX
    return corners_of_bbox(bbox) or NOT_NUMBERS


def _reference(
    row: Mapping[str, Any], key: str, known: Mapping[Hashable, Any], rule: str, error: type[DataError]
) -> Any:
    """Return an id that refers to an entry of another list."""
    value = as_id(row.get(key))
    if value is None or value not in known:
        raise error(f"{rule}, got {key} {_short(row.get(key))}.")
    return value


def corners_of_bbox(bbox: Any) -> Corners | None:
    """Return x1, y1, x2, y2 of a JSON box x, y, width, height, or None unless its numbers are finite."""
    numbers = _numbers(bbox, 4)
    if numbers is None:
        return None
    x, y, width, height = numbers
    return (x, y, x + width, y + height) if math.isfinite(x + width) and math.isfinite(y + height) else None


def _numbers(values: Any, count: int) -> list[float] | None:
    """Return `count` finite numbers, or None for any other value."""
    if not isinstance(values, list) or len(values) != count:
        return None
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in values):
        return None
    try:
        numbers = [float(value) for value in values]
    except OverflowError:
        return None
    return numbers if all(map(math.isfinite, numbers)) else None


def _text(entry: Mapping[str, Any], key: str, where: str, default: str | None = None) -> str:
    """Return a string of an entry."""
    value = entry.get(key, default)
    if not isinstance(value, str):
        raise AnnotationError(f"{where} must have a text as {key}, got {_short(value)}.")
    return value


def _is_listed(value: Any, known: Mapping[Hashable, Any]) -> bool:
    """Return whether a value is the id of an entry."""
    return (key := as_id(value)) is not None and key in known


def as_id(value: Any) -> Hashable | None:
    """Return a value that can be an id, 1.0 as the whole number that it was. None for others."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int | str) and not isinstance(value, bool) else None


def _short(value: Any) -> str:
    """Return the beginning of a value for an error message."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
