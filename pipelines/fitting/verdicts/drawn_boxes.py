"""Drawn boxes as windows of their pictures, where the run has no window that covers them.

Only training takes them, for the class that a person drew and in chains that may see the picture: boxes that figures
are about are chosen among the run's own windows, as in a picture that nobody has seen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Array, Float32, Float64, Index
from lapsvm.boxes import iou
from lapsvm.features import PictureWindows
from lapsvm.latent import KnownBoxes

from ...shards.drawn import as_windows

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class AddedWindows:
    """Windows that a picture gains after its own.

    Attributes
    ----------
    boxes : (m, 4) float32
    features : (m, d)
        As stored, without a scale.
    """

    boxes: Float32
    features: Array


def boxes_without_window(known: KnownBoxes, windows: Array, size: tuple[int, int], least: float) -> Float32:
    """Return the windows (m, 4), float32, that a picture lacks for its known objects, perhaps none.

    Parameters
    ----------
    known : KnownBoxes
    windows : (n, 4)
        The picture's.
    size : tuple of 2 ints
        Its height and width.
    least : float
        An object is covered if a window has at least this IoU with it.
    """
    if not len(known.true):
        return np.empty((0, 4), dtype=np.float32)
    covered = iou(windows, known.true).max(axis=0) >= least
    return np.unique(as_windows(known.true[~covered], size), axis=0)


def wanted_windows(
    known: Sequence[Mapping[int, KnownBoxes]], ids: Sequence[str], offsets: Index, boxes: Array, sizes: Array,
    least: float,
) -> dict[str, Float32]:  # fmt: skip
    """Return picture -> the windows (m, 4) that it lacks for the known objects of all classes.

    Parameters
    ----------
    known : sequence of mapping of row to KnownBoxes
        Of each class.
    ids : sequence of str, n_bags of them
    offsets : (n_bags + 1,)
        The first window of each picture.
    boxes : (n_windows, 4)
    sizes : (n_bags, 2)
        Heights and widths.
    least : float
    """
    found: dict[int, list[Float32]] = {}
    for of_class in known:
        for row, one in of_class.items():
            own = boxes[offsets[row] : offsets[row + 1]]
            found.setdefault(row, []).append(boxes_without_window(one, own, tuple(sizes[row].tolist()), least))
    joined = {ids[row]: np.unique(np.concatenate(parts), axis=0) for row, parts in sorted(found.items())}
    return {name: of_picture for name, of_picture in joined.items() if len(of_picture)}


def added_windows(
    known: Mapping[int, KnownBoxes], ids: Sequence[str], drawn: Mapping[str, PictureWindows], least: float
) -> dict[int, AddedWindows]:
    """Return row -> the drawn windows that stand for a known object of one class: those of others are left out."""
    found = {}
    for row, one in known.items():
        picture = drawn.get(ids[row])
        if picture is None or not len(one.true):
            continue
        boxes: Float64 = np.asarray(picture.boxes, dtype=np.float64)
        own = iou(boxes, one.true).max(axis=1) >= least
        if own.any():
            found[row] = AddedWindows(np.asarray(picture.boxes)[own], np.asarray(picture.features)[own])
    return found


def with_boxes(boxes: Array, offsets: Index, added: Mapping[int, AddedWindows]) -> Array:
    """Return the boxes (n_windows, 4) of bags, of which some have more at their end."""
    if not added:
        return boxes
    return np.insert(boxes, _ends(offsets, added), np.concatenate([added[row].boxes for row in sorted(added)]), axis=0)


def with_masks(mask: Mask, offsets: Index, added: Mapping[int, AddedWindows], taken: Mask) -> Mask:
    """Return the mask (n_windows,) of bags, of which some have more windows: those of the bags that are `taken`."""
    if not added:
        return mask
    return np.insert(mask, _ends(offsets, added), np.repeat(taken[sorted(added)], _counts(added)))


def _ends(offsets: Index, added: Mapping[int, AddedWindows]) -> Index:
    return np.repeat(offsets[1:][sorted(added)], _counts(added))


def _counts(added: Mapping[int, AddedWindows]) -> list[int]:
    return [len(added[row].boxes) for row in sorted(added)]
