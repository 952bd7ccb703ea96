"""Drawn boxes as windows of their pictures, where the run has no window that covers them.

Only training takes them, for the class that a person drew and in chains that may see the picture: boxes that figures
are about are chosen among the run's own windows, as in a picture that nobody has seen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from lapsvm.arrays import Array, Float32
from lapsvm.boxes import iou
from lapsvm.features import PictureWindows
from lapsvm.latent import KnownBoxes

from ...products.drawn import as_windows
from .pictures import AddedWindows, StoredPictures


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
    pictures: StoredPictures, known: Sequence[Mapping[int, KnownBoxes]], sizes: Array, least: float
) -> dict[str, Float32]:
    """Return picture -> the windows (m, 4) that it lacks for the known objects of all classes.

    Parameters
    ----------
    pictures : StoredPictures
    known : sequence of mapping of row to KnownBoxes
        Of each class.
    sizes : (n_bags, 2)
        Heights and widths.
    least : float
        See `boxes_without_window`.
    """
    lacking: dict[int, list[Float32]] = {}
    for row, boxes in (item for of_class in known for item in of_class.items()):
        windows = pictures.windows(row)
        lacking.setdefault(row, []).append(boxes_without_window(boxes, windows, tuple(sizes[row].tolist()), least))
    joined = {pictures.ids[row]: np.unique(np.concatenate(of_row), axis=0) for row, of_row in sorted(lacking.items())}
    return {name: of_picture for name, of_picture in joined.items() if len(of_picture)}


def with_reviewed_boxes(
    pictures: StoredPictures, known: Mapping[int, KnownBoxes], drawn: Mapping[str, PictureWindows], least: float
) -> StoredPictures:
    """Return the pictures with the known boxes of a class.

    Drawn windows that overlap a known object by an IoU of at least `least` are added; those of other classes are not.
    """
    added = {}
    for row, boxes in known.items():
        picture = drawn.get(pictures.ids[row])
        if picture is None or not len(boxes.true):
            continue
        windows = np.asarray(picture.boxes)
        own = iou(windows.astype(np.float64), boxes.true).max(axis=1) >= least
        if own.any():
            added[row] = AddedWindows(windows[own], np.asarray(picture.features)[own])
    return replace(pictures, known=known, added=added)
