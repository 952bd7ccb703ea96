"""The windows of a positive picture that shows several things: refinement learns from each of them.

Beside the window that scores and the prior choose, others count that lie apart from it, and whose scores are nearer to
that of the picture's best window than to those of pictures without the class. Where one thing is shown, or
much of it, such windows hold parts and surroundings. So they are learned from only where positive pictures have `MANY`
on average that also score above all pictures without the class, by models that have seen neither, and where models that
learned from them tell pictures that they did not see as well.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lapsvm.arrays import Array, Float64, Index
from lapsvm.bags import Bags
from lapsvm.boxes import areas, common_areas, iou
from lapsvm.detection import box_voting, smooth_scores
from lapsvm.detection.suppression import nms
from lapsvm.evaluation import image_average_precision

from ...run.dataset import Labels
from ...settings.settings import RefineSettings
from .chains import Chain, TrainedModels
from .choice import choose_windows
from .pictures import StoredPictures

MANY = 2.4
"""The mean number of windows of a picture from which on they count, see research/notebook/2026-11-small-things.md."""
NEARER = 0.5
"""How near the score of a window must be to the picture's best one: 1 is the best itself, 0 the median of pictures
without the class."""
LOSS = 0.01  # of image AP, which a few pictures move
MOST = 8  # windows of a picture
PEAK, APART = 0.3, 0.5  # IoU from which on a better window stands for another; share of the smaller of two windows


def choose_things(
    pictures: StoredPictures, settings: RefineSettings, y: Labels, weights: Float64, seen: Labels | None = None,
    are_above: bool = False,
) -> Index:  # fmt: skip
    """Return the windows (n_bags, MOST) of each picture to learn from, the chosen one first, -1 beyond the last.

    Pictures of which a person said something have the chosen window alone. With `are_above` further windows must score
    as high as every picture without the class.
    """
    windows = np.full((pictures.bags.n_bags, MOST), -1, dtype=np.intp)
    scoring = pictures.with_context_share(weights, settings.context_share) if settings.box_voting else weights
    windows[:, 0] = choose_windows(pictures, replace(settings, box_voting=False), y, scoring, seen)
    rows = np.setdiff1d(np.flatnonzero(y > 0), list(pictures.known))
    if not len(rows):
        return windows
    negatives = pictures.bags.subset(np.flatnonzero((y if seen is None else seen) < 0))
    without = negatives.best(scoring).score
    levels = float(np.median(without)), float(without.max()) if are_above else -np.inf
    for row, scores in zip(rows, pictures.bags.subset(rows).split_scores(scoring), strict=True):
        chosen = _windows_apart(pictures.windows(row), scores, int(windows[row, 0]), levels, settings)
        windows[row, : len(chosen)] = chosen
    return windows


def count_things(pictures: StoredPictures, settings: RefineSettings, chain: Chain) -> float:
    """Return the mean number of windows to learn from in the positive pictures of a chain."""
    windows = choose_things(replace(pictures, known={}), settings, chain.y, chain.weights)
    return float((windows[chain.y > 0] >= 0).sum(axis=1).mean())


def count_unseen_things(
    pictures: StoredPictures, settings: RefineSettings, models: TrainedModels, chains: Sequence[Chain]
) -> float:
    """Return the mean number of windows in the positive pictures of the folds, by the chains without each fold.

    Further windows than the chosen one score as high as every picture of the fold without the class.
    """
    alone, counts = replace(pictures, known={}), []
    for number, chain in enumerate(chains[1:], start=1):
        y = np.where(models.fold == number, models.y, 0).astype(np.int8)
        if (y > 0).any() and (y < 0).any():
            windows = choose_things(alone, settings, y, chain.weights, are_above=True)
            counts.append((windows[y > 0] >= 0).sum(axis=1))
    return float(np.concatenate(counts).mean()) if counts else 1.0


def teach_as_well(bags: Bags, models: TrainedModels, alone: Sequence[Chain], several: Sequence[Chain]) -> bool:
    """Return whether chains that learned from several windows of a picture tell unseen pictures as well."""
    return _unseen_image_ap(bags, models, several) >= _unseen_image_ap(bags, models, alone) - LOSS


def _unseen_image_ap(bags: Bags, models: TrainedModels, chains: Sequence[Chain]) -> float:
    """Return the mean image AP of the folds, each by the chain without it; NaN without a fold of both labels."""
    values = []
    for number, chain in enumerate(chains[1:], start=1):
        rows = np.flatnonzero((models.fold == number) & (models.y != 0))
        values.append(image_average_precision(bags.subset(rows).best(chain.weights).score, models.y[rows]))
    return float(np.mean([value for value in values if value is not None]))


def _windows_apart(
    boxes: Array, scores: Float64, chosen: int, levels: tuple[float, float], settings: RefineSettings
) -> list[int]:
    """Return the chosen window of a picture, and those apart that count; votes have the weights of the scores alone.

    `levels` are the score of pictures without the class, and the least score of a window.
    """
    level, least = levels
    corners, smoothed = np.asarray(boxes, dtype=np.float64), smooth_scores(boxes, scores, settings.score_smoothing)
    needed = max(level + NEARER * (smoothed.max() - level), least)
    smoothed[chosen] = smoothed.max() + 1.0  # before a better one that holds it and others
    order, apart = nms(corners, smoothed, PEAK), [chosen]
    for window in order[smoothed[order] >= needed]:
        if len(apart) < MOST and _is_apart(corners[[window]], corners[[chosen]]):
            apart.append(int(window))
    if not settings.box_voting:
        return apart
    nearest = iou(box_voting(corners[apart], corners, scores), corners).argmax(axis=1)
    return list(dict.fromkeys(nearest.tolist()))


def _is_apart(box: Float64, other: Float64) -> bool:
    """Return whether two boxes (1, 4) share less than `APART` of the smaller one."""
    return bool(common_areas(box, other)[0] < APART * min(areas(box)[0], areas(other)[0]))
