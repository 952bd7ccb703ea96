"""How even the ground of pictures is: what is sought there may be small."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np

from lapsvm.arrays import Array
from lapsvm.catalog import ImageRecord, Pixels
from lapsvm.errors import ImageError, MissingError
from lapsvm.features import ShardSet

from ...settings.settings import Settings
from ...shards.windows import RunPictures
from .sides import spread

SAMPLE = 33
"""Pictures that are read: spread evenly over the set."""

PARTS = 4
"""Parts of a picture across, and down."""

EVEN = 20.0
"""Grey levels below which the ground is even, see research/notebook/2026-11-small-things.md."""


SMALL = "mixed", "small"
"""The methods whose windows hold small things."""


def ground_of(records: Sequence[ImageRecord]) -> float | None:
    """Return the `unevenness` of some of the pictures. None if none of these can be read whole."""
    pictures = []
    for record in spread(records, SAMPLE):
        with suppress(ImageError, MissingError):
            pictures.append(record.pixels())
    return unevenness(pictures)


def even_pictures(settings: Settings, records: Mapping[str, ImageRecord], shards: ShardSet) -> RunPictures | None:
    """Return the training pictures of a run that seeks small things on even ground. None for other runs."""
    levels = ground_of(list(records.values())) if settings.windows.method in SMALL else None
    if levels is None or levels >= EVEN:
        return None
    return RunPictures(records, shards.hashes)


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
