"""CVAT: annotations.xml in the format "CVAT for images 1.1"; pictures are named by paths below the data folder."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from lapsvm.annotations.exported import AnnotatedPicture, Annotations
from lapsvm.annotations.names import is_xml_line as can_hold
from lapsvm.annotations.pictures import MARKS_NOTHING, NO_LABEL, AnnotatedFile, FileBox, FilePicture, shape_fault
from lapsvm.annotations.voc import read_xml
from lapsvm.box_faults import ROTATED, is_rotated
from lapsvm.errors import AnnotationError

__all__ = ["can_hold", "owns", "read", "write"]


def owns(path: Path) -> bool:
    """Return whether a named file is of this format."""
    return path.suffix.lower() == ".xml"


def read(path: Path) -> AnnotatedFile:
    """Return the pictures of a file; tracks, which name frames and no pictures, are counted."""
    root = read_xml(path)
    if root.tag != "annotations":
        raise AnnotationError(f"{path} must have the root <annotations>, got <{root.tag}>.")
    pictures = []
    for image in root.iter("image"):
        width, height = (_number(image.get(side), path) for side in ("width", "height"))
        boxes = tuple(_box(item, path) for item in image if item.tag != "tag")  # a tag is of the whole picture
        remarks = (f"pictures have {MARKS_NOTHING}",) if image.find("tag") is not None else ()
        pictures.append(FilePicture((image.get("name", ""),), (width, height), boxes, remarks=remarks))
    tracks = root.findall("track")
    count = sum(1 for track in tracks for shape in track if shape.get("outside") != "1")
    remark = (
        f"{count:,} boxes and shapes of {len(tracks):,} tracks are left out, which name frames and no pictures; "
        "export as CVAT for images"
    )
    return AnnotatedFile(pictures, (remark,) if tracks else ())


def _box(shape: Any, path: Path) -> FileBox:
    label = shape.get("label", "")
    if shape.tag != "box":
        return FileBox(label, (), shape_fault(str(shape.tag)))
    corners = tuple(_number(shape.get(side), path) for side in ("xtl", "ytl", "xbr", "ybr"))
    fault = ROTATED if is_rotated(shape.get("rotation")) else "" if label else NO_LABEL
    return FileBox(label, corners, fault)


def _number(text: str | None, path: Path) -> float:
    try:
        return float(text or "")
    except ValueError:
        raise AnnotationError(f"{path} must have numbers as sizes and boxes, got {text!r}.") from None


def write(annotations: Annotations, folder: Path) -> None:
    """Write annotations.xml."""
    (folder / "annotations.xml").write_text("\n".join(_lines(annotations)) + "\n", encoding="utf-8")


def _lines(annotations: Annotations) -> Iterator[str]:
    """Yield the lines of the file."""
    yield '<?xml version="1.0" encoding="utf-8"?>'
    yield "<annotations>"
    yield "  <version>1.1</version>"
    yield "  <meta><task>"
    yield f"    <name>{escape(annotations.set_name)}</name>"
    yield f"    <size>{len(annotations.pictures)}</size>"
    yield "    <mode>annotation</mode>"
    yield "    <labels>"
    for name in annotations.classes:
        yield f"      <label><name>{escape(name)}</name><type>rectangle</type><attributes></attributes></label>"
    yield "    </labels>"
    yield "  </task></meta>"
    for number, picture in enumerate(annotations.pictures):
        yield from _image(number, picture)
    yield "</annotations>"


def _image(number: int, picture: AnnotatedPicture) -> Iterator[str]:
    """Yield the lines of a picture."""
    name = quoteattr(picture.name)
    yield f'  <image id="{number}" name={name} width="{picture.width}" height="{picture.height}">'
    for label, (x1, y1, x2, y2) in zip(picture.classes, picture.boxes.tolist(), strict=True):
        corners = f'xtl="{x1:.4f}" ytl="{y1:.4f}" xbr="{x2:.4f}" ybr="{y2:.4f}"'
        yield f'    <box label={quoteattr(label)} source="auto" occluded="0" {corners} z_order="0"></box>'
    yield "  </image>"
