"""Advice on windows for pictures whose ground is even: what is sought there may be small."""

from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from lapsvm.arrays import Array
from lapsvm.catalog import ImageRecord, Pixels
from lapsvm.errors import ImageError, MissingError

from ...settings.recipes import from_network
from ...settings.settings import Settings
from .sides import spread

SAMPLE = 33
"""Pictures that are read: spread evenly over the set."""

PARTS = 4
"""Parts of a picture across, and down."""

EVEN = 20.0
"""Grey levels below which the ground is even, see research/notebook/2026-11-small-things.md."""


def advice(records: Sequence[ImageRecord], settings: Settings, *, is_open: bool) -> str:
    """Return a sentence on the windows that suit pictures with an even ground, "" for others.

    Parameters
    ----------
    records : sequence of ImageRecord
    settings : Settings
    is_open : bool
        Whether nobody gave any windows.
    """
    if not is_open or not from_network(settings.features.extractors):
        return ""
    levels = unevenness(_read(records))
    if levels is None or levels >= EVEN:
        return ""
    found = f"the ground is even (the parts of a picture differ by {levels:.0f} grey levels, below {EVEN:.0f})"
    wanted = "--windows small --set windows.proposal_side=768"
    return f"windows: {found}; if what is sought is smaller than a twentieth of the picture, take {wanted}"


def unevenness(pictures: Sequence[Pixels]) -> float | None:
    """Return the median deviation of the parts of pictures, in grey levels. None if there is no picture.

    A part differs from its picture's mean; what parts at this place differ by in all pictures, such as the light, does
    not count.
    """
    if not pictures:
        return None
    parts, n = np.stack([_parts(pixels) for pixels in pictures]), len(pictures)
    differences = parts - parts.mean(axis=1, keepdims=True)
    if n > 1:
        differences = (differences - differences.mean(axis=0)) * np.sqrt(n / (n - 1))
    return float(np.median(np.sqrt((differences**2).mean(axis=(1, 2)))))


def _parts(pixels: Pixels) -> Array:
    """Return the mean colours (parts, 3) of a picture's parts."""
    import cv2

    small = cv2.resize(np.ascontiguousarray(pixels), (PARTS, PARTS), interpolation=cv2.INTER_AREA)
    return np.asarray(small.reshape(PARTS * PARTS, 3), np.float64)


def _read(records: Sequence[ImageRecord]) -> list[Pixels]:
    """Return some of the pictures; those that cannot be read whole are left out."""
    pictures = []
    for record in spread(records, SAMPLE):
        with suppress(ImageError, MissingError):
            pictures.append(record.pixels())
    return pictures
