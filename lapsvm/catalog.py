"""Data sets by name: the interface of readers, and their registry.

A reader returns two separate kinds of objects: `ImageRecord` (a picture and its image-level labels) for training, and
`GroundTruth` (boxes) for evaluation only.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from importlib.metadata import entry_points
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import check_known
from lapsvm.errors import ImageError, InputError, MissingError, OptionError, ShapeError
from lapsvm.files import open_regular
from lapsvm.ground_truth import GroundTruth, truth_by_class

__all__ = [
    "ENTRY_POINTS",
    "HEIC",
    "HEIC_ADVICE",
    "MAX_PIXELS",
    "MAX_SIDE",
    "NO_CLASS",
    "PICTURE_SUFFIXES",
    "READS_HEIC",
    "Dataset",
    "GroundTruth",
    "ImageRecord",
    "Pixels",
    "PresentClasses",
    "check_image",
    "check_pixels",
    "open_dataset",
    "pixel_hash",
    "read_image",
    "register_heic",
    "truth_by_class",
]

ENTRY_POINTS = "lapsvm.datasets"
Pixels = NDArray[np.uint8]

HEIC = (".heic", ".heif")
"""Suffixes of pictures of telephones, which need the extra `heic`."""

READS_HEIC = find_spec("pillow_heif") is not None

PICTURE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp", *(HEIC if READS_HEIC else ()))
"""Suffixes of files taken for pictures, in lower case."""

HEIC_ADVICE = "pip install 'lapsvm[heic]' reads HEIC"

NO_CLASS = frozenset({"background", "negative", "negatives", "none"})
"""Names, in lower case, of folders whose pictures belong to no class."""

MAX_PIXELS = 2**26
"""Limit that is checked before decoding; a picture of this size takes 200 MB."""

MAX_SIDE = 2**16 - 1
"""Limit of width and height, that of JPEG: a decoder keeps a pointer for every row."""

_EXTERNAL_FORMATS = ("EPS", "WMF")  # Pillow runs another program for these


class PresentClasses(Mapping[str, int]):
    """Labels of a picture given by its classes: +1 for these, -1 for all others.

    The object stores the picture's classes only, so that memory is linear for data sets with many classes.

    Parameters
    ----------
    classes : mapping whose keys are the names of all classes, in order
        Shared by all pictures.
    positive : iterable of str
        The picture's classes; names outside `classes` are dropped.
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
    """A picture and its image-level labels.

    Attributes
    ----------
    id : str
        Unique in its set.
    path : Path
    labels : mapping of class name to +1, -1 or 0
        0 means only difficult objects; the picture is left out of training. A missing class equals 0.
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


@runtime_checkable
class Dataset(Protocol):
    """The interface of a data set.

    A reader may also have a method ``ignored_files()``, which returns a dict of kind (a suffix, "hidden") to the number
    of files that it ignores; a run reports them.

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
        """Names of the selected classes."""

    @property
    def sets(self) -> tuple[str, ...]:
        """Names of the existing sets."""

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
        "digits", or another registered reader.
    root : str or Path
        Its folder.
    **options
        Arguments of the reader, for instance ``classes=("bus", "car")``.

    Returns
    -------
    Dataset

    Raises
    ------
    OptionError
        If the reader or an option is unknown, or the reader needs another one.
    """
    readers = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    check_known(f"data set {name!r}", name, sorted(readers))
    reader = readers[name].load()
    try:
        signature(reader).bind(root, **options)
    except TypeError as error:
        names = ", ".join(list(signature(reader).parameters)[1:]) or "none"
        raise OptionError(f"data set {name!r} {error}; its options are {names}.") from None
    dataset: Dataset = reader(Path(root), **options)
    return dataset


def read_image(path: str | Path) -> Pixels:
    """Read a picture as 8-bit RGB.

    The EXIF orientation is applied, transparency is composited on white, 16-bit channels become 8-bit, and only the
    first of several frames is read.

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
        If it is not a picture, is truncated or damaged, has more than `MAX_PIXELS` pixels or `MAX_SIDE` on a side, or
        has float or 32-bit samples, whose range is unknown.
    """
    return _decoded(path, reduced=False)


def check_image(path: str | Path) -> str:
    """Raise the error of `read_image`, if it has one, in less time.

    The whole file is read and decompressed. Of a JPEG file only one pixel of 8 x 8 is computed.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    str
        A hash of what was computed: pictures of one format with other hashes have other pixels.

    Raises
    ------
    MissingError, ImageError
        As `read_image`.
    """
    return pixel_hash(_decoded(path, reduced=True))


def pillow_pixels(picture: Any) -> Pixels:
    """Return the pixels of a picture of Pillow, by the rules of `read_image` and with its ImageError."""
    what = f"of Pillow ({getattr(picture, 'filename', '') or picture.mode})"
    with _described_errors(what):
        _check_header(what, picture)
        return _upright(picture)


def _decoded(path: str | Path, reduced: bool) -> Pixels:
    """Return the pixels of a file; if `reduced` and it is a JPEG file, those of a smaller grey picture."""
    from PIL import Image

    register_heic()
    with _described_errors(path), open_regular(path, "picture") as file, Image.open(file) as picture:
        _check_header(path, picture)
        if reduced:
            width, height = picture.size
            picture.draft("L", (max(1, width // 8), max(1, height // 8)))
        pixels = _upright(picture)
    _check_size(path, pixels.shape[1], pixels.shape[0])  # an icon's header does not state its size
    return pixels


def _upright(picture: Any) -> Pixels:
    """Return the pixels of an opened picture, turned by its EXIF data."""
    from PIL import ExifTags, ImageOps

    picture.load()  # some formats have their EXIF data behind the pixels
    is_upright = picture.getexif().get(ExifTags.Base.Orientation, 1) == 1
    return np.array(_rgb(picture if is_upright else ImageOps.exif_transpose(picture)))


@cache
def register_heic() -> None:
    """Let Pillow read HEIC if the extra is installed."""
    if READS_HEIC:
        from pillow_heif import register_heif_opener

        register_heif_opener()


@contextmanager
def _described_errors(path: str | Path) -> Iterator[None]:
    """Raise the errors of decoders as ImageError, which names the file."""
    from PIL import Image, UnidentifiedImageError

    try:
        yield
    except (ImageError, MissingError):
        raise
    except UnidentifiedImageError:
        advice = f"; {HEIC_ADVICE}" if Path(path).suffix.lower() in HEIC and not READS_HEIC else ""
        raise ImageError(f"picture {path} does not open: it is no image file that can be read{advice}.") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ImageError(f"picture {path} must have at most {MAX_PIXELS:,} pixels; {_reason(error)}") from None
    except Warning:  # a warning that the caller turned into an error
        raise
    except Exception as error:  # noqa: BLE001 - the decoders raise many kinds of errors for damaged pictures
        raise ImageError(f"picture {path} cannot be read whole: {_reason(error)}") from None


def _check_header(path: str | Path, picture: Any) -> None:
    """Raise ImageError for pictures that must not be decoded."""
    width, height = picture.size
    _check_size(path, width, height)
    if width < 1 or height < 1:
        raise ImageError(f"picture {path} must have at least one pixel, got {width} x {height}.")
    if picture.format in _EXTERNAL_FORMATS:
        raise ImageError(f"picture {path} must hold pixels, got a drawing of the format {picture.format}.")


def _check_size(path: str | Path, width: int, height: int) -> None:
    """Raise ImageError for a picture that is too large."""
    if width * height > MAX_PIXELS:
        raise ImageError(f"picture {path} must have at most {MAX_PIXELS:,} pixels, got {width} x {height}.")
    if max(width, height) > MAX_SIDE:
        raise ImageError(f"picture {path} must have sides of at most {MAX_SIDE:,} pixels, got {width} x {height}.")


def _reason(error: Exception) -> str:
    """Return the message of a decoder's error on one line with one full stop."""
    return (" ".join(str(error).split()) or type(error).__name__).rstrip(".") + "."


def _rgb(picture: Any) -> Any:
    """Return a picture of any mode as one of mode RGB."""
    from PIL import Image

    if picture.mode == "F" or picture.mode.startswith("I"):
        return _eight_bits(picture).convert("RGB")
    if picture.has_transparency_data:
        white = Image.new("RGBA", picture.size, "white")
        return Image.alpha_composite(white, picture.convert("RGBA")).convert("RGB")
    return picture if picture.mode == "RGB" else picture.convert("RGB")


def _eight_bits(picture: Any) -> Any:
    """Return a 16-bit grey picture with 8 bits; the range of wider samples is unknown."""
    from PIL import Image

    samples = np.asarray(picture)
    if picture.mode == "F" or samples.min() < 0 or samples.max() > np.iinfo(np.uint16).max:
        raise ValueError("it has samples of 32 bits, whose range is unknown")
    return Image.fromarray((samples // 256).astype(np.uint8))


def check_pixels(pixels: Any) -> None:
    """Raise unless `pixels` is a picture.

    Raises
    ------
    ShapeError
        If it is not (h, w, 3) with at least one pixel.
    InputError
        If it is not uint8.
    """
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8:
        got = pixels.dtype if isinstance(pixels, np.ndarray) else type(pixels).__name__
        raise InputError(f"a picture must be an array of uint8, got {got}.")
    if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.size == 0:
        raise ShapeError(f"a picture must have shape (h, w, 3) with h and w at least 1, got {pixels.shape}.")


def pixel_hash(pixels: Pixels) -> str:
    """Return the hash of shape and pixels that identifies a picture in shards: 32 hex digits."""
    digest = blake2b(repr(pixels.shape).encode(), digest_size=16)
    digest.update(np.ascontiguousarray(pixels).data)
    return digest.hexdigest()
