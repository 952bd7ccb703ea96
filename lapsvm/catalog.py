"""Data sets by name: what a reader gives, and how one is found.

A reader hands out two things that never mix: `ImageRecord` (a picture and its image-level labels), which training
sees, and `GroundTruth` (boxes), which only evaluation asks for.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Float64
from lapsvm.errors import ImageError, MissingError, OptionError

ENTRY_POINTS = "lapsvm.datasets"
Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class ImageRecord:
    """A picture and what is known of it as a whole.

    Attributes
    ----------
    id : str
        Unique in its set.
    path : Path
    labels : mapping of class name to +1, -1 or 0
        0: only difficult objects, left out of training. A class that is absent is unlabelled, as 0.
    """

    id: str
    path: Path
    labels: Mapping[str, int] = field(default_factory=dict)

    def pixels(self) -> Pixels:
        """Return the picture, uint8 RGB of shape (h, w, 3).

        Raises
        ------
        MissingError, ImageError
        """
        return read_image(self.path)


@dataclass(frozen=True)
class GroundTruth:
    """The objects of one class in one picture, for evaluation only.

    Attributes
    ----------
    boxes : ndarray of shape (n, 4), float64, in the house's convention, in file order
    difficult : ndarray of shape (n,), bool
    """

    boxes: Float64
    difficult: NDArray[np.bool_]


@runtime_checkable
class Dataset(Protocol):
    """What a reader gives.

    Attributes
    ----------
    name : str
    classes : tuple of str
    sets : tuple of str
    """

    name: str
    classes: tuple[str, ...]

    @property
    def sets(self) -> tuple[str, ...]:
        """Names of the sets there are."""

    def records(self, set_name: str) -> list[ImageRecord]:
        """Return the pictures of a set in their fixed order; opens no annotation."""

    def ground_truth(self, set_name: str) -> dict[str, dict[str, GroundTruth]] | None:
        """Return class -> image id -> objects, with an entry for every picture; None if no boxes are known."""


def open_dataset(name: str, root: str | Path, **options: Any) -> Dataset:
    """Open a data set by the name of its reader.

    Parameters
    ----------
    name : str
        One of the entry points of the group ``lapsvm.datasets``: "voc", "folder", "csv", "digits", or your own.
    root : str or Path
        Its folder.
    **options
        Handed to the reader, for instance ``classes=("bus", "car")``.

    Returns
    -------
    Dataset

    Raises
    ------
    OptionError
        If there is no reader of that name.
    """
    readers = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if name not in readers:
        raise OptionError(f"data set {name!r} is not known; choose from {', '.join(sorted(readers))}.")
    dataset: Dataset = readers[name].load()(Path(root), **options)
    return dataset


def read_image(path: str | Path) -> Pixels:
    """Read a picture whole, as it is meant to be seen (EXIF orientation applied).

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    ndarray of shape (h, w, 3), uint8 RGB

    Raises
    ------
    MissingError
        If there is no such file.
    ImageError
        If it is no picture, or is cut short.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    path = Path(path)
    if not path.is_file():
        raise MissingError(f"picture {path} is not there.")
    try:
        with Image.open(path) as picture:
            return np.array(ImageOps.exif_transpose(_eight_bits(picture)).convert("RGB"))
    except UnidentifiedImageError:
        raise ImageError(f"picture {path} does not open: it is no image file that can be read.") from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise ImageError(f"picture {path} cannot be read whole: {error}.") from None


def _eight_bits(picture: Any) -> Any:
    """Return a picture of more than 8 bits a channel as one of 8: convert() would clip it to white."""
    if not picture.mode.startswith("I"):
        return picture
    return picture.point(lambda value: value / 256).convert("L")


def pixel_hash(pixels: Pixels) -> str:
    """Return the hash by which a picture is known in shards: of its shape and pixels, 32 hex digits."""
    digest = blake2b(repr(pixels.shape).encode(), digest_size=16)
    digest.update(np.ascontiguousarray(pixels).data)
    return digest.hexdigest()
