"""A slow, readable twin of `pseudo_labels`, window by window and class by class, as the paper writes it down."""

from collections.abc import Sequence


def pseudo_labels(
    scores: Sequence[Sequence[float]],
    labels: Sequence[float],
    boxes: Sequence[Sequence[float]],
    min_iou: float = 0.5,
) -> tuple[list[int], list[float]]:
    """Return the class (k is the background) and the weight of each window of one picture."""
    n, k = len(scores), len(labels)
    positive = [c for c in range(k) if labels[c] > 0]
    if not positive:
        return [k] * n, [1.0 if all(label < 0 for label in labels) else 0.0] * n
    classes, weights = [k] * n, [0.0] * n
    largest = [-float("inf")] * n
    for c in positive:
        top = 0
        for r in range(n):
            if scores[r][c] > scores[top][c]:
                top = r
        for r in range(n):
            overlap = _iou(boxes[r], boxes[top])
            if overlap > largest[r]:
                largest[r] = overlap
                weights[r] = float(scores[top][c])
                classes[r] = c if overlap > min_iou else k
    return classes, weights


def _iou(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the intersection over union of two boxes x1, y1, x2, y2."""
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    if width <= 0 or height <= 0:
        return 0.0
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (first, second)]
    return width * height / (sum(areas) - width * height)
