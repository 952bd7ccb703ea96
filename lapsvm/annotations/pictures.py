"""Pictures with boxes as a file of another program has them, whatever its format."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from lapsvm.files import NOT_PARSED

Corners = tuple[float, ...]

SHARES = (1.0, 1.0)
"""The size of a picture whose corners are shares of its sides."""
NO_LABEL = "without a label"
UNREADABLE = "that cannot be read"
MARKS_NOTHING = "a tag or an answer that marks no place and is passed over"
OTHER_FORM = (LookupError, TypeError, AttributeError, StopIteration, RuntimeError, OverflowError, *NOT_PARSED)
"""Errors of readers for a file of another form."""


class FileBox(NamedTuple):
    """A box: its class, x1, y1, x2, y2, its fault, and the reason why it is difficult; "" for neither.

    With a fault it may have neither class nor corners.
    """

    class_name: str
    corners: Corners
    fault: str = ""
    difficult: str = ""

    @property
    def problem(self) -> str:
        """Why it is not one whole object in an upright box; "" if it is."""
        return self.fault or self.difficult


@dataclass(frozen=True)
class FilePicture:
    """A picture of a file.

    Attributes
    ----------
    names : tuple of str
        Names that it may have below the data folder, the preferred one first; with or without a suffix.
    size : (width, height) or None
        Size in the units of the corners; None if the file does not say, and they are pixels.
    boxes : tuple of FileBox
    is_submitted : bool
        Whether the file says that a person has looked at it.
    is_marked : bool
        Whether the file says what boxes it has: those of a person or, unchanged, those of an export.
    remarks : tuple of str
        What is passed over in it, each as the end of a sentence that begins with a number of pictures.
    """

    names: tuple[str, ...]
    size: tuple[float, float] | None
    boxes: tuple[FileBox, ...]
    is_submitted: bool = False
    is_marked: bool = True
    remarks: tuple[str, ...] = ()

    def says_as(self, other: Self) -> bool:
        """Return whether another record of the same picture says the same of it."""
        return (self.size, {*self.boxes}, self.is_marked) == (other.size, {*other.boxes}, other.is_marked)


@dataclass(frozen=True)
class AnnotatedFile:
    """The pictures of a file or folder.

    Attributes
    ----------
    pictures : sequence of FilePicture
    remarks : tuple of str
        Sentences on the file.
    counts : mapping of str to int
        What it gives twice, or passes over, and how often.
    n_without_category : int
        Annotations of a category that it does not list.
    """

    pictures: Sequence[FilePicture]
    remarks: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    n_without_category: int = 0


def shape_fault(shape: str) -> str:
    """Return the fault of an annotation whose shape is no upright box."""
    return f"with a shape that is no upright box ({shape})"
