"""Where in a picture a class scores: the scores of its windows, spread over the pixels."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Float32, Float64, Index, as_whole_numbers, check_count
from lapsvm.boxes import areas
from lapsvm.detection.picture_scores import SMOOTHING_UNIT
from lapsvm.detection.suppression import scored_boxes
from lapsvm.errors import InputError, ShapeError
from lapsvm.inspection.calibration import Calibration

LARGEST = 1e38  # the map is float32
_TOTAL = 2**61  # the greatest sum of all windows' masses, whole numbers of 64 bits


@dataclass(frozen=True, eq=False)
class ScoreMap:
    """The score of one class at every pixel of a picture.

    Attributes
    ----------
    values : ndarray of shape (h, w), float32
        Probabilities, whose scale is 0 to 1 in every picture, or scores.
    is_probability : bool
        Whether they are probabilities: where the class's model has a calibration.
    """

    values: Float32
    is_probability: bool

    @property
    def unit(self) -> str:
        """What the values are: "probability" or "score"."""
        return "probability" if self.is_probability else "score"

    @property
    def scale(self) -> tuple[float, float]:
        """The values of the darkest and the lightest colour: 0 and 1 of probabilities, else the map's own limits."""
        return (0.0, 1.0) if self.is_probability else (float(self.values.min()), float(self.values.max()))


def score_map(
    boxes: ArrayLike, scores: ArrayLike, shape: tuple[int, int], calibration: Calibration | None = None
) -> ScoreMap:
    """Return the score of every pixel: a soft maximum over the windows that contain it, small ones first.

    A window of score s has the mass exp(s / t), spread evenly over its pixels; t is half the standard deviation of the
    picture's scores. A pixel's density is the sum over the windows that contain it. Its score is best + t log(density /
    largest density), but at least the lowest score. So the largest value of the map is the picture's best score, in the
    pixels where most of the mass lies. Pixels of no window have the lowest score, as have those whose density vanishes
    beside the largest in 64 bits. The map follows when all scores are multiplied or shifted.

    Parameters
    ----------
    boxes : array-like of shape (n, 4)
        The picture's windows. Those that contain the centre of no pixel take no part.
    scores : array-like of shape (n,)
    shape : tuple of 2 int
        Height and width of the picture.
    calibration : Calibration, optional
        Turns scores into probabilities: of a pixel, that of a picture whose best window has the pixel's score.

    Returns
    -------
    ScoreMap

    Raises
    ------
    ShapeError, NotFiniteError
        If shapes do not fit, or a number is NaN or infinite.
    InputError
        If no window contains a pixel, a score is beyond 1e38 or -1e38, or the shape is not two numbers of at least 1.
    """
    windows, values = scored_boxes(boxes, scores)
    size = _checked_size(shape)
    beyond = values[np.abs(values) > LARGEST]
    if len(beyond):
        raise InputError(f"scores must lie between -1e38 and 1e38, got {beyond[0]:g}.")
    ranges = _pixel_ranges(windows, size)
    inside = areas(ranges) > 0
    if not inside.any():
        raise InputError(f"a score map must have a window that contains a pixel, got none of {len(windows)}.")
    return _spread(ranges[inside], values[inside], size, calibration)


def _checked_size(shape: tuple[int, int]) -> tuple[int, int]:
    """Return height and width if these are two numbers of at least 1."""
    sides = as_whole_numbers("shape", shape).tolist()
    if len(sides) != 2:
        raise ShapeError(f"shape must be height and width, got {len(sides)} numbers.")
    return check_count("the height of a score map", sides[0]), check_count("the width of a score map", sides[1])


def _pixel_ranges(windows: Float64, size: tuple[int, int]) -> Index:
    """Return the pixels whose centres each window contains, (n, 4): first column and row, and those after the last."""
    height, width = size
    return np.clip(np.ceil(windows - 0.5), 0, [width, height, width, height]).astype(np.intp)


def _spread(ranges: Index, scores: Float64, size: tuple[int, int], calibration: Calibration | None) -> ScoreMap:
    """Return the map of windows that contain pixels.

    It is computed for the cells between the windows' edges, of which a large picture has fewer than pixels.
    """
    columns = np.unique(np.append(ranges[:, ::2], [0, size[1]]))
    rows = np.unique(np.append(ranges[:, 1::2], [0, size[0]]))
    cells = _cell_scores(ranges, scores, columns, rows)
    if calibration is not None:
        cells = calibration.probability(cells.ravel()).reshape(cells.shape)
    in_rows = np.repeat(cells.astype(np.float32), np.diff(rows), axis=0)
    return ScoreMap(np.repeat(in_rows, np.diff(columns), axis=1), calibration is not None)


def _cell_scores(ranges: Index, scores: Float64, columns: Index, rows: Index) -> Float64:
    """Return the score of every cell between the edges, (rows - 1, columns - 1)."""
    best, temperature = scores.max(), SMOOTHING_UNIT * float(scores.std())
    if temperature == 0:
        return np.full((len(rows) - 1, len(columns) - 1), best)
    logs = (scores - best) / temperature - np.log(areas(ranges))
    corners = [np.searchsorted(edges, ranges[:, side]) for side, edges in enumerate((columns, rows, columns, rows))]
    densities = _densities(np.exp(logs - logs.max()), np.stack(corners), (len(rows), len(columns)))
    with np.errstate(divide="ignore"):  # cells of no window get the lowest score
        return np.asarray(np.maximum(best + temperature * np.log(densities / densities.max()), scores.min()))


def _densities(weights: Float64, corners: Index, shape: tuple[int, int]) -> Index:
    """Return the sum of the weights of the windows that contain each cell, in a unit of its own.

    Weights (n,) are at most 1; corners (4, n) are numbers of edges, of which there are `shape`. The sums are of whole
    numbers: sums of differences of floats would leave the rounding of large ones where there are small ones alone.
    """
    masses = np.rint(weights * (_TOTAL // len(weights))).astype(np.int64)
    left, top, right, bottom = corners
    steps = np.zeros(shape, np.int64)
    for row, column, sign in ((top, left, 1), (top, right, -1), (bottom, left, -1), (bottom, right, 1)):
        np.add.at(steps, (row, column), sign * masses)
    return np.asarray(steps.cumsum(axis=0).cumsum(axis=1)[:-1, :-1])
