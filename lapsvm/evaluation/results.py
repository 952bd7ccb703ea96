"""Detections of one class, and the result files of the VOC devkit that hold them.

A line is ``id score x1 y1 x2 y2`` with VOC boxes (1-based, inclusive edges). Files are named
``comp3_det_<set>_<class>.txt`` (trained on the challenge's data only) or ``comp4_det_<set>_<class>.txt`` (any data).
As an extension, a tab separates an id that contains spaces from its numbers.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from io import TextIOWrapper
from itertools import chain
from math import isfinite
from operator import itemgetter
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Float64, Index, as_floats, check_finite, check_same_length
from lapsvm.boxes import as_boxes, from_voc, to_voc
from lapsvm.errors import InputError, MissingError, OptionError, ResultsError, ShapeError
from lapsvm.files import open_regular, write_atomically

COMPETITIONS = ("comp3", "comp4")


@dataclass(frozen=True, eq=False)
class Detections:
    """Detections of one class over a set of pictures, in file order.

    Parameters
    ----------
    image_ids : sequence of n str
        The picture of each detection.
    scores : array-like of shape (n,)
        Larger scores are more confident; stored as float64.
    boxes : array-like of shape (n, 4)
        x1, y1, x2, y2; 0-based, half-open; stored unchanged as float64. Inverted boxes are allowed and match nothing.

    Raises
    ------
    ShapeError
        If the three differ in length, or a shape is wrong.
    NotFiniteError
        If a score or a coordinate is NaN or infinite.
    """

    image_ids: tuple[str, ...]
    scores: Float64
    boxes: Float64

    def __post_init__(self) -> None:
        ids, scores, boxes = tuple(self.image_ids), as_floats("scores", self.scores, 1), as_boxes(self.boxes)
        check_finite("boxes", boxes)
        check_same_length("scores", scores, "boxes", boxes)
        if len(ids) != len(scores):
            raise ShapeError(f"image_ids and scores must have the same length, got {len(ids)} and {len(scores)}.")
        object.__setattr__(self, "image_ids", ids)
        object.__setattr__(self, "scores", scores)
        object.__setattr__(self, "boxes", boxes)

    def __len__(self) -> int:
        return len(self.image_ids)

    def order(self) -> Index:
        """Return the indices of the detections from best to worst; equal scores stay in file order."""
        return np.argsort(-self.scores, kind="stable")

    @classmethod
    def from_images(cls, images: Iterable[tuple[str, ArrayLike, ArrayLike]]) -> "Detections":
        """Join the detections of several pictures.

        Parameters
        ----------
        images : iterable of (image id, boxes (k, 4), scores (k,))

        Returns
        -------
        Detections
            In the given order.
        """
        pictures = [(image, as_boxes(boxes), as_floats("scores", scores, 1)) for image, boxes, scores in images]
        return cls(
            tuple(chain.from_iterable([image] * len(scores) for image, _, scores in pictures)),
            np.concatenate([np.empty(0), *(scores for _, _, scores in pictures)]),
            np.concatenate([np.empty((0, 4)), *(boxes for _, boxes, _ in pictures)]),
        )


def result_name(set_name: str, class_name: str, competition: str = "comp4") -> str:
    """Return the name of a class's result file.

    Parameters
    ----------
    set_name, class_name : str
    competition : {"comp3", "comp4"}, default "comp4"

    Returns
    -------
    str

    Raises
    ------
    OptionError
        If the competition is unknown.
    InputError
        If a name is empty or holds a slash, a NUL or a line break.
    """
    if competition not in COMPETITIONS:
        raise OptionError(f"competition must be one of {', '.join(COMPETITIONS)}, got {competition!r}.")
    for name in (set_name, class_name):
        if not name or set(name) & set("/\\\0\r\n") or _has_surrogates(name):
            raise InputError(f"the name of a set or class must be valid in a file name, got {name!r}.")
    return f"{competition}_det_{set_name}_{class_name}.txt"


def read_results(folder: str | Path, set_name: str) -> dict[str, Detections]:
    """Read every result file of a set.

    Parameters
    ----------
    folder : str or Path
    set_name : str
        The set in the file names. The rest of the name is the class, which may contain underscores.

    Returns
    -------
    dict of class name to Detections
        Sorted by name, detections in file order. An empty file is a class without detections.

    Raises
    ------
    MissingError
        If there is no such folder, or no result file of this set in it.
    ResultsError
        If a line is not "id score x1 y1 x2 y2" with finite numbers (the file and line are named), or a class has both
        a comp3 and a comp4 file.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise MissingError(f"folder of results {folder} is not there.")
    files: dict[str, Path] = {}
    for prefix in (f"{competition}_det_{set_name}_" for competition in COMPETITIONS):
        for path in folder.iterdir():
            name = path.name.removeprefix(prefix).removesuffix(".txt")
            if path.name != f"{prefix}{name}.txt" or not name or path.is_dir():
                continue
            if name in files:
                raise ResultsError(
                    f"class {name!r} must have one result file, got {files[name].name} and {path.name} in {folder}."
                )
            files[name] = path
    if not files:
        raise MissingError(f"folder {folder} holds no result file comp3|comp4_det_{set_name}_<class>.txt.")
    return {name: read_result_file(files[name]) for name in sorted(files)}


def read_result_file(path: str | Path) -> Detections:
    """Read one result file.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    Detections
        In file order.

    Raises
    ------
    MissingError
        If there is no such file.
    ResultsError
        If a line is malformed; the message names the line.
    """
    path = Path(path)
    ids, rows = [], []
    try:
        with TextIOWrapper(open_regular(path, "result file"), encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.isspace():
                    image, row = _parse(line, path, number)
                    ids.append(image)
                    rows.append(row)
    except UnicodeDecodeError:
        raise ResultsError(f"{path} must be text in UTF-8.") from None
    table = np.array(rows, dtype=np.float64).reshape(-1, 5)
    return Detections(tuple(ids), table[:, 0].copy(), from_voc(table[:, 1:]))


def _parse(line: str, path: Path, number: int) -> tuple[str, list[float]]:
    """Return the id and the five numbers of a line."""
    image, *fields = line.split()
    if len(fields) != 5 and "\t" in line:
        image, _, numbers = line.partition("\t")
        fields = numbers.split()
    try:
        row = [float(field) for field in fields]
    except ValueError:
        row = []
    if len(row) != 5 or not all(map(isfinite, row)):
        raise ResultsError(
            f"{path}, line {number}, must be an id, a score and x1 y1 x2 y2, all finite; got {line.strip()[:80]!r}."
        )
    return image, row


def write_results(path: str | Path, detections: Detections) -> None:
    """Write one result file atomically.

    Numbers are written as the shortest text that reads back as the same float64. Lines are sorted by descending score,
    then by image id, then in the given order, so that all readers rank them equally.

    Parameters
    ----------
    path : str or Path
        See `result_name`.
    detections : Detections
        A box is written as its VOC coordinates (x1 + 1, y1 + 1, x2, y2); the sum is exact unless x1 or y1 has binary
        digits below 2**-44 (float32 coordinates from 2**-20 on have none).

    Raises
    ------
    InputError
        If an image id is empty, starts or ends with a space, or holds a tab or a line break.
    """
    write_atomically(path, "".join(_lines(detections)).encode())


def _lines(detections: Detections) -> list[str]:
    """Return the lines of a result file."""
    numbers = np.column_stack([detections.scores, to_voc(detections.boxes)]).tolist()
    rows = sorted(zip((-detections.scores).tolist(), detections.image_ids, numbers, strict=True), key=itemgetter(0, 1))
    heads = {image: image + _separator(image) for image in set(detections.image_ids)}
    return [f"{heads[image]}{' '.join(map(_number, row))}\n" for _, image, row in rows]


def _number(value: float) -> str:
    """Return the shortest text that reads back as `value`, an integer without its ".0"."""
    return repr(value).removesuffix(".0")


def _separator(image: str) -> str:
    """Return the separator between an id and its numbers: a space, or a tab if the id contains spaces."""
    if image.split() == [image] and image.isprintable():
        return " "
    if _has_surrogates(image):
        raise InputError(f"an image id must be text that UTF-8 can write, got {image!r}.")
    if image.split() == [image]:
        return " "
    if not image.strip() or image != image.strip() or set(image) & set("\t\r\n"):
        raise InputError(
            f"an image id must not be empty, start or end with a space or hold a tab or a line break, got {image!r}."
        )
    return "\t"


def _has_surrogates(text: str) -> bool:
    """Return whether a text holds surrogates, which UTF-8 cannot encode."""
    return any("\ud800" <= letter <= "\udfff" for letter in text)
