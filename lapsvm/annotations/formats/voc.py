"""PASCAL VOC layout: Annotations, ImageSets/Main and JPEGImages, with the pictures.

A box is 1-based with both edges inside: xmin = x1 + 1, xmax = x2, rounded to whole pixels, because many readers take
nothing else. So a coordinate moves by half a pixel at most; a box that is thinner than a pixel becomes a pixel wide.
"""

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from urllib.parse import unquote
from xml.sax.saxutils import escape

import numpy as np

from lapsvm.annotations.exported import AnnotatedPicture, Annotations, place_picture, without_suffix
from lapsvm.annotations.names import is_xml_line as can_hold
from lapsvm.annotations.pictures import UNREADABLE, AnnotatedFile, FileBox, FilePicture
from lapsvm.annotations.voc import VocObject, read_voc_file
from lapsvm.arrays import Float64, check_distinct
from lapsvm.boxes import to_voc
from lapsvm.errors import AnnotationError
from lapsvm.ground_truth import PARTS
from lapsvm.names.matching import files_of_users
from lapsvm.names.outputs import OutputNames

__all__ = ["can_hold", "owns", "read", "write"]
DIFFICULT = "with a difficult box"
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


def owns(path: Path) -> bool:  # noqa: ARG001 - as all formats
    """Return whether a named file is of this format, which has a folder."""
    return False


def read(folder: Path, *, is_strict: bool = False) -> AnnotatedFile:
    """Return the pictures of the XML files in a folder; a file that cannot be read is an error if `is_strict`."""
    pictures, n_parts = [], 0
    for path in files_of_users(folder, "*.xml"):
        stem = path.relative_to(folder).with_suffix("").as_posix()
        names = stem, *dict.fromkeys([unquote(path.stem), unquote(path.stem).replace("__", "/")])
        try:
            file = read_voc_file(path)
        except AnnotationError:
            if is_strict:
                raise
            pictures.append(FilePicture(names, None, (FileBox("", (), UNREADABLE),)))
            continue
        remarks = ("pictures have parts of objects, which are passed over",) if file.n_parts else ()
        boxes = tuple(map(_box, file.objects))
        pictures.append(FilePicture((stem, *file.names, *names[1:]), file.size, boxes, remarks=remarks))
        n_parts += file.n_parts
    return AnnotatedFile(pictures, counts={PARTS: n_parts})


def _box(item: VocObject) -> FileBox:
    corners = () if isinstance(item.box, str) else item.box
    return FileBox(item.name, corners, item.fault, DIFFICULT if item.difficult else "")


def write(annotations: Annotations, folder: Path, copy: bool = False) -> None:
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
    stems = {picture.name: _word(without_suffix(picture.name)) for picture in annotations.pictures}
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
