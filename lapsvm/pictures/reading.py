"""Pictures of files as 8-bit RGB: the one place where a file becomes pixels."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from lapsvm.errors import ImageError, InputError, MissingError, ShapeError, install_extra
from lapsvm.files import open_regular
from lapsvm.names.kinds import HEIC, READS_HEIC, suffix_of
from lapsvm.pictures.likeness import brightness_steps
from lapsvm.pictures.nothing import NARROW, Nothing, is_plain
from lapsvm.pictures.samples import SampleRange, colour_samples, sample_range
from lapsvm.texts.contents import beginning, refusal

Pixels = NDArray[np.uint8]

_HEIC_STARTS = (b"ftyphei", b"ftypmif1")  # behind four bytes

HEIC_ADVICE = f"{install_extra('heic')} reads HEIC"

MAX_PIXELS = 2**26
"""Limit that is checked before decoding; a picture of this size takes 200 MB."""

MAX_SIDE = 2**16 - 1
"""Limit of width and height, that of JPEG: a decoder keeps a pointer for every row."""

_EXTERNAL_FORMATS = ("EPS", "WMF")  # Pillow runs another program for these
_ORIENTATION = 0x0112  # the EXIF tag
_TURNS = {2: 0, 3: 3, 4: 1, 5: 5, 6: 4, 7: 6, 8: 2}  # orientation -> Pillow's number of the transposition to upright
_SIDEWAYS = (2, 4, 5, 6)  # those of them that exchange width and height
_ICONS = ("ICO", "ICNS")  # whose header does not state the size


@dataclass(frozen=True)
class Picture:
    """A picture as it is seen.

    Attributes
    ----------
    pixels : ndarray of shape (h, w, 3), uint8 RGB
    nothing : Nothing or None
        Why it shows nothing, or hardly anything; None for other pictures.
    """

    pixels: Pixels
    nothing: Nothing | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it is of one colour, whatever the reason."""
        return self.nothing is not None and is_plain(self.pixels)


@dataclass(frozen=True)
class CheckedPicture:
    """What a check of a picture found.

    Attributes
    ----------
    digest : str
        A hash of what was computed: pictures of one format with other hashes have other pixels.
    nothing : Nothing or None
        As for `Picture`.
    is_plain : bool
        Whether it is of one colour, whatever the reason.
    steps : bytes
        See `lapsvm.pictures.likeness.brightness_steps`.
    """

    digest: str
    nothing: Nothing | None = None
    is_plain: bool = False
    steps: bytes = b""


def read_image(path: str | Path) -> Pixels:
    """Read a picture as 8-bit RGB.

    The EXIF orientation is applied, transparency is composited on white, and only the first of several frames is read.
    Of 16-bit samples the upper byte is taken. Where the file declares a smaller range that holds its samples (TIFF:
    BitsPerSample, MinSampleValue and MaxSampleValue; PNG: sBIT), this range becomes that of 8 bits. In a TIFF file with
    WhiteIsZero 0 is white, whatever its bits.

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
        has float or 32-bit samples and declares no range.
    """
    return read_picture(path).pixels


def read_picture(path: str | Path) -> Picture:
    """Read a picture as `read_image` does, and say why it shows nothing, if it does not.

    Raises
    ------
    MissingError, ImageError
        As `read_image`.
    """
    return _decoded(path, reduced=False)


def check_image(path: str | Path) -> CheckedPicture:
    """Raise the error of `read_image`, if it has one, in less time.

    The whole file is read and decompressed. Of a JPEG file only one pixel of 8 x 8 is computed, unless these are of one
    colour.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    CheckedPicture

    Raises
    ------
    MissingError, ImageError
        As `read_image`.
    """
    seen = _decoded(path, reduced=True)
    full = read_picture(path) if seen.nothing is Nothing.PLAIN else seen
    steps = b"" if full.is_plain else brightness_steps(seen.pixels)
    return CheckedPicture(pixel_hash(seen.pixels), full.nothing, full.is_plain, steps)


def pillow_pixels(picture: Any) -> Pixels:
    """Return the pixels of a picture of Pillow, by the rules of `read_image` and with its ImageError.

    One that is not loaded yet is read as its file is. Of one that is loaded, what its file says is known only in part.
    """
    what = f"of Pillow ({getattr(picture, 'filename', '') or picture.mode})"
    with _described_errors(what):
        _check_header(what, picture)
        return _seen(_unread_file(picture), picture).pixels


def _unread_file(picture: Any) -> BinaryIO | None:
    """Return a copy of the file of a picture of Pillow whose samples may have a declared range; None once loaded."""
    if picture.format not in ("PNG", "TIFF") or not picture.tile or picture.fp is None:
        return None
    picture.fp.seek(0)  # loading seeks the pixels itself, and closes the file
    return BytesIO(picture.fp.read())


def seen_size(path: str | Path) -> tuple[int, int]:
    """Return width and height of a picture as `read_image` shows it, by the header if that has them.

    Raises
    ------
    MissingError, ImageError
        If there is no such file, or it is no picture.
    """
    return seen_header(path)[0]


def seen_header(path: str | Path) -> tuple[tuple[int, int], bool]:
    """Return the size of a picture as `seen_size` does, and whether its metadata turn or mirror it.

    Programs that ignore these metadata show such a picture otherwise.

    Raises
    ------
    MissingError, ImageError
        As `seen_size`.
    """
    with opened_picture(path) as (_, picture):
        width, height = picture.size
        turn = _TURNS.get(_orientation(picture))
        if picture.format not in _ICONS and (turn is None or picture.format != "TIFF"):
            return ((height, width) if turn in _SIDEWAYS else (width, height)), turn is not None
    height, width = read_image(path).shape[:2]  # versions of Pillow differ in whether a TIFF file's size is turned
    return (width, height), turn is not None


def longer_side(path: str | Path) -> int:
    """Return the longer side of a picture in pixels, by its header; no orientation changes it.

    Raises
    ------
    MissingError, ImageError
        If there is no such file, or it is no picture.
    """
    with opened_picture(path) as (_, picture):
        width, height = picture.size
        return max(int(width), int(height))


def _decoded(path: str | Path, reduced: bool) -> Picture:
    """Return the picture of a file; if `reduced` and it is a JPEG file, a smaller grey one."""
    with opened_picture(path) as (file, picture):
        if reduced:
            width, height = picture.size
            picture.draft("L", (max(1, width // 8), max(1, height // 8)))
        seen = _seen(file, picture)
    _check_size(path, seen.pixels.shape[1], seen.pixels.shape[0])  # an icon's header does not state its size
    return seen


def _seen(file: BinaryIO | None, picture: Any) -> Picture:
    """Return an opened picture as it is seen; `file` is its own, None if it cannot be read again."""
    samples = sample_range(file, picture)
    picture.load()  # some formats have their EXIF data behind the pixels, and TIFF files are upright afterwards
    colours, is_narrow = (picture, False) if samples is None else _eight_bits(file, picture, samples)
    pixels = np.array(_on_white(upright(colours, picture)))
    return Picture(pixels, _nothing(pixels, colours, is_narrow))


@contextmanager
def opened_picture(path: str | Path) -> Iterator[tuple[BinaryIO, Any]]:
    """Yield a file and the picture that Pillow finds in it, whose header is checked; errors name the file."""
    from PIL import Image

    _register_forms()
    with _described_errors(path), open_regular(path, "picture") as file, Image.open(file) as picture:
        _check_header(path, picture)
        yield file, picture


def upright(colours: Any, picture: Any) -> Any:
    """Return the colours of a loaded picture as its metadata turn it."""
    turn = _TURNS.get(_orientation(picture))
    return colours if turn is None else colours.transpose(turn)


def _orientation(picture: Any) -> Any:
    """Return the orientation that a picture's metadata give; 1 is upright."""
    return picture.getexif().get(_ORIENTATION, 1)


def _nothing(pixels: Pixels, colours: Any, is_narrow: bool) -> Nothing | None:
    """Return why a picture shows nothing; `colours` are its colours before white shows through."""
    is_flat = is_plain(pixels)
    if is_flat and colours.has_transparency_data and colours.convert("RGBA").getextrema()[3][0] < 255:
        return Nothing.TRANSPARENT
    if is_narrow:
        return Nothing.NARROW
    return Nothing.PLAIN if is_flat else None


def _on_white(picture: Any) -> Any:
    """Return a picture of 8-bit channels in mode RGB, transparent parts on white."""
    from PIL import Image

    if picture.has_transparency_data:
        white = Image.new("RGBA", picture.size, "white")
        return Image.alpha_composite(white, picture.convert("RGBA")).convert("RGB")
    return picture if picture.mode == "RGB" else picture.convert("RGB")


def _eight_bits(file: BinaryIO | None, picture: Any, samples: SampleRange) -> tuple[Any, bool]:
    """Return a picture of wider samples with 8 bits, and whether these use a small part of their range."""
    from PIL import Image

    if picture.mode == "F" or picture.mode.startswith("I"):
        wide = np.asarray(picture)
        grey = samples.to_bytes(wide)
        highest = int((255 - grey if samples.is_inverted else grey).max())
        channels = [grey, *_alpha(picture, wide)]
        return Image.merge("LA"[: len(channels)], list(map(Image.fromarray, channels))), _is_narrow(highest, wide)
    if picture.mode not in ("RGB", "RGBA"):
        return picture, False
    colours = np.asarray(picture)
    is_dark = int(colours[..., :3].max()) < NARROW
    deep = colour_samples(file, colours) if file and (is_dark or samples.is_declared) else None
    if deep is not None:
        colours = np.dstack([samples.to_bytes(deep), colours[..., 3:]])
    seen = colours[..., :3]
    return Image.fromarray(colours), _is_narrow(int(seen.max()), seen if deep is None else deep)


def _is_narrow(highest: int, samples: NDArray[Any]) -> bool:
    """Whether samples, not all 0, use a small part of their range, by the highest level of 256."""
    return highest < NARROW and bool(samples.max() > 0)


def _alpha(picture: Any, samples: NDArray[Any]) -> Iterator[Pixels]:
    """Yield the alpha channel of a 16-bit grey picture of which one value is transparent."""
    value = picture.info.get("transparency")
    if isinstance(value, int):
        yield np.where(samples == value, 0, 255).astype(np.uint8)


@cache
def _register_forms() -> None:
    """Let Pillow read HEIC if the extra is installed, and 16 bits with WhiteIsZero in either order of bytes."""
    from PIL import TiffImagePlugin

    kind = (TiffImagePlugin.MM, 0, (1,), 1, (16,), ())
    TiffImagePlugin.OPEN_INFO.setdefault(kind, ("I;16B", "I;16B"))  # it has that of the other order alone
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
        advice = f"; {HEIC_ADVICE}" if not READS_HEIC and _is_heic(path) else ""
        otherwise = f"picture {path} does not open: it is no image file that can be read{advice}."
        begun = beginning(path)
        raise ImageError(refusal(f"picture {path}", "an image file", begun, otherwise, ("a picture",))) from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ImageError(f"picture {path} must have at most {MAX_PIXELS:,} pixels; {_reason(error)}") from None
    except Warning:  # a warning that the caller turned into an error
        raise
    except Exception as error:  # noqa: BLE001 - the decoders raise many kinds of errors for damaged pictures
        raise ImageError(f"picture {path} cannot be read whole: {_reason(error)}") from None


def _is_heic(path: str | Path) -> bool:
    """Return whether a file is a picture of a telephone, also one with the suffix of another format."""
    with suppress(OSError, ValueError), open(path, "rb") as file:
        return file.read(12)[4:].startswith(_HEIC_STARTS) or suffix_of(str(path)) in HEIC
    return False


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
