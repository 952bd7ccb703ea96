"""The decision on a picture inside an ONNX graph: ok, a class, or unlike good pictures.

The rules are those of `lapsvm.inspection.threshold` and `lapsvm.objectness.good_pictures`.
"""

from collections.abc import Sequence
from functools import reduce
from operator import add

import numpy as np
from numpy.typing import NDArray

from lapsvm.detection.detector import Detector
from lapsvm.detection.onnx_file.choosing import calibrated, logistic
from lapsvm.detection.onnx_file.graph import Graph, Tensor
from lapsvm.inspection.decision import UNKNOWN, Decision
from lapsvm.inspection.threshold import AlarmThreshold
from lapsvm.objectness.good_pictures import AROUND, LEAST_LENGTH, TOP, GoodPictures
from lapsvm.pictures.nothing import FLAT

OK_NUMBER, UNKNOWN_NUMBER = 0, -1
PROBABILITY, DISTANCE = "threshold", "unknown_distance"
"""The names of the two thresholds, in the graph and in the metadata."""
RULE = "k > 0: the k-th of the classes, the most probable one, if its probability is at least the threshold"
UNKNOWN_RULE = "-1, unknown: no class, and at least the distance to good pictures that is unknown_distance"
NEVER_UNKNOWN = "never -1, unknown, as the run's threshold has no memory of good pictures"


def decision_number(decision: Decision, classes: Sequence[str]) -> int:
    """Return the number that a file gives for a decision."""
    if decision.is_ok:
        return OK_NUMBER
    return UNKNOWN_NUMBER if decision.class_name == UNKNOWN else classes.index(decision.name) + 1


def class_probabilities(
    graph: Graph, alarm: AlarmThreshold, detectors: Sequence[Detector], scores: Tensor, by_models: Tensor | None
) -> Tensor:
    """Return the probability of each class in a picture, float64 (k,); 0 for one without a calibration.

    `scores` (k, n) are those of its windows, `by_models` (n, p) those by the picture models.
    """
    best, columns = scores.largest(1), []
    means = None if by_models is None else by_models.sum(0) / by_models.size(0).cast(np.float64)
    pictured = [detector.class_name for detector in detectors if detector.class_name in alarm.pictures]
    for number, detector in enumerate(detectors):
        highest = best.slice(number, number + 1, 0).reshape(1)
        model = alarm.pictures.get(detector.class_name)
        if detector.calibration is None:
            columns.append(highest * 0.0)
        elif model is None or means is None:
            columns.append(calibrated(graph, highest, detector.calibration))
        else:
            mean = means.column(pictured.index(detector.class_name)).reshape(1)
            columns.append(logistic(graph, highest * model.slope + mean + model.offset))
    return graph.join(columns, 0)


def decide(
    graph: Graph, alarm: AlarmThreshold, probabilities: Tensor, shows: Tensor, distance: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return the decision, int64 (1,), and the highest probability, float32 (1,).

    `shows`, bool (1,), is False for a picture whose probabilities are all 0; `distance`, float64 (1,), is that to good
    pictures, if they are known.
    """
    shown = probabilities * shows.cast(np.float64)
    highest, index = graph.ops("TopK", (np.float64, np.int64), shown, graph.constant([1], np.int64), axis=0)
    other = index * OK_NUMBER
    if distance is not None and alarm.unlike is not None:
        other = graph.where(distance < graph.named(DISTANCE, alarm.unlike.distance), other, UNKNOWN_NUMBER)
    least = graph.named(PROBABILITY, alarm.probability)
    return graph.where(highest < least, other, index + 1), highest.cast(np.float32)


def is_varied(graph: Graph, planes: Tensor) -> Tensor:
    """Return whether a picture (3, h, w) is not of one colour, bool (1,)."""
    sides = graph.constant([1, 2], np.int64)
    spread = graph.op("ReduceMax", planes, sides, keepdims=0) - graph.op("ReduceMin", planes, sides, keepdims=0)
    return spread.largest(0) > float(FLAT)


def distance_to_good(graph: Graph, good: GoodPictures, feature_map: Tensor) -> tuple[Tensor, Tensor]:
    """Return the distance of a picture to good ones, float64 (1,), and that of its parts, float32 (rows, columns).

    `feature_map` (1, channels, rows, columns) is that of the picture.
    """
    means = _averaged(feature_map)
    deviations = (_averaged(feature_map * feature_map) - means * means).maximum(0.0).sqrt()
    means, deviations = (_rows(values, len(good.centre)) for values in (means, deviations))
    axes = graph.constant(good.axes)
    looks = _nearest(_unit(graph.join([means, deviations], 1)) @ axes, good.looks)
    centred = _unit(means - graph.constant(good.centre))
    differences = _nearest(centred @ axes.slice(0, len(good.centre), 0), good.differences)
    values = looks * differences * differences
    count = (values.size(0).cast(np.float64) * TOP).floor().maximum(1.0)
    top, _ = graph.ops("TopK", (np.float32, np.int64), values, count.cast(np.int64).reshape(1), axis=0)
    sides = graph.join([feature_map.size(axis).reshape(1) for axis in (2, 3)], 0)
    return top.cast(np.float64).sum(0) / count, graph.op("Reshape", values, sides)


def _averaged(cells: Tensor) -> Tensor:
    """Return means over the neighbourhoods of cells (1, channels, rows, columns), mirrored at the border."""
    sums = cells.cast(np.float64)
    for axis in (2, 3):
        padded = sums.gather(_mirrored(sums.size(axis)), axis)
        ends = [first + 1 - AROUND or None for first in range(AROUND)]
        sums = reduce(add, [padded.slice(first, end, axis) for first, end in enumerate(ends)])
    return (sums * (1 / AROUND**2)).cast(np.float32)


def _mirrored(length: Tensor) -> Tensor:
    """Return the indices of an axis with those that mirror its ends without repeating them, int64."""
    graph, more = length.graph, AROUND // 2
    steps = graph.op("Abs", graph.count(length + 2 * more) - more)
    period = ((length - 1) * 2).maximum(1)
    inside = graph.op("Mod", steps, period)
    return inside.minimum(period - inside)


def _rows(cells: Tensor, channels: int) -> Tensor:
    return cells.transposed(0, 2, 3, 1).reshape(-1, channels)


def _unit(rows: Tensor) -> Tensor:
    """Return rows divided by their lengths, float32."""
    values = rows.cast(np.float64)
    return (values / (values * values).sum(1).sqrt().maximum(LEAST_LENGTH)).cast(np.float32)


def _nearest(rows: Tensor, memory: NDArray[np.float16]) -> Tensor:
    """Return the distance of each row to the nearest one of a memory, float32 (n,)."""
    graph, stored = rows.graph, memory.astype(np.float32)
    columns = graph.constant(np.ascontiguousarray(memory.T)).cast(np.float32)
    squares = graph.constant((stored * stored).sum(axis=1)) - (rows @ columns) * 2.0
    nearest = graph.op("ReduceMin", squares, graph.constant([1], np.int64), keepdims=1) + (rows * rows).sum(1)
    return nearest.maximum(0.0).sqrt().reshape(-1)
