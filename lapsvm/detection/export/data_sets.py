"""Formats of folders that hold the pictures too: the PASCAL VOC layout, and YOLO's.

VOC: Annotations, ImageSets/Main and JPEGImages. A box is 1-based with both edges inside: xmin = x1 + 1, xmax = x2,
rounded to whole pixels, because many readers take nothing else. So a coordinate moves by half a pixel at most; a box
that is thinner than a pixel becomes a pixel wide.

YOLO: a text file of boxes per picture, and data.yaml that says where the pictures lie::

    data.yaml                               train and val folders, class names
    train.txt  val.txt                      the same pictures, one path per line
    images/train/<path>  images/val/<path>  links to the pictures, or copies
    labels/train/<path>.txt  labels/val/... one row per box: class cx cy width height, as shares of the picture

A row has exactly five numbers: readers take a sixth for the score of a prediction. A picture without boxes has an empty
file of labels. ``<path>`` is the picture's path below the data folder, so that equal names in different folders stay
apart. A folder called "images" inside it becomes "images_", because readers find labels by replacing the last "images"
of a path.
"""

import shutil
from collections.abc import Mapping
from hashlib import blake2b
from json import dumps
from pathlib import Path, PurePosixPath
from xml.sax.saxutils import escape

import numpy as np

from lapsvm.arrays import Float64, check_distinct
from lapsvm.boxes import to_voc
from lapsvm.detection.export.annotations import AnnotatedPicture, Annotations
from lapsvm.files import check_regular
from lapsvm.names.outputs import OutputNames

YOLO_VAL_SHARE = 0.1
_YOLO_HEADER = "# Paths are relative to this file. Programs that look elsewhere need its folder: path: /absolute/path\n"
_VOC_OBJECT = (
    "\t<object>\n\t\t<name>{name}</name>\n\t\t<pose>Unspecified</pose>\n\t\t<truncated>0</truncated>\n"
    "\t\t<difficult>0</difficult>\n\t\t<bndbox>\n\t\t\t<xmin>{0}</xmin>\n\t\t\t<ymin>{1}</ymin>\n"
    "\t\t\t<xmax>{2}</xmax>\n\t\t\t<ymax>{3}</ymax>\n\t\t</bndbox>\n\t</object>\n"
)
_VOC_ANNOTATION = (
    "<annotation>\n\t<folder>JPEGImages</folder>\n\t<filename>{file}</filename>\n\t<path>{name}</path>\n"
    "\t<size>\n\t\t<width>{width}</width>\n\t\t<height>{height}</height>\n\t\t<depth>3</depth>\n\t</size>\n"
    "\t<segmented>0</segmented>\n{objects}</annotation>\n"
)


def write_voc(annotations: Annotations, folder: Path, copy: bool = False) -> None:
    """Write a data set in the VOC layout; its class lists say which pictures have an exported box of a class.

    Raises InputError for the name of a set or class that is no file name, or two pictures that would share an id.
    """
    without_pictures = Annotations(annotations.set_name, annotations.classes, ())
    without_pictures.check_names("voc", lambda name: not set(name) & set("/\\"))
    ids = voc_ids(annotations)
    check_distinct(ids.values(), "format voc must name each picture's file once")
    ids = _file_stems(ids)
    for name in ("Annotations", "ImageSets/Main", "JPEGImages"):
        (folder / name).mkdir(parents=True)
    for picture in annotations.pictures:
        image_id = ids[picture.name]
        file = image_id + PurePosixPath(picture.name).suffix
        (folder / "Annotations" / f"{image_id}.xml").write_text(_voc_annotation(picture, file), encoding="utf-8")
        place_picture(picture.path, folder / "JPEGImages" / file, copy)
    lists = {"": "".join(f"{image_id}\n" for image_id in ids.values())}
    for name in annotations.classes:
        flags = (f"{ids[picture.name]} {1 if name in picture.classes else -1:2d}\n" for picture in annotations.pictures)
        lists[f"{name}_"] = "".join(flags)
    for prefix, text in lists.items():
        path = folder / "ImageSets" / "Main" / f"{prefix}{annotations.set_name}.txt"
        path.write_text(text, encoding="utf-8")


def voc_ids(annotations: Annotations) -> dict[str, str]:
    """Return picture name -> id: its own name without folders if that is unique, otherwise its path with ``__``.

    White space and ``%`` become ``%20``, ``%25`` and so on, because a line of a list splits at white space.
    """
    stems = {picture.name: _word(_without_suffix(picture.name)) for picture in annotations.pictures}
    short = {name: PurePosixPath(stem).name for name, stem in stems.items()}
    if len(set(short.values())) == len(short):
        return short
    return {name: stem.replace("/", "__") for name, stem in stems.items()}


def _file_stems(ids: Mapping[str, str]) -> dict[str, str]:
    """Return picture name -> id with which every system takes the names of its files, and takes no two for one."""
    names = OutputNames()
    suffixes = {name: PurePosixPath(name).suffix for name in ids}
    return {name: names.new(PurePosixPath(stem), [".xml", suffixes[name]])[0].stem for name, stem in ids.items()}


def voc_corners(boxes: Float64) -> list[list[int]]:
    """Return xmin, ymin, xmax, ymax of boxes as whole numbers, at least one pixel wide and high."""
    corners = np.rint(to_voc(boxes)).astype(np.int64)
    low, high = corners[:, :2], corners[:, 2:]
    thin = low > high
    middle = np.floor((boxes[:, :2] + boxes[:, 2:]) / 2).astype(np.int64) + 1
    corners = np.column_stack([np.where(thin, middle, low), np.where(thin, middle, high)])
    rows: list[list[int]] = corners.tolist()
    return rows


def _voc_annotation(picture: AnnotatedPicture, file: str) -> str:
    """Return the text of an annotation file."""
    rows = zip(picture.classes, voc_corners(picture.boxes), strict=True)
    fields: Mapping[str, object] = {"width": picture.width, "height": picture.height}
    objects = "".join(_VOC_OBJECT.format(*corners, name=escape(name)) for name, corners in rows)
    return _VOC_ANNOTATION.format(file=escape(file), name=escape(picture.name), objects=objects, **fields)


def _word(text: str) -> str:
    """Return a text as one word."""
    return "".join(
        "".join(f"%{byte:02X}" for byte in letter.encode()) if letter.isspace() or letter == "%" else letter
        for letter in text
    )


def write_yolo(annotations: Annotations, folder: Path, copy: bool = False) -> None:
    """Write a YOLO data set, with a tenth of the pictures for validation; no two may share a file of labels."""
    places = (_without_suffix(_place(picture)) for picture in annotations.pictures)
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
    labels = folder / "labels" / set_name / f"{_without_suffix(relative)}.txt"
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


def place_picture(source: Path, target: Path, copy: bool) -> None:
    """Link a picture by its absolute path, or copy its content; the target's folder is made."""
    check_regular(source, "picture")  # what stands below a link to a folder would be written into that folder
    target.parent.mkdir(parents=True, exist_ok=True)
    if copy:
        shutil.copyfile(source, target)
    else:
        target.symlink_to(source.resolve())


def _without_suffix(name: str) -> str:
    """Return the path of a picture without its suffix."""
    return str(PurePosixPath(name).with_suffix(""))
