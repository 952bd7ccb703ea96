"""How finely each part of an extractor's features resolves a picture, read from the description of the extractor."""

from collections.abc import Iterator, Mapping
from typing import Any


def cells_across(description: Mapping[str, Any]) -> tuple[float, ...] | None:
    """Return the number of cells along one side of a picture in the map of each part of the features.

    Parameters
    ----------
    description : mapping
        The result of `Extractor.describe` with its "runtime", possibly read from an untrusted file.

    Returns
    -------
    tuple of float or None
        None if a part is not of a map, if the description does not tell, or if this is no description.
    """
    try:
        found = tuple(_cells(description))
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError):
        return None
    return found if found and all(0 < cells < float("inf") for cells in found) else None


def _cells(description: Mapping[str, Any]) -> Iterator[float]:
    """Yield the cells across of each map; LookupError for features of something else."""
    if description["kind"] == "projection":
        yield from _cells(description["of"])
    elif description["kind"] == "concatenation":
        parts = description["parts"]
        for number in range(len(parts)):
            yield from _cells(parts[str(number)])
    else:
        size = description["size"]
        side = size[0] if isinstance(size, list) else size  # strides are those of rows
        yield from (side / stride for stride in description["runtime"]["strides"])
