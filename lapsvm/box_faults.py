"""Faults of a box of a file, a verdict or a page: one rule for all.

A box can be used if it is upright, its corners are finite and not flat or swapped, and it lies in its picture, but for
`REACH`. What is left out is counted by its fault, and said in the sentence of `left_out_sentence`.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Float64

REACH = 1.0
"""Pixels by which a box may reach outside of its picture: programs round differently."""
SMALLEST = 2
"""Pixels: in a larger picture boxes do not all lie within one pixel, unless they are shares of its sides."""
_SHARE = 1.001  # of a side, with what rounding adds
_MANY, _PART = 10, 0.6
"""Boxes that do not all lie within this part of the sides of their pictures by chance."""
_TURN, _UPRIGHT = 360.0, 1e-3  # degrees

NO_BOX = "without a box"
NOT_NUMBERS = "with a box that is not four finite numbers"
ROTATED = "with a rotated box"
EMPTY = "with an empty box"
SHARES = "with a box in shares of the picture's sides and not in pixels"
OUTSIDE = "with a box outside of the picture"
OTHER_SIZE = "in a picture that has another size than the file says"


def box_faults(boxes: ArrayLike, size: tuple[float, float] | None = None) -> list[str]:
    """Return the fault of each box of one picture. "" for a box that can be used.

    Parameters
    ----------
    boxes : array-like of shape (n, 4)
        x1, y1, x2, y2 in pixels, 0-based and half-open. All boxes of the picture: whether they are shares of its sides
        is seen in all of them together.
    size : (width, height) in pixels, optional
        None: it is not known; boxes are outside on the left and above alone.

    Returns
    -------
    list of n str
        `NOT_NUMBERS`, `EMPTY` (corners that are flat or swapped), `SHARES`, `OUTSIDE` or "".
    """
    corners = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
    limits = np.array([np.inf, np.inf] if size is None else size, dtype=np.float64)
    low, high = corners[:, :2], corners[:, 2:]
    is_outside = (np.maximum(-low, high - limits) > REACH) | (high <= 0) | (low >= limits)
    faults = {
        NOT_NUMBERS: ~np.isfinite(corners).all(axis=1),
        EMPTY: (low >= high).any(axis=1),
        SHARES: np.full(len(corners), limits.max() > SMALLEST and are_shares(corners)),
        OUTSIDE: is_outside.any(axis=1),
    }
    flags = {fault: np.asarray(wrong).tolist() for fault, wrong in faults.items()}
    return [next((fault for fault, wrong in flags.items() if wrong[row]), "") for row in range(len(corners))]


def are_shares(boxes: Float64) -> bool:
    """Return whether boxes (n, 4) are shares of a picture's sides: within 0 to 1, and not on whole pixels."""
    return bool(
        (np.abs(boxes) <= _SHARE).all() and (boxes != np.round(boxes)).any()
    )  # a box may be a pixel in a corner


def smaller_sentence(boxes: Iterable[tuple[Sequence[float], tuple[float, float]]]) -> str:
    """Return a question if many boxes all lie in the upper left part of their pictures. "" if not.

    Boxes of smaller pictures do, where a file does not say of which size its pictures are.

    Parameters
    ----------
    boxes : iterable of ((x1, y1, x2, y2), (width, height))
        Boxes with the sizes of their pictures, in pixels.
    """
    reaches = [max(x2 / width, y2 / height) for (_, _, x2, y2), (width, height) in boxes]
    if len(reaches) < _MANY or max(reaches) > _PART:
        return ""
    asked = "were they drawn in smaller pictures?"
    return f"all {len(reaches):,} boxes lie in the upper left {max(reaches):.0%} of their pictures: {asked}"


def is_rotated(angle: Any) -> bool:
    """Whether an angle in degrees, as a file has it, turns a box; text that is no number may be any angle."""
    if angle is None or angle == "":
        return False
    try:
        degrees = float(angle)
    except (TypeError, ValueError, OverflowError):
        return True
    return not (math.isfinite(degrees) and abs(math.remainder(degrees, _TURN)) <= _UPRIGHT)


def left_out_sentence(faults: Mapping[str, int], total: int) -> str:
    """Return how many of `total` annotations evaluation leaves out and why, as the end of a sentence. "" for none.

    Parameters
    ----------
    faults : mapping of fault to number of annotations
    total : int
    """
    counts = {fault: count for fault, count in faults.items() if count}
    listed = ", ".join(f"{count:,} {fault}" for fault, count in counts.items())
    return f"{sum(counts.values()):,} of {total:,} annotations are left out of evaluation ({listed})" if counts else ""
