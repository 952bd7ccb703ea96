"""From scores of windows to detections inside an ONNX graph: smoothing, demotion, suppression, voting, probabilities.

The rules are those of `lapsvm.detection`, for all classes at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lapsvm.detection.onnx_file.graph import Graph, Tensor
from lapsvm.detection.picture_scores import PIXEL_FRACTION, SMOOTHED, SMOOTHING_IOU, SMOOTHING_UNIT
from lapsvm.detection.sizes import FARTHEST, SizePrior
from lapsvm.inspection.calibration import Calibration
from lapsvm.settings import DetectSettings

NOT_EQUAL = 1e-6  # between a threshold and an IoU that equals it, for engines that round the last bit otherwise


@dataclass(frozen=True)
class Limits:
    """Which detections there are at most.

    Attributes
    ----------
    iou : Tensor
        Largest IoU of two boxes of one class, float32 (1,).
    score : Tensor
        Boxes must score higher, float32 (1,).
    probability : Tensor
        Least probability, float32 (1,); boxes of classes without probabilities pass.
    boxes : Tensor
        Largest number of boxes per class, int64 (1,).
    """

    iou: Tensor
    score: Tensor
    probability: Tensor
    boxes: Tensor


@dataclass(frozen=True)
class Chosen:
    """The detections: boxes (m, 4), classes (m,), scores (m,), probabilities (m,)."""

    boxes: Tensor
    classes: Tensor
    scores: Tensor
    probabilities: Tensor


def choose(
    graph: Graph,
    windows: Tensor,
    scores: Tensor,
    rules: Sequence[DetectSettings],
    calibrations: Sequence[Calibration | None],
    limits: Limits,
    counts: Tensor | None = None,
) -> Chosen:
    """Return the detections of k classes among windows (n, 4), float64, with scores (k, n), float64.

    `limits` stand in place of what the classes' rules say of suppression and of the number of boxes. `counts`, bool
    (1,), says whether there are any: no detection comes of a window that only stands in for none.
    """
    smoothed = _smoothed(graph, windows, scores, [rule.score_smoothing for rule in rules])
    demoted = smoothed + (smoothed - smoothed.largest(1)) * _column(graph, [rule.demotion for rule in rules])
    values = demoted.cast(np.float32)
    corners = windows.cast(np.float32).unsqueeze(0)
    kept = graph.op(
        "NonMaxSuppression",
        corners,
        values.unsqueeze(0),
        limits.boxes,
        limits.iou + NOT_EQUAL,
        limits.score,
        dtype=np.int64,
    )
    classes, indices = kept.column(1).reshape(-1), kept.column(2).reshape(-1)
    score = graph.op("GatherND", demoted, kept.column(1, 3))
    probability = _probabilities(graph, score, classes, calibrations)
    passes = ~(probability < limits.probability)  # NaN passes
    passes = passes if counts is None else passes & counts
    places = passes.places()
    classes, indices, score, probability = (value.gather(places, 0) for value in (classes, indices, score, probability))
    boxes = windows.gather(indices, 0)
    if any(rule.box_voting for rule in rules):
        boxes = _voted(graph, boxes, classes, windows, scores, rules)
    return Chosen(boxes.cast(np.float32), classes, score.cast(np.float32), probability)


def sized(graph: Graph, windows: Tensor, scores: Tensor, sizes: Sequence[SizePrior | None]) -> Tensor:
    """Return the scores (k, n) by the sizes of windows (n, 4), see `lapsvm.detection.sizes`."""
    if not any(sizes):
        return scores
    unknown = SizePrior(0.0, 0.0, 1.0, 1.0, 0.0)
    width, height, width_variance, height_variance, weight = (
        _column(graph, values) for values in zip(*(prior or unknown for prior in sizes), strict=True)
    )
    sides = (windows.column(2, 4) - windows.column(0, 2)).maximum(1.0).log().transposed(1, 0)
    across, down = sides.slice(0, 1, 0) - width, sides.slice(1, 2, 0) - height
    distances = across * across / width_variance + down * down / height_variance
    ranked = scores - weight * spreads(scores) * (distances / 2.0).minimum(FARTHEST)
    return ranked - ranked.largest(1) + scores.largest(1)


def spreads(scores: Tensor) -> Tensor:
    """Return the standard deviation of each row (k, 1)."""
    count = scores.size(1).cast(np.float64)
    rest = scores - scores.sum(1) / count
    return ((rest * rest).sum(1) / count).sqrt()


def positive(values: Tensor) -> Tensor:
    """Return the values, 1 in place of 0."""
    return values.graph.where(values > 0.0, values, 1.0)


def near(first: Tensor, second: Tensor, least: Tensor | float) -> Tensor:
    """Return whether boxes (..., n, 4) overlap boxes (..., m, 4) by an IoU of at least `least`, bool (..., n, m)."""
    graph, last = first.graph, first.graph.constant([-1], np.int64)
    mine, other = first.cast(np.float32), second.cast(np.float32)
    lying = other.unsqueeze(-3)
    x1, y1, x2, y2 = ((mine.column(column), graph.op("Squeeze", lying.column(column), last)) for column in range(4))
    width = x2[0].minimum(x2[1]) - x1[0].maximum(x1[1])
    height = y2[0].minimum(y2[1]) - y1[0].maximum(y1[1])
    shared = width.maximum(0.0) * height.maximum(0.0)
    union = _areas(mine) + graph.op("Squeeze", _areas(lying), last) - shared
    share = least.cast(np.float32) if isinstance(least, Tensor) else least
    return (shared > 0.0) & ~(shared < union * (share - NOT_EQUAL))


def _areas(boxes: Tensor) -> Tensor:
    sides = (boxes.column(2, 4) - boxes.column(0, 2)).maximum(0.0)
    return sides.column(0) * sides.column(1)


def _smoothed(graph: Graph, windows: Tensor, scores: Tensor, amounts: Sequence[float]) -> Tensor:
    """Return the scores (k, n) smoothed, see `lapsvm.detection.smooth_scores`."""
    if not any(amounts):
        return scores
    amount, unit = _column(graph, amounts), spreads(scores) * SMOOTHING_UNIT
    count = scores.size(1).reshape(1).minimum(SMOOTHED)
    highest = scores.largest(1)
    best, order = graph.ops("TopK", (np.float64, np.int64), scores - highest, count, axis=1)
    best_windows = windows.gather(order, 0)
    itself = graph.op("EyeLike", graph.op("Expand", count, graph.join([count, count], 0)), dtype=np.int64) > 0
    joined = graph.op("Or", near(best_windows, best_windows, SMOOTHING_IOU), itself.unsqueeze(0))
    weights = (best / positive(unit)).exp().maximum(float(np.finfo(float).tiny))
    masses = graph.op("Squeeze", joined.cast(np.float64) @ weights.unsqueeze(2), graph.constant([2], np.int64))
    mixed = (amount * -1.0 + 1.0) * best + amount * unit * masses.log()
    spread = graph.op("ScatterElements", scores - highest, order, mixed, axis=1)
    return spread - spread.largest(1) + highest


def _voted(
    graph: Graph, boxes: Tensor, classes: Tensor, windows: Tensor, scores: Tensor, rules: Sequence[DetectSettings]
) -> Tensor:
    """Return the boxes (m, 4), moved for classes with a temperature (see `lapsvm.detection.box_voting`)."""
    temperatures = _column(graph, [rule.box_voting or 1.0 for rule in rules])
    votes = _column(graph, [bool(rule.box_voting) for rule in rules])
    least = _column(graph, [rule.box_voting_iou for rule in rules])
    spread = spreads(scores)
    relative = (scores - scores.largest(1)) / positive(spread * temperatures)
    weights = graph.where(spread > 0.0, relative.exp(), graph.constant(1.0))
    shares = weights.gather(classes, 0) * near(boxes, windows, least.gather(classes, 0)).cast(np.float64)
    total = shares.sum(1)
    moved = ((shares @ windows) / positive(total) / PIXEL_FRACTION).round() * PIXEL_FRACTION
    alone = (boxes / PIXEL_FRACTION).round() * PIXEL_FRACTION
    chosen = graph.where(total > 0.0, moved, alone)
    return graph.where(votes.gather(classes, 0).cast(bool), chosen, boxes)


def _probabilities(graph: Graph, scores: Tensor, classes: Tensor, calibrations: Sequence[Calibration | None]) -> Tensor:
    """Return the probability (m,) of each score, float32. NaN for a class without calibration."""
    columns = [calibrated(graph, scores, calibration).unsqueeze(1) for calibration in calibrations]
    table = graph.join(columns, 1)
    return graph.op("GatherElements", table, classes.unsqueeze(1), axis=1).reshape(-1).cast(np.float32)


def calibrated(graph: Graph, scores: Tensor, calibration: Calibration | None) -> Tensor:
    """Return the probabilities (m,) of scores by one map."""
    if calibration is None:
        return scores * 0.0 + float("nan")
    return logistic(graph, scores * calibration.slope + calibration.offset)


def logistic(graph: Graph, logits: Tensor) -> Tensor:
    """Return the probabilities of logits, float64."""
    return graph.constant(1.0) / ((logits.minimum(700.0).maximum(-700.0) * -1.0).exp() + 1.0)


def _column(graph: Graph, values: Sequence[float]) -> Tensor:
    return graph.constant(np.array(values, dtype=np.float64)[:, None])
