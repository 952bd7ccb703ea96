"""Pictures with fewer pixels, and boxes in the pixels of the picture itself."""

import numpy as np

from lapsvm.arrays import Array, Float32, Float64
from lapsvm.catalog import Pixels


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
