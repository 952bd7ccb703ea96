"""The window of a positive picture: the only place where refinement chooses one.

A known object decides. Otherwise the window has the best score of a model, with objectness where the run knows it, or
is the nearest to the box that detection would return for such scores, and is none that a person rejected.
"""

from dataclasses import replace

import numpy as np

from lapsvm.arrays import Float64, Index
from lapsvm.boxes import iou, paired_iou
from lapsvm.detection import box_voting, smooth_scores

from ...run.dataset import Labels
from ...settings.settings import RefineSettings
from ...verdicts.reviewed import SAME
from .chains import Chain
from .pictures import StoredPictures


def choose_windows(
    pictures: StoredPictures, settings: RefineSettings, y: Labels, weights: Float64, seen: Labels | None = None
) -> Index:
    """Return the window (n_bags,) of each picture for the weights (d,) of a model.

    With ``box_voting`` the windows of pictures that are not positive are 0. A window that a picture gains
    (`StoredPictures.added`) is counted after its own. How much of the prior counts is decided by the pictures that are
    positive in `seen`, the labels that the model may see; by default `y`.
    """
    rows, voting = np.flatnonzero(y > 0), settings.box_voting
    scoring = pictures.with_context_share(weights, settings.context_share) if voting else weights
    windows = _windows_by_scores(pictures, settings, rows, scoring, 0.0)
    if pictures.prior is not None:
        share = pictures.prior.share(_standing(pictures, windows, y if seen is None else seen))
        windows = _windows_by_scores(pictures, settings, rows, scoring, share) if share else windows
    return _with_reviewed(pictures, weights, windows)


def prior_share(pictures: StoredPictures, settings: RefineSettings, y: Labels, weights: Float64) -> dict[str, float]:
    """Return the mean objectness of the windows that a model chooses by scores alone, and the share of the prior.

    Returns
    -------
    dict
        "stands_out": mean objectness, and "share": from 0 to 1; empty if no positive picture was measured.
    """
    if pictures.prior is None:
        return {}
    alone = replace(pictures, prior=None, known={}, added={})
    standing = _standing(pictures, choose_windows(alone, settings, y, weights), y)
    return {} if standing is None else {"stands_out": standing, "share": pictures.prior.share(standing)}


def _standing(pictures: StoredPictures, windows: Index, y: Labels) -> float | None:
    """Return the mean objectness of the windows (n_bags,) of positive pictures. None if no window was measured."""
    rows = np.flatnonzero(y > 0)
    return None if pictures.prior is None else pictures.prior.standing(pictures.bags.offsets[rows] + windows[rows])


def _windows_by_scores(
    pictures: StoredPictures, settings: RefineSettings, rows: Index, weights: Float64, share: float
) -> Index:
    """Return the window (n_bags,) of each picture by scores, in the pictures `rows` (m,) with a share of the prior."""
    if settings.box_voting:
        return voted_windows(pictures, rows, weights, settings.score_smoothing, share)
    windows = pictures.bags.best(weights).index
    if share:
        windows[rows] = [int(np.argmax(scores)) for scores in _row_scores(pictures, rows, weights, share)]
    return windows


def _row_scores(pictures: StoredPictures, rows: Index, weights: Float64, share: float) -> list[Float64]:
    """Return the scores of the windows of the pictures `rows` (m,), with a share of the prior."""
    scores, offsets = pictures.bags.subset(rows).split_scores(weights), pictures.bags.offsets
    if pictures.prior is None:
        return scores
    own = (slice(offsets[row], offsets[row + 1]) for row in rows)
    return [pictures.prior.added(values, windows, share) for values, windows in zip(scores, own, strict=True)]


def voted_windows(
    pictures: StoredPictures, rows: Index, weights: Float64, smoothing: float, share: float = 0.0
) -> Index:
    """Return the window (n_bags,) nearest to the voted box of the pictures `rows` (m,), 0 for other pictures.

    The window that votes move is that with the best score by the weights (d,) and a share of the prior, smoothed by
    `smoothing` (see `lapsvm.detection.smooth_scores`). Votes have the weights of the scores before that.
    """
    chosen = np.zeros(pictures.bags.n_bags, dtype=np.intp)
    if not len(rows):
        return chosen
    for row, values in zip(rows, _row_scores(pictures, rows, weights, share), strict=True):
        windows = pictures.windows(row)
        best = int(np.argmax(smooth_scores(windows, values, smoothing)))
        box = box_voting(windows[[best]], windows, values)
        chosen[row] = int(np.argmax(iou(windows, box)[:, 0]))
    return chosen


def _with_reviewed(pictures: StoredPictures, weights: Float64, windows: Index) -> Index:
    """Return the chosen windows (n_bags,), with the windows of reviewed pictures replaced by the reviewed ones.

    A picture with known objects gets the window that overlaps one most. In a picture with rejected boxes, a rejected
    window gives way to the best-scored one that is not; it stays where all are rejected.
    """
    reviewed = windows.copy()
    for row, known in pictures.known.items():
        boxes = np.asarray(pictures.windows(row), dtype=np.float64)
        if len(known.true):
            added = pictures.added[row].boxes if row in pictures.added else boxes[:0]
            reviewed[row] = known.nearest(np.concatenate([boxes, added]))
            continue
        right = known.right(boxes, SAME)
        if right.any() and not right[reviewed[row]]:
            scores = pictures.bags.subset([row]).score_windows(weights)
            reviewed[row] = int(np.argmax(np.where(right, scores, -np.inf)))
    return reviewed


def count_unmoved(pictures: StoredPictures, settings: RefineSettings, initial: Chain, final: Chain) -> tuple[int, int]:
    """Count the positive pictures whose box stayed where refinement began, and the others.

    It stayed if the windows of both chains overlap by more than half. Pictures of which a person said something are not
    counted: their box is known. The final chain has the weights of detection, and chooses by scores alone, as detection
    does.
    """
    boxes, first = pictures.boxes, pictures.bags.offsets
    positives = np.setdiff1d(np.flatnonzero(initial.y > 0), list(pictures.known))
    in_full = replace(settings, context_share=1.0)  # the weights of the context
    last = choose_windows(replace(pictures, prior=None), in_full, final.y, final.weights)
    before, after = (boxes[first[positives] + windows[positives]] for windows in (initial.windows, last))
    unmoved = int(np.count_nonzero(paired_iou(before, after) > SAME))
    return unmoved, len(positives) - unmoved
