"""Pictures with their windows, ready to give the features: what extraction and prediction share.

A large picture is reduced for the proposals, and less so for the extractor. Boxes are those of the picture itself, in
whole pixels.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lapsvm.arrays import Array, Float32
from lapsvm.catalog import Pixels
from lapsvm.features import Extractor
from lapsvm.features.extractors.extractor import prepared
from lapsvm.features.extractors.maps.prepared import PreparedPicture, PreparedProjection
from lapsvm.windows.picture_windows import reduced, scales_of


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


def prepare_windows(pixels: Pixels, boxes: Array, max_side: int, extractor: Extractor) -> PreparedWindows:
    """Return a picture with its windows (n, 4), prepared for an extractor that sees at most `max_side` pixels."""
    seen = reduced(pixels, max_side)
    seen_boxes = boxes if seen is pixels else boxes / scales_of(pixels, seen)
    return PreparedWindows(boxes, pixels.shape[:2], prepared(extractor, seen), seen_boxes)
