"""A picture and its windows, as a run's settings ask for them."""

from lapsvm.arrays import Array
from lapsvm.catalog import ImageRecord, Pixels
from lapsvm.errors import ImageError, MissingError
from lapsvm.windows import propose, with_whole_image

from .settings import WindowSettings


def pixels_unless_bad(record: ImageRecord, skip_bad: bool) -> Pixels | None:
    """Return a picture; None if it cannot be read whole and is to be left out then."""
    try:
        return record.pixels()
    except (ImageError, MissingError):
        if not skip_bad:
            raise
        return None


def window_boxes(pixels: Pixels, settings: WindowSettings, seed: int) -> Array:
    """Return the windows of a picture, float32 of shape (n, 4); the first is the whole picture, unless it is too large.

    At most ``max_windows`` are kept, the best; of those larger than ``max_area`` of the picture none.
    """
    height, width = pixels.shape[:2]
    boxes = propose(
        pixels,
        method=settings.method,
        mode=settings.mode,
        max_windows=settings.max_windows,
        max_area=settings.max_area,
        seed=seed,
    )
    if settings.max_area < 1:
        return boxes
    return with_whole_image(boxes, height, width)[: settings.max_windows]
