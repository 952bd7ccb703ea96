"""The windows of a picture of any size, by the settings of a run or of a model."""

from lapsvm.arrays import Array
from lapsvm.catalog import Pixels
from lapsvm.settings import ProposalSettings
from lapsvm.windows.proposals import propose, with_whole_image
from lapsvm.windows.reduction import enlarged_boxes, reduced

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
