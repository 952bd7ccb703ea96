"""Slow, readable twins of non-maximum suppression, box voting, score smoothing and score maps."""

import math
import statistics
from collections.abc import Sequence

from lapsvm.errors import InputError

Box = Sequence[float]


def overlap(a: Box, b: Box) -> float:
    """Return the IoU of two boxes with half-open edges; 0 unless they share a positive area."""
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0 or width * height <= 0:
        return 0.0
    shared = width * height
    return shared / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared)


def nms(boxes: Sequence[Box], scores: Sequence[float], threshold: float = 0.3, limit: int | None = None) -> list[int]:
    """Return the indices of the kept boxes, best first; see `lapsvm.detection.nms`."""
    kept: list[int] = []
    for i in sorted(range(len(scores)), key=lambda i: (-scores[i], i)):
        if all(overlap(boxes[j], boxes[i]) <= threshold for j in kept):
            kept.append(i)
    return kept[:limit]


def box_voting(
    detections: Sequence[Box],
    boxes: Sequence[Box],
    scores: Sequence[float],
    temperature: float = 0.7,
    min_iou: float = 0.45,
) -> list[list[float]]:
    """Return the detections, each moved to the mean of the overlapping windows; see `lapsvm.detection.box_voting`."""
    spread = statistics.pstdev(scores) if scores else 0.0
    weights = [math.exp((score - max(scores)) / (temperature * spread)) if spread else 1.0 for score in scores]
    means = []
    for box in detections:
        overlapping = [
            (weight, other) for weight, other in zip(weights, boxes, strict=True) if overlap(box, other) >= min_iou
        ]
        total = sum(weight for weight, _ in overlapping)
        sides = [sum(weight * other[side] for weight, other in overlapping) for side in range(4)]
        means.append([side / total for side in sides] if total > 0 else [float(side) for side in box])
    return means


def smooth_scores(boxes: Sequence[Box], scores: Sequence[float], amount: float = 0.5) -> list[float]:
    """Return smoothed scores; see `lapsvm.detection.smooth_scores`."""
    for score in scores:
        if abs(score) > 1e150:
            raise InputError(f"scores must lie between -1e150 and 1e150, got {score:g}.")
    unit = 0.5 * statistics.pstdev(scores) if scores else 0.0
    if not unit:
        return list(scores)
    top, smoothed = max(scores), [float(score) for score in scores]
    best = sorted(range(len(scores)), key=lambda i: (-scores[i], i))[:200]
    for i in best:
        mass = sum(math.exp((scores[j] - top) / unit) for j in best if j == i or overlap(boxes[i], boxes[j]) >= 0.7)
        smoothed[i] = (1 - amount) * scores[i] + amount * (top + unit * math.log(max(mass, 1e-300)))
    highest = max(smoothed)
    return [score - highest + top for score in smoothed]


def score_map(boxes: Sequence[Box], scores: Sequence[float], shape: tuple[int, int]) -> list[list[float]]:
    """Return the score of every pixel, row by row; see `lapsvm.detection.score_map`."""
    height, width = shape
    pixels = [[(y, x) for y in range(height) for x in range(width) if contains(box, y, x)] for box in boxes]
    taking_part = [(score, inside) for score, inside in zip(scores, pixels, strict=True) if inside]
    values = [score for score, _ in taking_part]
    best, lowest, temperature = max(values), min(values), 0.5 * statistics.pstdev(values)
    if not temperature:
        return [[best] * width for _ in range(height)]
    densities = [[0.0] * width for _ in range(height)]
    for score, inside in taking_part:
        for y, x in inside:
            densities[y][x] += math.exp((score - best) / temperature) / len(inside)
    largest = max(map(max, densities))
    return [
        [max(lowest, best + temperature * math.log(density / largest)) if density else lowest for density in row]
        for row in densities
    ]


def contains(box: Box, y: int, x: int) -> bool:
    """Return whether the centre of a pixel lies in a box."""
    return box[0] <= x + 0.5 < box[2] and box[1] <= y + 0.5 < box[3]
