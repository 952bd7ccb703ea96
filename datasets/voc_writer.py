"""Writer of the VOC layout, for generators."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from lapsvm.annotations.voc import VocObject
from lapsvm.catalog import Pixels

JPEG_QUALITY = 90

_OBJECT = """\t<object>
\t\t<name>{name}</name>
\t\t<difficult>{difficult:d}</difficult>
\t\t<bndbox><xmin>{0:g}</xmin><ymin>{1:g}</ymin><xmax>{2:g}</xmax><ymax>{3:g}</ymax></bndbox>
\t</object>
"""
_ANNOTATION = """<annotation>
\t<filename>{image_id}.jpg</filename>
\t<size><width>{width}</width><height>{height}</height><depth>3</depth></size>
{objects}</annotation>
"""


class VocPicture(NamedTuple):
    """A picture and its objects."""

    image_id: str
    pixels: Pixels
    objects: Sequence[VocObject]


def write_pictures(root: Path, pictures: Iterable[VocPicture]) -> dict[str, Sequence[VocObject]]:
    """Write JPEGImages and Annotations, and return picture id -> objects, in order.

    The names in the objects must need no escaping in XML.
    """
    import cv2

    for folder in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    written = {}
    for image_id, pixels, objects in pictures:
        quality = [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY]
        encoded = cv2.imencode(".jpg", cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR), quality)[1]
        (root / "JPEGImages" / f"{image_id}.jpg").write_bytes(encoded.tobytes())
        (root / "Annotations" / f"{image_id}.xml").write_text(
            annotation(image_id, pixels.shape, objects), encoding="utf-8"
        )
        written[image_id] = objects
    return written


def write_lists(root: Path, set_name: str, objects: Mapping[str, Sequence[VocObject]], classes: Sequence[str]) -> None:
    """Write the list of a set, and of each class in it: 1, -1, or 0 if every object of the class is difficult."""
    folder = root / "ImageSets" / "Main"
    _write_lines(folder / f"{set_name}.txt", objects)
    for name in classes:
        lines = (f"{image_id} {_flag(name, listed):2d}" for image_id, listed in objects.items())
        _write_lines(folder / f"{name}_{set_name}.txt", lines)


def _flag(name: str, objects: Sequence[VocObject]) -> int:
    """Return the image-level label of a class from the objects of a picture."""
    difficult = [item.difficult for item in objects if item.name == name]
    if not difficult:
        return -1
    return 0 if all(difficult) else 1


def annotation(image_id: str, shape: Sequence[int], objects: Sequence[VocObject]) -> str:
    """Return the text of the annotation file of a picture whose shape begins with its height and width."""
    height, width = shape[:2]
    parts = (_OBJECT.format(*item.corners, name=item.name, difficult=item.difficult) for item in objects)
    return _ANNOTATION.format(image_id=image_id, width=width, height=height, objects="".join(parts))


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines, each with a line break."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
