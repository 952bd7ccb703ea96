"""The pictures of a run that an export looks at: spread over a set, without those that the run left out."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

import numpy as np

from lapsvm.catalog import ImageRecord, Pixels
from lapsvm.errors import DataError
from lapsvm.pictures.nothing import is_plain

from ...shards.windows import pixels_unless_bad


def spread(records: Sequence[ImageRecord], count: int) -> list[ImageRecord]:
    """Return at most `count` pictures of a set, evenly spread over it."""
    places = np.unique(np.linspace(0, len(records) - 1, min(count, len(records))).round().astype(int))
    return [records[index] for index in places]


def readable(records: Iterable[ImageRecord], *, skip_bad: bool) -> Iterator[tuple[ImageRecord, Pixels]]:
    """Yield pictures with their pixels; with `skip_bad` without those that cannot be read, else they are errors."""
    for record in records:
        pixels = pixels_unless_bad(record, skip_bad)
        if pixels is not None:
            yield record, pixels


def telling(records: Sequence[ImageRecord], count: int, *, skip_bad: bool) -> list[ImageRecord]:
    """Return at most `count` pictures that show something, evenly spread over a set as far as they do.

    Raises
    ------
    DataError
        If all are of one colour, or cannot be read.
    """
    first = spread(records, count)
    chosen = {record.id for record in first}
    others = (record for record in records if record.id not in chosen)
    shown = (record for record, pixels in readable(chain(first, others), skip_bad=skip_bad) if not is_plain(pixels))
    found = list(islice(shown, count))
    if not found:
        raise DataError(f"int8 needs a training picture that is not of one colour, got none among {len(records):,}.")
    return found
