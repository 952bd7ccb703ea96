"""Histograms of held-out pictures, good and defective, with the threshold of an alarm."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lapsvm.arrays import as_floats, as_number, as_whole_numbers

BINS = 25
PROBABILITY, DISTANCE = "highest probability of a class", "distance to good pictures"
"""The titles of the two histograms."""


@dataclass(frozen=True)
class Histogram:
    """The numbers of good and of defective pictures in equal bins from 0 on.

    Attributes
    ----------
    title : str
    end : float
        The end of the last bin, which counts higher values too.
    threshold : float
    good, defective : tuple of `BINS` int
    """

    title: str
    end: float
    threshold: float
    good: tuple[int, ...]
    defective: tuple[int, ...]

    @classmethod
    def among(cls, title: str, values: ArrayLike, labels: NDArray[np.int8], threshold: float, end: float) -> Self:
        """Return the histogram of values (n,) of pictures with labels: -1 good, 1 defective, 0 in neither."""
        numbers = as_floats(title, values, 1)
        places = np.minimum(numbers / end * BINS, BINS - 1).astype(int)
        counts = (np.bincount(places[labels == kind], minlength=BINS).tolist() for kind in (-1, 1))
        return cls(title, end, threshold, *map(tuple, counts))

    def as_json(self) -> dict[str, Any]:
        """Return the entry of the threshold's file."""
        return asdict(self)

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Self:
        """Return the histogram of an entry; KeyError, ValueError, TypeError or InputError if it is something else."""
        end, threshold = as_number("end", entry["end"]), as_number("threshold", entry["threshold"])
        counts = [tuple(as_whole_numbers(name, entry[name]).tolist()) for name in ("good", "defective")]
        if not 0 < end < np.inf or any(len(of_kind) != BINS or min(of_kind) < 0 for of_kind in counts):
            raise ValueError(f"a histogram must have an end above 0 and {BINS} numbers of each kind, got {entry!r}")
        return cls(str(entry["title"]), end, threshold, counts[0], counts[1])
