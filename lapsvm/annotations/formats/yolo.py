"""YOLO: a text file of boxes per picture, and data.yaml that says where the pictures lie.

::

    data.yaml                               train and val folders, class names
    train.txt  val.txt                      the same pictures, one path per line
    images/train/<path>  images/val/<path>  links to the pictures, or copies
    labels/train/<path>.txt  labels/val/... one row per box: class cx cy width height, as shares of the picture

A row has exactly five numbers: readers take a sixth for the score of a prediction. A picture without boxes has an empty
file of labels. ``<path>`` is the picture's path below the data folder, so that equal names in different folders stay
apart. A folder called "images" inside it becomes "images_", because readers find labels by replacing the last "images"
of a path.
"""

from collections.abc import Mapping
from hashlib import blake2b
from json import dumps
from pathlib import Path, PurePosixPath

import numpy as np

from lapsvm.annotations.exported import AnnotatedPicture, Annotations, place_picture, without_suffix
from lapsvm.annotations.names import is_line as can_hold
from lapsvm.annotations.pictures import SHARES, UNREADABLE, AnnotatedFile, FileBox, FilePicture, shape_fault
from lapsvm.annotations.yolo import LISTS, SUFFIXES, agreed_names, class_names, label_files, other_names
from lapsvm.arrays import check_distinct
from lapsvm.errors import AnnotationError
from lapsvm.texts.numbers import whole_number
from lapsvm.texts.reading import read_text

__all__ = ["can_hold", "owns", "read", "write"]
NO_NUMBER = "of a class number without a name"
YOLO_VAL_SHARE = 0.1
_YOLO_HEADER = "# Paths are relative to this file. Programs that look elsewhere need its folder: path: /absolute/path\n"


def owns(path: Path) -> bool:
    """Return whether a named file is of this format: settings, or a list of classes."""
    return path.suffix.lower() in SUFFIXES or path.name in LISTS


def read(path: Path) -> AnnotatedFile:
    """Return the pictures of a folder, whose lists of classes must agree, or of the one list that a person named."""
    root, remarks = path, tuple[str, ...]()
    if path.is_dir():
        names = agreed_names(path)
    else:
        root, names = path.parent.parent if path.parent.name == "labels" else path.parent, class_names(path)
        remarks = tuple(other_names(root, path))
    pictures = []
    for file, _, possible in label_files(root):
        lines = read_text(file, "file of labels", AnnotationError).splitlines()
        pictures.append(FilePicture(possible, SHARES, tuple(_box(line, names) for line in lines if line.strip())))
    return AnnotatedFile(pictures, remarks)


def _box(line: str, names: Mapping[int, str]) -> FileBox:
    text, *texts = line.split()
    number = whole_number(text)
    try:
        values = [float(text) for text in texts]
    except ValueError:
        return FileBox("", (), UNREADABLE)
    if number is None or number not in names:
        return FileBox("", (), NO_NUMBER)
    if len(values) != 4:
        return FileBox(names[number], (), shape_fault("polygon") if len(values) >= 6 else UNREADABLE)
    x, y, width, height = values
    return FileBox(names[number], (x - width / 2, y - height / 2, x + width / 2, y + height / 2))


def write(annotations: Annotations, folder: Path, copy: bool = False) -> None:
    """Write a YOLO data set, with a tenth of the pictures for validation; no two may share a file of labels."""
    places = (without_suffix(_place(picture)) for picture in annotations.pictures)
    check_distinct(places, "format yolo must name each picture's file once")
    parts = split_pictures(annotations.pictures)
    for set_name, pictures in parts.items():
        for picture in pictures:
            _write_picture(annotations, picture, folder, set_name, copy)
        lines = (f"./images/{set_name}/{_place(picture)}\n" for picture in pictures)
        (folder / f"{set_name}.txt").write_text("".join(lines), encoding="utf-8")
    (folder / "data.yaml").write_text(_yaml(annotations.classes), encoding="utf-8")


def split_pictures(pictures: tuple[AnnotatedPicture, ...]) -> dict[str, list[AnnotatedPicture]]:
    """Return the pictures for training and for validation, each in order.

    A tenth, and at least one, goes to validation, chosen by a hash of the name: the same pictures in every export. A
    single picture stands in both.
    """
    by_hash = sorted(pictures, key=lambda picture: blake2b(picture.name.encode(), digest_size=8).digest())
    chosen = {picture.name for picture in by_hash[: max(1, round(YOLO_VAL_SHARE * len(pictures)))]}
    val = [picture for picture in pictures if picture.name in chosen]
    return {"train": [picture for picture in pictures if picture.name not in chosen] or val, "val": val}


def yolo_rows(picture: AnnotatedPicture, numbers: dict[str, int]) -> list[str]:
    """Return the rows of a picture's file of labels: class number, centre, width and height."""
    corners = picture.boxes / np.array([picture.width, picture.height] * 2)
    centres, sides = (corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]
    table = np.column_stack([centres, sides]).tolist()
    return [
        " ".join([str(numbers[name]), *(f"{value:.8f}" for value in row)])
        for name, row in zip(picture.classes, table, strict=True)
    ]


def _write_picture(
    annotations: Annotations, picture: AnnotatedPicture, folder: Path, set_name: str, copy: bool
) -> None:
    """Write a picture and its file of labels."""
    relative = _place(picture)
    place_picture(picture.path, folder / "images" / set_name / relative, copy)
    labels = folder / "labels" / set_name / f"{without_suffix(relative)}.txt"
    labels.parent.mkdir(parents=True, exist_ok=True)
    rows = yolo_rows(picture, dict(annotations.class_numbers))
    labels.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")


def _place(picture: AnnotatedPicture) -> str:
    """Return the path of a picture below its part."""
    *folders, name = PurePosixPath(picture.name).parts
    return "/".join([*("images_" if folder == "images" else folder for folder in folders), name])


def _yaml(classes: tuple[str, ...]) -> str:
    """Return the text of data.yaml; names are quoted as JSON, which is YAML for one line of text."""
    names = "".join(f"  {number}: {dumps(name, ensure_ascii=False)}\n" for number, name in enumerate(classes))
    return f"{_YOLO_HEADER}train: images/train\nval: images/val\nnc: {len(classes)}\nnames:\n{names}"
