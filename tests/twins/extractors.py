"""Slow, readable twins of what the extractors do fast, written from the definitions alone."""

from collections.abc import Sequence

import numpy as np

from lapsvm.arrays import Array, Float64


def overlaps(low: float, high: float, size: int) -> Float64:
    """Return how much of each of `size` cells of width 1 the stretch from `low` to `high` covers."""
    return np.array([max(0.0, min(high, cell + 1.0) - max(low, float(cell))) for cell in range(size)])


def pool(feature_map: Array, window: Sequence[float] | Array) -> Float64:
    """Return the mean of a piecewise-constant map over a window, channel by channel, float64 of shape (channels,).

    Parameters
    ----------
    feature_map : ndarray of shape (channels, rows, columns)
    window : sequence of 4 numbers
        x1, y1, x2, y2 in cells of the map. Without area: zeros.
    """
    channels, rows, columns = feature_map.shape
    x1, y1, x2, y2 = (float(value) for value in window)
    total, area = np.zeros(channels), max(x2 - x1, 0.0) * max(y2 - y1, 0.0)
    for row, height in enumerate(overlaps(y1, y2, rows)):
        for column, width in enumerate(overlaps(x1, x2, columns)):
            total += feature_map[:, row, column].astype(np.float64) * (height * width)
    return total / area if area > 0 else total


def ring(
    feature_map: Array, window: Sequence[float], enlarged: float = 1.8, full: float = 0.5
) -> tuple[Float64, float]:
    """Return the mean of a map over a window's surroundings, and their weight (see `pooling.pool_rings`)."""
    _, rows, columns = feature_map.shape
    x1, y1, x2, y2 = (float(value) for value in window)
    x, y, half_width, half_height = (x1 + x2) / 2, (y1 + y2) / 2, enlarged * (x2 - x1) / 2, enlarged * (y2 - y1) / 2
    outer = [max(x - half_width, 0), max(y - half_height, 0), min(x + half_width, columns), min(y + half_height, rows)]
    outer_area, area = (outer[2] - outer[0]) * (outer[3] - outer[1]), (x2 - x1) * (y2 - y1)
    if outer_area <= area:
        return np.zeros(len(feature_map)), 0.0
    total = pool(feature_map, outer) * outer_area - pool(feature_map, window) * area
    return total / (outer_area - area), min(1.0, (outer_area - area) / (full * outer_area))


def hog(grey: Float64, window: Array, *, size: int, cell: int, bins: int, floor: float, clip: float) -> Float64:
    """Return the histograms of oriented gradients of one window, float64 (see `lapsvm.features.extractors.hog`)."""
    histograms = _cell_histograms(_warp(grey, window, size), cell, bins)
    blocks = [
        _normalise(histograms[y : y + 2, x : x + 2].reshape(-1), floor, clip)
        for y in range(size // cell - 1)
        for x in range(size // cell - 1)
    ]
    return np.concatenate(blocks)


def _warp(grey: Float64, window: Array, size: int) -> Float64:
    """Return the square: means over stretches of at least one pixel of the picture."""
    x1, y1, x2, y2 = (float(value) for value in window)
    return _means(y1, y2, grey.shape[0], size) @ grey @ _means(x1, x2, grey.shape[1], size).T


def _means(low: float, high: float, limit: int, size: int) -> Float64:
    """Return the weights of the picture's pixels in each pixel of the square, (size, limit); rows sum to 1."""
    step = (high - low) / size
    rows = []
    for index in range(size):
        centre, half = low + (index + 0.5) * step, max(step, 1.0) / 2
        weights = overlaps(centre - half, centre + half, limit)
        rows.append(weights / weights.sum())
    return np.array(rows)


def _cell_histograms(square: Float64, cell: int, bins: int) -> Float64:
    """Return the histograms of the cells, (cells, cells, bins)."""
    cells = len(square) // cell
    bordered = np.pad(square, 1, mode="edge")
    across, down = bordered[1:-1, 2:] - bordered[1:-1, :-2], bordered[2:, 1:-1] - bordered[:-2, 1:-1]
    histograms = np.zeros((cells, cells, bins))
    for (y, x), length in np.ndenumerate(np.hypot(across, down)):
        place = np.arctan2(down[y, x], across[y, x]) % np.pi / np.pi * bins - 0.5
        for row, in_row in _neighbours((y + 0.5) / cell - 0.5):
            for column, in_column in _neighbours((x + 0.5) / cell - 0.5):
                for angle, in_angle in _neighbours(float(place)):
                    if 0 <= row < cells and 0 <= column < cells:
                        histograms[row, column, angle % bins] += length * in_row * in_column * in_angle
    return histograms


def _neighbours(place: float) -> list[tuple[int, float]]:
    """Return the two whole numbers around a place, each with its share."""
    below = int(np.floor(place))
    return [(below, 1 - (place - below)), (below + 1, place - below)]


def _normalise(block: Float64, floor: float, clip: float) -> Float64:
    """Return a block divided by its norm (the floor is part of it), clipped, and as long again as before clipping."""
    short = block / np.sqrt(block @ block + floor**2)
    clipped = np.minimum(short, clip)
    clipped_length = float(np.linalg.norm(clipped))
    return np.asarray(clipped * (float(np.linalg.norm(short)) / clipped_length if clipped_length else 0.0))


def letterboxed(picture: Array, cell: int, rows: int, columns: int) -> tuple[Float64, tuple[int, int]]:
    """Return a picture as a network of fixed size sees it, and the number of rows and columns of its map that show it.

    Parameters
    ----------
    picture : ndarray of shape (h, w, channels)
        With the mean taken away: 0 is what surrounds it.
    cell : int
        Side of a cell of the map in pixels of the input.
    rows, columns : int
        Of the map.

    Returns
    -------
    seen : ndarray of shape (cell * rows, cell * columns, channels), float64
    shown : tuple of 2 ints
    """
    height, width, channels = picture.shape
    seen = np.zeros((cell * rows, cell * columns, channels))
    enlarged = min(cell * rows / height, cell * columns / width)
    shown_rows = max(1, round(height * enlarged / cell))
    shown_columns = max(1, round(width * enlarged / cell))
    down, across = (
        _means(0.0, float(side), side, cell * cells) for side, cells in ((height, shown_rows), (width, shown_columns))
    )
    for channel in range(channels):
        seen[: cell * shown_rows, : cell * shown_columns, channel] = down @ picture[:, :, channel] @ across.T
    return seen, (shown_rows, shown_columns)


def warped_window(pixels: Array, box: Sequence[float] | Array, size: int, context: int, mean: Array) -> Float64:
    """Return a window (size, size, 3) warped with its context, the pixels outside of the picture filled with `mean`.

    Between centres of pixels the picture is bilinear, beyond the outermost ones constant.
    """
    height, width = pixels.shape[:2]
    x1, y1, x2, y2 = (float(value) for value in box)
    own = size - 2 * context
    square = np.empty((size, size, 3))
    for row in range(size):
        for column in range(size):
            # own pixels cover the box evenly; `context` more lie on each side of it
            x = x1 + (column + 0.5 - context) * (x2 - x1) / own
            y = y1 + (row + 0.5 - context) * (y2 - y1) / own
            is_inside = 0 <= x < width and 0 <= y < height
            square[row, column] = bilinear(pixels, x, y) if is_inside else mean
    return square


def bilinear(pixels: Array, x: float, y: float) -> Float64:
    """Return the colour of a picture at a place, where the first pixel's centre is at (0.5, 0.5)."""
    height, width = pixels.shape[:2]
    x, y = min(max(x - 0.5, 0.0), width - 1.0), min(max(y - 0.5, 0.0), height - 1.0)
    colour = np.zeros(3)
    for row in range(int(y), min(int(y) + 2, height)):
        for column in range(int(x), min(int(x) + 2, width)):
            colour += pixels[row, column] * (max(0.0, 1 - abs(column - x)) * max(0.0, 1 - abs(row - y)))
    return colour
