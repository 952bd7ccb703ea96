"""PASCAL VOC annotation files: objects with their boxes, for evaluation only.

defusedxml parses the files; it refuses entity definitions and external references.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast
from xml.etree.ElementTree import ParseError

from defusedxml import ElementTree

from lapsvm.box_faults import NO_BOX, NOT_NUMBERS, ROTATED, is_rotated
from lapsvm.errors import AnnotationError, MissingError
from lapsvm.files import open_regular
from lapsvm.texts.contents import WIDE, XML, beginning, refusal
from lapsvm.texts.numbers import finite_number, whole_number

_CORNERS = ("xmin", "ymin", "xmax", "ymax")
_TURNED = ("robndbox", "rotated_bndbox")
"""Elements of boxes with an angle, which may stand beside the upright box around them."""


class VocObject(NamedTuple):
    """One ``<object>``: its class, its corners in the file (VOC pixels) and whether it is difficult.

    `fault` says why it has no box that can be used, as `lapsvm.box_faults` names it; then it may have no corners.
    """

    name: str
    corners: tuple[float, ...]
    difficult: bool
    fault: str = ""

    @property
    def box(self) -> tuple[float, ...] | str:
        """Its corners x1, y1, x2, y2, 0-based and half-open, or its fault."""
        if self.fault:
            return self.fault
        xmin, ymin, xmax, ymax = self.corners
        return xmin - 1, ymin - 1, xmax, ymax


class VocFile(NamedTuple):
    """The content of one file: its objects, and the names and size of its picture.

    Names are those of ``<path>`` and ``<filename>``. The size is width and height, or None without a usable ``<size>``.
    `n_parts` counts the ``<part>`` elements of objects, as of a person's head, which are no objects.
    """

    objects: list[VocObject]
    names: tuple[str, ...]
    size: tuple[float, float] | None = None
    n_parts: int = 0


def read_objects(path: Path) -> list[VocObject]:
    """Return the objects of one annotation file, as `read_voc_file`."""
    return read_voc_file(path).objects


def read_voc_file(path: Path) -> VocFile:
    """Read one annotation file.

    Parameters
    ----------
    path : Path
        An XML file whose root is ``<annotation>``.

    Raises
    ------
    AnnotationError
        If the file is unreadable, is not well-formed XML or defines entities, if an object lacks its name, or if
        ``<difficult>`` is neither 0 nor 1.
    """
    root = read_xml(path)
    if root.tag != "annotation":
        otherwise = f"annotation {path} must have the root <annotation>, got <{root.tag}>."
        raise AnnotationError(refusal(f"annotation {path}", XML, beginning(path), otherwise, (XML, WIDE)))
    names = tuple(name for tag in ("path", "filename") if (name := _text(root, tag)))
    objects = [_object(path, element) for element in root.findall("object")]
    return VocFile(objects, names, _size(root), len(root.findall("object/part")))


def _size(root: Any) -> tuple[float, float] | None:
    """Return width and height of the picture, None unless both are whole numbers above 0, also written as 64.0."""
    texts = (_text(root, f"size/{side}") for side in ("width", "height"))
    width, height = map(whole_number, texts)
    return (width, height) if width and height else None


def read_xml(path: Path) -> Any:
    """Return the root element of an XML file; AnnotationError if it cannot be read, or defines entities."""
    try:
        with open_regular(path, "annotation") as file:
            return ElementTree.parse(file).getroot()
    except MissingError as error:
        raise AnnotationError(str(error)) from None
    except (ParseError, OSError, ValueError, LookupError) as error:  # ValueError: also what defusedxml refuses
        otherwise = f"annotation {path} is no XML that can be read: {error}."
        raise AnnotationError(refusal(f"annotation {path}", XML, beginning(path), otherwise, (XML, WIDE))) from None


def _object(path: Path, element: Any) -> VocObject:
    """Return the checked object of an ``<object>`` element."""
    name = _text(element, "name")
    if not name:
        raise AnnotationError(f"annotation {path} has an <object> without a <name>.")
    written = _text(element, "difficult") if element.find("difficult") is not None else "0"
    difficult = whole_number(written)
    if difficult not in (0, 1):
        raise AnnotationError(f"annotation {path}: <difficult> must be 0 or 1, got {written!r}.")
    corners = [finite_number(_text(element, f"bndbox/{corner}")) for corner in _CORNERS]
    fault = _fault(element, has_numbers=None not in corners)
    return VocObject(name, () if fault else tuple(cast("list[float]", corners)), difficult == 1, fault)


def _fault(element: Any, *, has_numbers: bool) -> str:
    """Return why an object has no upright box; "" if it has one."""
    if any(element.find(tag) is not None for tag in _TURNED) or any(map(is_rotated, _angles(element))):
        return ROTATED
    if element.find("bndbox") is None:
        return NO_BOX
    return "" if has_numbers else NOT_NUMBERS


def _angles(element: Any) -> Iterator[str]:
    """Yield the angles of an object: CVAT writes them as an attribute, other programs as an element of their own."""
    yield from (_text(element, tag) for tag in ("rotation", "bndbox/rotation", "bndbox/angle"))
    for attribute in element.iterfind("attributes/attribute"):
        if _text(attribute, "name") == "rotation":
            yield _text(attribute, "value")


def _text(element: Any, tag: str) -> str:
    """Return the text of a child element, "" if there is none."""
    return (element.findtext(tag) or "").strip()
