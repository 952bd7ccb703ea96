"""Data sets by name: what a reader gives, and how one is found.

A reader hands out two things that never mix: `ImageRecord` (a picture and its image-level labels), which training
sees, and `GroundTruth` (boxes), which only evaluation asks for.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from importlib.metadata import entry_points
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Float64
from lapsvm.errors import ImageError, MissingError, OptionError
from lapsvm.files import open_regular

ENTRY_POINTS = "lapsvm.datasets"
Pixels = NDArray[np.uint8]

MAX_PIXELS = 2**26
"""Larger pictures are refused by their header, before they are decoded: one such takes 200 MB as it is."""

_DRAWN_BY_OTHERS = ("EPS", "WMF")  # formats that Pillow hands to another program


class PresentClasses(Mapping[str, int]):
    """Labels of a picture by the classes that it shows: +1 for these, -1 for all others.

    It takes room for the classes that the picture shows alone, so that a table of many classes is read in linear time.

    Parameters
    ----------
    classes : mapping whose keys are the names of all classes, in order
        Shared by all pictures.
    positive : iterable of str
        The classes that the picture shows; others than those of `classes` are left out.
    """

    __slots__ = ("classes", "positive")

    def __init__(self, classes: Mapping[str, object], positive: Iterable[str]) -> None:
        self.classes = classes
        self.positive = frozenset(name for name in positive if name in classes)

    def __getitem__(self, name: str) -> int:
        if name not in self.classes:
            raise KeyError(name)
        return 1 if name in self.positive else -1

    def __iter__(self) -> Iterator[str]:
        return iter(self.classes)

    def __len__(self) -> int:
        return len(self.classes)

    def __repr__(self) -> str:
        return f"PresentClasses({sorted(self.positive)} of {len(self.classes)})"


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

    @property
    def name(self) -> str:
        """Name of its reader."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, without any that was not asked for."""

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
        One of the entry points of the group ``lapsvm.datasets``: "voc", "folder", "csv", "coco", "imagefolder",
        "digits", or your own.
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
        If there is no reader of that name, or it takes no such option.
    """
    readers = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if name not in readers:
        raise OptionError(f"data set {name!r} is not known; choose from {', '.join(sorted(readers))}.")
    reader = readers[name].load()
    _check_options(name, reader, options)
    dataset: Dataset = reader(Path(root), **options)
    return dataset


def _check_options(name: str, reader: Callable[..., Dataset], options: Mapping[str, Any]) -> None:
    """Raise OptionError unless the reader takes every one of the options."""
    known = list(signature(reader).parameters.values())[1:]
    if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in known):
        return
    for option in options:
        if option not in (parameter.name for parameter in known):
            takes = ", ".join(parameter.name for parameter in known) or "none"
            raise OptionError(f"data set {name!r} takes no option {option!r}; its options are {takes}.")


def read_image(path: str | Path) -> Pixels:
    """Read a picture whole, as it is meant to be seen.

    The EXIF orientation is applied, what is transparent lies on white, 16 bits a channel become 8, and of several
    frames the first is taken.

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
        If it is no picture, is cut short or damaged, has more than `MAX_PIXELS` pixels, or samples (floats, 32 bits)
        whose range is not known.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with open_regular(path, "picture") as file, Image.open(file) as picture:
            _check_header(path, picture)
            pixels = np.array(_rgb(ImageOps.exif_transpose(picture)))
    except (ImageError, MissingError):
        raise
    except UnidentifiedImageError:
        raise ImageError(f"picture {path} does not open: it is no image file that can be read.") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ImageError(f"picture {path} must have at most {MAX_PIXELS:,} pixels; {_reason(error)}") from None
    except Warning:  # one that the caller wants as an error
        raise
    except Exception as error:  # noqa: BLE001 - the decoders of damaged pictures raise whatever comes to hand
        raise ImageError(f"picture {path} cannot be read whole: {_reason(error)}") from None
    if pixels.shape[0] * pixels.shape[1] > MAX_PIXELS:  # of an icon, whose header does not tell
        raise ImageError(_too_large(path, pixels.shape[1], pixels.shape[0]))
    return pixels


def _check_header(path: str | Path, picture: Any) -> None:
    """Raise ImageError for what is not to be decoded."""
    width, height = picture.size
    if width * height > MAX_PIXELS:
        raise ImageError(_too_large(path, width, height))
    if width < 1 or height < 1:
        raise ImageError(f"picture {path} must have at least one pixel, got {width} x {height}.")
    if picture.format in _DRAWN_BY_OTHERS:
        raise ImageError(f"picture {path} must hold pixels, got a drawing of the format {picture.format}.")


def _too_large(path: str | Path, width: int, height: int) -> str:
    """Return the sentence on a picture that is too large."""
    return f"picture {path} must have at most {MAX_PIXELS:,} pixels, got {width} x {height}."


def _reason(error: Exception) -> str:
    """Return what an error of a decoder says, on one line with one full stop."""
    return (" ".join(str(error).split()) or type(error).__name__).rstrip(".") + "."


def _rgb(picture: Any) -> Any:
    """Return a picture of any mode as one of mode RGB."""
    from PIL import Image

    if picture.mode == "F" or picture.mode.startswith("I"):
        return _eight_bits(picture).convert("RGB")
    if picture.has_transparency_data:
        white = Image.new("RGBA", picture.size, "white")
        return Image.alpha_composite(white, picture.convert("RGBA")).convert("RGB")
    return picture.convert("RGB")


def _eight_bits(picture: Any) -> Any:
    """Return a grey picture of 16 bits as one of 8; of wider ones nobody knows which value is white."""
    from PIL import Image

    samples = np.asarray(picture)
    if picture.mode == "F" or samples.min() < 0 or samples.max() > np.iinfo(np.uint16).max:
        raise ValueError("it has samples of 32 bits, whose range is not known")
    return Image.fromarray((samples // 256).astype(np.uint8))


def pixel_hash(pixels: Pixels) -> str:
    """Return the hash by which a picture is known in shards: of its shape and pixels, 32 hex digits."""
    digest = blake2b(repr(pixels.shape).encode(), digest_size=16)
    digest.update(np.ascontiguousarray(pixels).data)
    return digest.hexdigest()
