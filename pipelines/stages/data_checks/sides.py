"""How large the pictures are, at which sizes the network sees them for that, and which objects are too small then."""

from collections.abc import Sequence
from contextlib import suppress
from statistics import median

from lapsvm.catalog import ImageRecord
from lapsvm.detection.export.annotations import picture_size
from lapsvm.errors import ImageError, MissingError
from lapsvm.features.extractors.efficientnet import KIND
from lapsvm.features.extractors.specs import parse_spec

from ...run.settings import Settings

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
    side = longer_side(records)
    is_large = is_open and side > LARGE
    fitted = settings.with_values(FINE) if is_large else settings
    sizes, given = fitted.features.sizes, ",".join(map(str, settings.features.sizes))
    sentence = (
        f"pictures: {side:,} pixels on the longer side (median), seen at {' and '.join(map(str, sizes))}; "
        f"objects below about {round(2 * CELL * side / sizes[0])} pixels are too small to be found, "
    )
    return fitted, sentence + (
        f"and large ones are found better by --sizes {given}, in a quarter of the time"
        if is_large
        else "unless --sizes are larger"
    )


def longer_side(records: Sequence[ImageRecord]) -> int:
    """Return the median of the longer sides, in pixels; pictures whose header cannot be read do not count."""
    sides = []
    for record in records[:: -(-len(records) // SAMPLE)]:
        with suppress(ImageError, MissingError):
            sides.append(max(picture_size(record.path)[:2]))
    return round(median(sides)) if sides else 0
