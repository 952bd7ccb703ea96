"""Connected regions of a mask, pixel by pixel."""

from collections.abc import Iterable


def flood(pixels: Iterable[tuple[int, int]]) -> list[set[tuple[int, int]]]:
    """Return the regions of some pixels (row, column), by walking from each pixel to those around it."""
    left, regions = set(pixels), []
    while left:
        todo, region = [left.pop()], set()
        while todo:
            y, x = todo.pop()
            region.add((y, x))
            near = {(y + dy, x + dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)} & left
            left -= near
            todo += near
        regions.append(region)
    return regions
