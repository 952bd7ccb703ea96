"""CVAT: annotations.xml in the format "CVAT for images 1.1"; pictures are named by paths below the data folder."""

from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from lapsvm.detection.export.annotations import AnnotatedPicture, Annotations


def write_cvat(annotations: Annotations, folder: Path, copy: bool = False) -> None:  # noqa: ARG001 - as all writers
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
