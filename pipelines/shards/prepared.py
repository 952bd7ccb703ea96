"""Pictures with their windows, ready to give the features: what extraction and prediction share.

A picture whose longer side is above ``max_side`` is reduced to it, once, for the proposals and for the extractor. Boxes
are those of the picture itself, in whole pixels.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lapsvm.arrays import Array, Float32, Float64
from lapsvm.catalog import Pixels
from lapsvm.features import Extractor
from lapsvm.features.extractors.extractor import prepared
from lapsvm.features.extractors.maps.prepared import PreparedPicture, PreparedProjection

from ..run.settings import FILE, WindowSettings
from .windows import window_boxes


@dataclass(frozen=True)
class PreparedWindows:
    """A picture and its windows.

    Attributes
    ----------
    boxes : ndarray of shape (n, 4), float32
        In pixels of the picture.
    size : tuple of int
        Its height and width.
    seen : PreparedPicture
        What the extractor knows of it.
    seen_boxes : ndarray of shape (n, 4)
        The windows in the picture as the extractor sees it.
    """

    boxes: Array
    size: tuple[int, int]
    seen: PreparedPicture
    seen_boxes: Array

    def features(self) -> Float32:
        """Return the features of all windows, (n, d)."""
        return self.seen(self.seen_boxes)

    def features_of(self, windows: slice) -> Float32:
        """Return the features of some windows."""
        return self.seen(self.seen_boxes[windows])

    def projected(self, components: Sequence[Float32]) -> "PreparedWindows":
        """Return the same windows with features that are multiplied by components."""
        return replace(self, seen=PreparedProjection(self.seen, components))


def prepare_windows(
    pixels: Pixels, settings: WindowSettings, seed: int, extractor: Extractor, image_id: str = ""
) -> PreparedWindows:
    """Return a picture with its windows (see `window_boxes`), prepared for an extractor."""
    height, width = pixels.shape[:2]
    seen = reduced(pixels, settings.max_side)
    if seen is pixels:
        boxes = window_boxes(pixels, settings, seed, image_id)
        return PreparedWindows(boxes, (height, width), prepared(extractor, pixels), boxes)
    scales = np.tile([width / seen.shape[1], height / seen.shape[0]], 2)
    if settings.method == FILE:
        boxes = window_boxes(pixels, settings, seed, image_id)
    else:
        boxes = enlarged_boxes(window_boxes(seen, settings, seed, image_id), scales, width, height)
    return PreparedWindows(boxes, (height, width), prepared(extractor, seen), boxes / scales)


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


def enlarged_boxes(boxes: Array, scales: Float64, width: int, height: int) -> Float32:
    """Return boxes of a reduced picture in whole pixels of the picture of this size."""
    found = np.floor(boxes * scales + 0.5)  # not to even: a side of one pixel would vanish
    return np.minimum(found, [width, height, width, height]).astype(np.float32)
