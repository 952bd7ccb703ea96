"""Regions of a map and the objectness of windows in plain Python, by flood fill and by definition."""

THRESHOLDS = (0.3, 0.5, 0.7)
NEIGHBOURS = [(dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if dy or dx]


def component(start, left):
    """Remove a component from the set `left` of cells and return it, as a list."""
    waiting, found = [start], []
    left.discard(start)
    while waiting:
        y, x = waiting.pop()
        found.append((y, x))
        near = {(y + dy, x + dx) for dy, dx in NEIGHBOURS} & left
        left -= near
        waiting += near
    return found


def box_of(cells):
    """Return the box of some cells."""
    ys, xs = zip(*cells, strict=True)
    return min(xs), min(ys), max(xs) + 1, max(ys) + 1


def object_regions(rows):
    """Return the regions of a map, a list of rows of float32 numbers, as a sorted list of boxes."""
    boxes, n_cells = set(), len(rows) * len(rows[0])
    for threshold in THRESHOLDS:
        above = {(y, x) for y, row in enumerate(rows) for x, value in enumerate(row) if value >= type(value)(threshold)}
        while above:
            cells = component(min(above), above)
            if len(cells) * 320**2 >= 60 * n_cells:
                boxes.add(box_of(cells))
    return sorted(boxes)


def iou(a, b):
    """Return the intersection over union of two boxes, 0 where one is empty or inverted."""
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return width * height / (sum(areas) - width * height)


def window_objectness(boxes, regions):
    """Return the largest overlap of each window."""
    return [max([iou(box, region) for region in regions], default=0.0) for box in boxes]
