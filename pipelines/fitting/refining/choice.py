"""The window of a positive picture: the only place where refinement chooses one.

A known object decides. Otherwise the window has the best score of a model, or is the nearest to the box that detection
would return, and is none that a person rejected.
"""

from dataclasses import replace

import numpy as np

from lapsvm.arrays import Float64, Index
from lapsvm.boxes import iou, paired_iou
from lapsvm.detection import box_voting, smooth_scores

from ...run.dataset import Labels
from ...run.settings import RefineSettings
from ..reviewed import SAME
from .chains import Chain
from .pictures import StoredPictures


def choose_windows(pictures: StoredPictures, settings: RefineSettings, y: Labels, weights: Float64) -> Index:
    """Return the window (n_bags,) of each picture for the weights (d,) of a model.

    With ``box_voting`` the windows of pictures that are not positive are 0. A window that a picture gains
    (`StoredPictures.added`) is counted after its own.
    """
    if settings.box_voting:
        voting = pictures.with_context_share(weights, settings.surroundings)
        windows = voted_windows(pictures, np.flatnonzero(y > 0), voting, settings.score_smoothing)
    else:
        windows = pictures.bags.best(weights).index
    return _settled_windows(pictures, weights, windows)


def voted_windows(pictures: StoredPictures, rows: Index, weights: Float64, smoothing: float) -> Index:
    """Return the window (n_bags,) nearest to the voted box of the pictures `rows` (m,), 0 for other pictures.

    The window that votes move is that with the best score by the weights (d,), smoothed by `smoothing` (see
    `lapsvm.detection.smooth_scores`). Votes have the weights of the scores as they were.
    """
    chosen = np.zeros(pictures.bags.n_bags, dtype=np.intp)
    if not len(rows):
        return chosen
    part = pictures.bags.subset(rows)
    scores = np.split(part.score_windows(weights), part.offsets[1:-1])
    for row, values in zip(rows, scores, strict=True):
        windows = pictures.windows(row)
        best = int(np.argmax(smooth_scores(windows, values, smoothing)))
        box = box_voting(windows[[best]], windows, values)
        chosen[row] = int(np.argmax(iou(windows, box)[:, 0]))
    return chosen


def _settled_windows(pictures: StoredPictures, weights: Float64, windows: Index) -> Index:
    """Return the chosen windows (n_bags,), with those of some pictures replaced by what is known of them.

    A picture with known objects gets the window that overlaps one most. In a picture with rejected boxes, a rejected
    window gives way to the best-scored one that is not; it stays where all are rejected.
    """
    settled = windows.copy()
    for row, known in pictures.known.items():
        boxes = np.asarray(pictures.windows(row), dtype=np.float64)
        if len(known.true):
            added = pictures.added[row].boxes if row in pictures.added else boxes[:0]
            settled[row] = known.nearest(np.concatenate([boxes, added]))
            continue
        right = known.right(boxes, SAME)
        if right.any() and not right[settled[row]]:
            scores = pictures.bags.subset([row]).score_windows(weights)
            settled[row] = int(np.argmax(np.where(right, scores, -np.inf)))
    return settled


def count_unmoved(pictures: StoredPictures, settings: RefineSettings, initial: Chain, final: Chain) -> tuple[int, int]:
    """Return in how many positive pictures the box stayed where refinement began, and in how many it did not.

    It stayed if the windows of both chains overlap by more than half. Pictures of which a person said something are not
    counted: their box is known. The final chain has the weights of detection.
    """
    boxes, first = pictures.boxes, pictures.bags.offsets
    positives = np.setdiff1d(np.flatnonzero(initial.y > 0), list(pictures.known))
    has_share = replace(settings, surroundings=1.0)  # of the weights of surroundings
    last = choose_windows(pictures, has_share, final.y, final.weights)
    before, after = (boxes[first[positives] + windows[positives]] for windows in (initial.windows, last))
    unmoved = int(np.count_nonzero(paired_iou(before, after) > SAME))
    return unmoved, len(positives) - unmoved
