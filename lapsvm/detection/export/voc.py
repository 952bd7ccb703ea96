"""The PASCAL VOC layout: Annotations, ImageSets/Main and JPEGImages.

A box is 1-based with both edges inside: xmin = x1 + 1, xmax = x2, rounded to whole pixels, because many readers take
nothing else. So a coordinate moves by half a pixel at most; a box that is thinner than a pixel becomes a pixel wide.
"""

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from xml.sax.saxutils import escape

import numpy as np

from lapsvm.arrays import Float64
from lapsvm.boxes import to_voc
from lapsvm.detection.export.annotations import AnnotatedPicture, Annotations
from lapsvm.detection.export.names import check_unique, without_suffix
from lapsvm.detection.export.placing import place_picture

_OBJECT = (
    "\t<object>\n\t\t<name>{name}</name>\n\t\t<pose>Unspecified</pose>\n\t\t<truncated>0</truncated>\n"
    "\t\t<difficult>0</difficult>\n\t\t<bndbox>\n\t\t\t<xmin>{0}</xmin>\n\t\t\t<ymin>{1}</ymin>\n"
    "\t\t\t<xmax>{2}</xmax>\n\t\t\t<ymax>{3}</ymax>\n\t\t</bndbox>\n\t</object>\n"
)
_ANNOTATION = (
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
    check_unique(ids.values(), "format voc must name each picture's file once")
    for name in ("Annotations", "ImageSets/Main", "JPEGImages"):
        (folder / name).mkdir(parents=True)
    for picture in annotations.pictures:
        image_id = ids[picture.name]
        file = image_id + PurePosixPath(picture.name).suffix
        (folder / "Annotations" / f"{image_id}.xml").write_text(_annotation(picture, file), encoding="utf-8")
        place_picture(picture.path, folder / "JPEGImages" / file, copy)
    lists = {"": "".join(f"{image_id}\n" for image_id in ids.values())}
    for name in annotations.classes:
        flags = (f"{ids[one.name]} {1 if name in one.classes else -1:2d}\n" for one in annotations.pictures)
        lists[f"{name}_"] = "".join(flags)
    for prefix, text in lists.items():
        path = folder / "ImageSets" / "Main" / f"{prefix}{annotations.set_name}.txt"
        path.write_text(text, encoding="utf-8")


def voc_ids(annotations: Annotations) -> dict[str, str]:
    """Return picture name -> id: its own name without folders if that is unique, otherwise its path with ``__``.

    White space and ``%`` become ``%20``, ``%25`` and so on, because a line of a list splits at white space.
    """
    stems = {picture.name: _word(without_suffix(picture.name)) for picture in annotations.pictures}
    short = {name: PurePosixPath(stem).name for name, stem in stems.items()}
    if len(set(short.values())) == len(short):
        return short
    return {name: stem.replace("/", "__") for name, stem in stems.items()}


def voc_corners(boxes: Float64) -> list[list[int]]:
    """Return xmin, ymin, xmax, ymax of boxes as whole numbers, at least one pixel wide and high."""
    corners = np.rint(to_voc(boxes)).astype(np.int64)
    low, high = corners[:, :2], corners[:, 2:]
    thin = low > high
    middle = np.floor((boxes[:, :2] + boxes[:, 2:]) / 2).astype(np.int64) + 1
    corners = np.column_stack([np.where(thin, middle, low), np.where(thin, middle, high)])
    rows: list[list[int]] = corners.tolist()
    return rows


def _annotation(picture: AnnotatedPicture, file: str) -> str:
    """Return the text of an annotation file."""
    rows = zip(picture.classes, voc_corners(picture.boxes), strict=True)
    fields: Mapping[str, object] = {"width": picture.width, "height": picture.height}
    objects = "".join(_OBJECT.format(*corners, name=escape(name)) for name, corners in rows)
    return _ANNOTATION.format(file=escape(file), name=escape(picture.name), objects=objects, **fields)


def _word(text: str) -> str:
    """Return a text as one word."""
    return "".join(
        "".join(f"%{byte:02X}" for byte in one.encode()) if one.isspace() or one == "%" else one for one in text
    )
