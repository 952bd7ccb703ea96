"""The readable twin of compiled non-maximum suppression."""

from collections.abc import Sequence

Box = Sequence[float]


def overlap(a: Box, b: Box) -> float:
    """Return the IoU of two boxes with half-open edges; 0 unless they share a positive area."""
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0 or width * height <= 0:
        return 0.0
    shared = width * height
    return shared / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared)


def nms(boxes: Sequence[Box], scores: Sequence[float], threshold: float = 0.3, limit: int | None = None) -> list[int]:
    """Return the indices of the boxes that stay, best first; see `lapsvm.detection.nms`."""
    kept: list[int] = []
    for i in sorted(range(len(scores)), key=lambda i: (-scores[i], i)):
        if all(overlap(boxes[j], boxes[i]) <= threshold for j in kept):
            kept.append(i)
    return kept[:limit]
