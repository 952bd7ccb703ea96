"""The windows of a picture of any size, by the settings of a run or of a model; large pictures are reduced first."""

import numpy as np

from lapsvm.arrays import Array, Float32, Float64
from lapsvm.catalog import Pixels
from lapsvm.settings import ProposalSettings
from lapsvm.windows.proposals import propose, with_whole_image

WINDOWS_VERSION = 3  # raised when proposals of equal settings change, so that old and new shards do not mix


def picture_windows(pixels: Pixels, settings: ProposalSettings, seed: int) -> Array:
    """Return the best ``max_windows`` windows of a picture, float32 of shape (n, 4), the whole picture first.

    They are proposed in a reduced picture if it is large. None is larger than ``max_area`` of the picture.
    """
    seen = reduced(pixels, settings.proposal_side)
    boxes = propose(
        seen,
        settings.method,
        mode=settings.mode,
        max_windows=settings.max_windows,
        max_area=settings.max_area,
        seed=seed,
    )
    return from_whole_image(boxes if seen is pixels else enlarged_boxes(boxes, pixels, seen), pixels.shape, settings)


def from_whole_image(boxes: Array, shape: tuple[int, ...], settings: ProposalSettings) -> Array:
    """Return the boxes of a picture with the whole picture first, unless ``max_area`` excludes it."""
    if settings.max_area < 1:
        return boxes
    return with_whole_image(boxes, *shape[:2])[: settings.max_windows]


def reduced(pixels: Pixels, max_side: int) -> Pixels:
    """Return a picture whose longer side is at most `max_side` pixels; the same array if it is already.

    A pixel is the mean over its area in the picture.
    """
    import cv2

    longer = max(pixels.shape[:2])
    if longer <= max_side:
        return pixels
    height, width = (max(1, round(side * max_side / longer)) for side in pixels.shape[:2])
    return np.asarray(cv2.resize(np.ascontiguousarray(pixels), (width, height), interpolation=cv2.INTER_AREA))


def scales_of(pixels: Pixels, seen: Pixels) -> Float64:
    """Return by how much the boxes (n, 4) of a reduced picture are smaller than those of the picture itself, (4,)."""
    return np.tile([pixels.shape[1] / seen.shape[1], pixels.shape[0] / seen.shape[0]], 2)


def enlarged_boxes(boxes: Array, pixels: Pixels, seen: Pixels) -> Float32:
    """Return boxes of a reduced picture in whole pixels of the picture itself."""
    height, width = pixels.shape[:2]
    found = np.floor(boxes * scales_of(pixels, seen) + 0.5)  # not to even: a side of one pixel would vanish
    return np.minimum(found, [width, height, width, height]).astype(np.float32)
