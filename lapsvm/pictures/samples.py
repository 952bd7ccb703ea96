"""Samples of more than 8 bits: the range that a file declares, and their 8 bits.

A TIFF file declares its range by BitsPerSample, MinSampleValue and MaxSampleValue, or SMinSampleValue and
SMaxSampleValue; a PNG file by its chunk sBIT. A range that samples leave is no range, and all bits of a sample count.
"""

import math
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

_BITS, _PHOTOMETRIC = 258, 262  # TIFF's tags
_LOW, _HIGH = (280, 340), (281, 341)
_WHITE_IS_ZERO = 0
_PNG_START = b"\x89PNG\r\n\x1a\n"
_MOST_CHUNKS = 1000  # before the pixels of a PNG file; there are seldom ten
_WIDE_COLOURS = ("RGB;16", "RGBA;16", "RGBX;16")  # Pillow's names of colours whose upper bytes it keeps
_GREY_ALPHA = "LA;16B"
_OTHER_BYTE = {"B": "L", "L": "B", "N": "B" if np.little_endian else "L"}


@dataclass(frozen=True)
class SampleRange:
    """What a file says of samples of more than 8 bits.

    Attributes
    ----------
    bits : int
        Of a stored sample.
    low, high : float
        The values that stand for black and white.
    significant : int
        Bits that a PNG file declares; 0 if it declares none.
    is_inverted : bool
        Whether `low` stands for white, in a TIFF file with WhiteIsZero.
    """

    bits: int
    low: float
    high: float
    significant: int = 0
    is_inverted: bool = False

    @property
    def is_declared(self) -> bool:
        """Whether the file declares another range than all bits have."""
        return (self.low, self.high) != (0, 2**self.bits - 1)

    def to_bytes(self, samples: NDArray[Any]) -> NDArray[np.uint8]:
        """Return samples with 8 bits: the upper byte if the range has all 16 bits.

        Raises
        ------
        ValueError
            If samples are not finite, or of 32 bits without a declared range that holds them.
        """
        if not np.isfinite(samples).all():
            raise ValueError("it has samples that are no finite numbers")
        low, high = (self.low, self.high) if self._holds(samples) else _usual_range(samples)
        step = 0 if samples.dtype.kind == "f" else 1
        levels = np.floor((samples.astype(np.float64) - low) * (256 / (high - low + step)))
        narrow = np.minimum(levels, 255).astype(np.uint8)
        return 255 - narrow if self.is_inverted else narrow

    def _holds(self, samples: NDArray[Any]) -> bool:
        """Whether these samples fit the declared range."""
        if not self.is_declared or samples.min() < self.low or samples.max() > self.high:
            return False
        return not (self.significant and _is_filled(samples, self.bits, self.significant))


def _usual_range(samples: NDArray[Any]) -> tuple[int, int]:
    """Return the range of 16 bits. Raises ValueError for samples that leave it, whose range is unknown."""
    if samples.dtype.kind == "f" or samples.min() < 0 or samples.max() > np.iinfo(np.uint16).max:
        raise ValueError("it has samples of 32 bits, whose range is unknown: the file declares none that holds them")
    return 0, np.iinfo(np.uint16).max


def _is_filled(samples: NDArray[Any], bits: int, significant: int) -> bool:
    """Return whether samples stand in the upper bits, as PNG asks: zeros, or their upper bits again, fill the lower."""
    below = bits - significant
    filling = samples & ((1 << below) - 1)
    return bool((filling == 0).all() or (filling == samples >> significant).all())


def sample_range(file: BinaryIO | None, picture: Any) -> SampleRange | None:
    """Return the range of the samples of a picture of Pillow, without its file if Pillow knows the range.

    None for at most 8 bits.
    """
    if picture.format == "PNG" and file is not None:
        file.seek(0)
        return _png_range(file)
    if picture.format == "TIFF":
        return _tiff_range(picture.tag_v2)
    return SampleRange(16, 0, 2**16 - 1) if picture.mode == "F" or picture.mode.startswith("I") else None


def _png_range(file: BinaryIO) -> SampleRange | None:
    """Return the range of a PNG file of 16 bits by its header and its chunk sBIT."""
    if file.read(8) != _PNG_START:
        return None
    depth, colours, significant = 0, 1, 0
    for _ in range(_MOST_CHUNKS):
        length, kind = int.from_bytes(file.read(4), "big"), file.read(4)
        if kind == b"IHDR":
            header = file.read(13)
            depth, colours = header[8], 3 if header[9] & 2 else 1
            file.seek(length - 9, 1)
        elif kind == b"sBIT":
            significant = max(file.read(length)[:colours], default=0)
            break
        elif kind in (b"IDAT", b"PLTE", b"IEND", b""):  # sBIT stands before them
            break
        else:
            file.seek(length + 4, 1)
    if depth != 16:
        return None
    is_less = 0 < significant < depth
    return SampleRange(depth, 0, 2 ** (significant if is_less else depth) - 1, significant if is_less else 0)


def _tiff_range(tags: Any) -> SampleRange | None:
    """Return the range of a TIFF file with more than 8 bits per sample."""
    bits = max(_numbers(tags.get(_BITS, (1,))), default=1)
    if bits <= 8:
        return None
    stored = 16 if bits < 16 else int(bits)
    low = next((min(numbers) for tag in _LOW if (numbers := _numbers(tags.get(tag)))), 0.0)
    high = next((max(numbers) for tag in _HIGH if (numbers := _numbers(tags.get(tag)))), 2**bits - 1.0)
    high = min(high, 2**bits - 1.0)
    if not low < high:
        low, high = 0.0, 2**bits - 1.0
    return SampleRange(stored, low, high, is_inverted=tags.get(_PHOTOMETRIC) == _WHITE_IS_ZERO)


def _numbers(value: Any) -> list[float]:
    """Return the finite numbers of a tag, which has one or several, or is missing."""
    values = value if isinstance(value, tuple) else (value,)
    return [float(value) for value in values if isinstance(value, int | float) and math.isfinite(value)]


def colour_samples(file: BinaryIO, upper: NDArray[np.uint8]) -> NDArray[np.uint16] | None:
    """Return the samples (h, w, 3) of a picture of 16-bit colours, of which Pillow has given the `upper` bytes.

    The file is read again, its lower bytes by the name of the other byte order; grey with alpha by the name of four
    channels, of which the first two are the grey's bytes. None for other kinds of colours.
    """
    from PIL import Image

    file.seek(0)
    with Image.open(file) as picture:
        names = {_raw_mode(tile[3]) for tile in picture.tile}
        name = names.pop() if len(names) == 1 else ""
        if name == _GREY_ALPHA:
            grey = _in_raw_mode(picture, "RGBA").astype(np.uint16)
            return np.repeat(grey[..., :1] * 256 + grey[..., 1:2], 3, axis=2)
        if not name.startswith(_WIDE_COLOURS) or name[-1] not in _OTHER_BYTE:
            return None
        lower = _in_raw_mode(picture, name[:-1] + _OTHER_BYTE[name[-1]])
    return upper[..., :3].astype(np.uint16) * 256 + lower[..., :3]


def _in_raw_mode(picture: Any, name: str) -> NDArray[np.uint8]:
    """Return the channels of an opened picture whose samples have another form than its file says."""
    picture.tile = [_with_raw_mode(tile, name) for tile in picture.tile]
    picture.load()
    return np.asarray(picture)


def _raw_mode(arguments: Any) -> str:
    """Return the name of the samples' form among the arguments of a decoder."""
    first = arguments[0] if isinstance(arguments, tuple) and arguments else arguments
    return first if isinstance(first, str) else ""


def _with_raw_mode(tile: Any, name: str) -> Any:
    """Return a part of a picture that is decoded in another form."""
    arguments = (name, *tile[3][1:]) if isinstance(tile[3], tuple) else name
    return tile._replace(args=arguments) if hasattr(tile, "_replace") else (*tile[:3], arguments)
