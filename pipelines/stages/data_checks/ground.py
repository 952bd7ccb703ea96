"""Whether the ground of pictures is even, so that what is sought is small, and the windows that suit such pictures."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from lapsvm.arrays import Array
from lapsvm.catalog import ImageRecord, Pixels
from lapsvm.errors import ImageError, MissingError

from ...settings.recipes import from_network
from ...settings.settings import Settings

SAMPLE = 33
"""Pictures that are read: spread evenly over the set."""

PARTS = 4
"""Parts of a picture across, and down."""

EVEN = 20.0
"""Grey levels below which the ground is even, see docs/measurements/proposals.md."""

SMALL: dict[str, Any] = {"windows.method": "small", "windows.max_windows": 2000, "windows.proposal_side": 768}
"""The settings for pictures with an even ground; a larger ``proposal_side`` stays."""


def suited_to(records: Sequence[ImageRecord], settings: Settings, *, is_open: bool) -> tuple[Settings, str]:
    """Return the settings with windows that suit the pictures, and a sentence on the choice.

    Parameters
    ----------
    records : sequence of ImageRecord
    settings : Settings
    is_open : bool
        Whether the windows may be chosen, because nobody gave any.

    Returns
    -------
    settings : Settings
        Those of `SMALL` for pictures with an even ground if `is_open` and a network gives the features; else unchanged.
    sentence : str
        Empty where they are unchanged.
    """
    if not is_open or not from_network(settings.features.extractors):
        return settings, ""
    levels = unevenness(_read(records))
    if levels is None or levels >= EVEN:
        return settings, ""
    kept = settings.windows
    side = max(SMALL["windows.proposal_side"], kept.proposal_side)
    suited = settings.with_values(SMALL | {"windows.proposal_side": side})
    return suited, (
        f"windows: {suited.windows.method}, {suited.windows.max_windows:,} a picture, because the ground is even (the "
        f"parts of a picture differ by {levels:.0f} grey levels, below {EVEN:.0f}), so that what is sought is small; "
        f"--windows {kept.method} takes {kept.max_windows:,} in less time"
    )


def unevenness(pictures: Sequence[Pixels]) -> float | None:
    """Return the median over pictures of how much their parts differ, in grey levels; None if there is no picture.

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
    for record in records[:: -(-len(records) // SAMPLE)] if records else ():
        with suppress(ImageError, MissingError):
            pictures.append(record.pixels())
    return pictures
