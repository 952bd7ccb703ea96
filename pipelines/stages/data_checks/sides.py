"""The sizes at which networks see pictures: refused, or chosen by the pictures, and what is too small for them."""

from collections.abc import Sequence
from contextlib import suppress
from statistics import median

from lapsvm.catalog import ImageRecord
from lapsvm.errors import ImageError, LapsvmError, MissingError, OptionError
from lapsvm.features.extractors.efficientnet import KIND
from lapsvm.features.extractors.extractor import open_sizes, sees_context
from lapsvm.features.extractors.specs import MAX_DIGITS, parse_spec
from lapsvm.pictures.reading import longer_side

from ...settings.settings import Settings

SAMPLE = 99
"""Pictures whose headers are read: spread evenly over the set."""

LARGE = 1920
"""Longer side from which pictures are large: twice the larger size of recipe best."""

FINE = {"features.sizes": (2048, 960), "windows.proposal_side": 1536}
"""The settings for large pictures, see docs/measurements/results.md, Small objects."""

CELL = 8
"""Pixels of the network's input in a cell of its finest map; objects of less than two cells are rarely found."""


def fitted_to(records: Sequence[ImageRecord], settings: Settings, *, is_open: bool) -> tuple[Settings, str]:
    """Return the settings that suit the pictures, and a sentence on what is too small to be found with them.

    Parameters
    ----------
    records : sequence of ImageRecord
        Their files can be read.
    settings : Settings
    is_open : bool
        Whether the sizes may be chosen, because nobody gave any.

    Returns
    -------
    settings : Settings
        Those of `FINE` for large pictures if `is_open`, else unchanged.
    sentence : str
        Empty where no network with a known finest map sees the pictures at given sizes.
    """
    if not settings.features.sizes or all(parse_spec(text).kind != KIND for text in settings.features.extractors):
        return settings, ""
    side = median_side(records)
    is_large = is_open and side > LARGE
    fitted = settings.with_values(FINE) if is_large else settings
    sizes, given = fitted.features.sizes, ",".join(map(str, settings.features.sizes))
    quicker = f"and large ones are found better by --sizes {given}, in a quarter of the time"
    return fitted, (
        f"pictures: {side:,} pixels on the longer side (median), seen at {' and '.join(map(str, sizes))}; "
        f"objects below about {round(2 * CELL * side / sizes[0])} pixels are too small to be found, "
        f"{quicker if is_large else 'unless --sizes are larger'}"
    )


def spread(records: Sequence[ImageRecord], most: int) -> Sequence[ImageRecord]:
    """Return at most a number of records, in equal steps over all."""
    return records[:: max(1, -(-len(records) // most))]


def median_side(records: Sequence[ImageRecord]) -> int:
    """Return the median of the longer sides, in pixels; pictures whose header cannot be read do not count."""
    sides = []
    for record in spread(records, SAMPLE):
        with suppress(ImageError, MissingError):
            sides.append(longer_side(record.path))
    return round(median(sides)) if sides else 0


def check_sizes(settings: Settings, device: str = "auto") -> None:
    """Raise OptionError if a network is to see pictures larger than those it gets.

    Pictures are reduced to ``windows.max_side`` first, so that a network would see them blurred at a higher price.
    """
    limit = settings.windows.max_side
    for text in filter(sees_context, settings.features.extractors):
        own = parse_spec(text).options.get("size")
        largest = _largest_size(text, settings, device) if own is None else _own_size(own)
        what = "option --sizes" if own is None else f"size of extractor {text!r}"
        if largest > limit:
            raise OptionError(
                f"{what} must be at most windows.max_side, to which pictures are reduced before the network sees them, "
                f"got {largest} and {limit}; --set windows.max_side={largest} keeps their detail."
            )


def _own_size(text: str) -> int:
    """Return the size in an extractor's text; 0 for what is none, which opening the extractor refuses."""
    return int(text) if text.isdecimal() and len(text) <= MAX_DIGITS else 0


def _largest_size(text: str, settings: Settings, device: str) -> int:
    """Return the largest of ``--sizes`` at which a network sees pictures: none if its size is fixed.

    Only a network that can be opened tells; of others all sizes count, and opening them for extraction fails.
    """
    largest = max(settings.features.sizes, default=0)
    if largest > settings.windows.max_side:
        with suppress(LapsvmError):
            seen = [part.describe()["size"] for part in open_sizes(text, settings.features.networks, device)]
            return max((size for size in seen if isinstance(size, int)), default=0)
    return largest
