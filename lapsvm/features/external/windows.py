"""Windows, with or without features, from files of other programs, and the conversion of their boxes."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lapsvm.arrays import Array, Float64
from lapsvm.errors import ExternalFileError, OptionError

ORDERS = ("xyxy", "yxyx", "xywh")
EDGES = ("exclusive", "inclusive")
BOX_NAMES = ("boxes", "bboxes", "rois", "bbs", "proposals")
FEATURE_NAMES = ("features", "feat", "feats")
TRUTH_NAME = "gt"


@dataclass(frozen=True)
class BoxConvention:
    """How a file writes boxes.

    Attributes
    ----------
    order : {"xyxy", "yxyx", "xywh"}, default "xyxy"
        ``x1 y1 x2 y2``, ``y1 x1 y2 x2``, or ``x1 y1 width height``.
    base : {0, 1}, default 0
        The number of the first pixel.
    edges : {"exclusive", "inclusive"}, default "exclusive"
        "inclusive": x2 and y2 are the last pixels of the box; "exclusive": the first ones after it. Widths do not
        depend on it.

    Raises
    ------
    OptionError
        If a value is none of these.
    """

    order: str = "xyxy"
    base: int = 0
    edges: str = "exclusive"

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("order", self.order, ORDERS),
            ("base", self.base, (0, 1)),
            ("edges", self.edges, EDGES),
        ):
            if value not in choices:
                raise OptionError(f"{name} of boxes must be one of {', '.join(map(str, choices))}, got {value!r}.")

    def to_xyxy(self, boxes: Float64) -> Float64:
        """Return boxes (n, 4) as x1, y1, x2, y2, 0-based and half-open."""
        if self.order == "xywh":
            corner = boxes[:, :2] - self.base
            with np.errstate(over="ignore"):  # `as_boxes` refuses infinite boxes
                return np.hstack([corner, corner + boxes[:, 2:]])
        ordered = boxes[:, [1, 0, 3, 2]] if self.order == "yxyx" else boxes
        last = 1 if self.edges == "inclusive" else 0
        return np.asarray(ordered - self.base + [0, 0, last, last])


@dataclass(frozen=True, eq=False)
class ExternalWindows:
    """The windows of one picture in the convention and order of their file.

    Attributes
    ----------
    where : str
        The file and the location in it, for error sentences.
    boxes : ndarray of shape (n, 4), float64
    features : ndarray of shape (n, d), or None
        Floats or whole numbers of any type.
    truth : ndarray of shape (n,), bool
        Rows that the file marks as annotated objects.
    """

    where: str
    boxes: Float64
    features: Array | None
    truth: NDArray[np.bool_]

    @property
    def content_hash(self) -> str:
        """The hash of everything but `where`, 32 hex digits."""
        digest = blake2b(digest_size=16)
        for array in (self.boxes, self.truth, *([] if self.features is None else [self.features])):
            digest.update(f"{array.dtype.str} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        return digest.hexdigest()


@dataclass(frozen=True)
class ExternalSource:
    """A file or folder of another program.

    Attributes
    ----------
    where : str
    keys : tuple of str
        The names of its pictures, in the file's order.
    convention : BoxConvention
        The usual convention of such files.
    has_features : bool
        Whether there are features, not boxes alone.
    load : callable
        (name, whether features are wanted) -> windows of a picture.
    """

    where: str
    keys: tuple[str, ...]
    convention: BoxConvention
    has_features: bool
    load: Callable[[str, bool], ExternalWindows] = field(repr=False)

    def read(self, key: str, features: bool = True) -> ExternalWindows:
        """Return the windows of a picture; without reading its features if `features` is False.

        Raises
        ------
        ExternalFileError
            If the content of the file breaks a rule, or the picture alone lacks features.
        """
        windows = self.load(key, features and self.has_features)
        if features and self.has_features and windows.features is None:
            raise ExternalFileError(f"{windows.where} must hold features as the other pictures do, got boxes alone.")
        return windows


@dataclass(frozen=True)
class ArrayNames:
    """The names of the arrays in a file.

    Attributes
    ----------
    boxes, features : str
        "" selects the first of the usual names in the file.
    """

    boxes: str = ""
    features: str = ""

    def boxes_in(self, names: Iterable[str], where: str) -> str:
        """Return the name of the boxes; ExternalFileError if there is none."""
        present = sorted(names)
        wanted = (self.boxes,) if self.boxes else BOX_NAMES
        for name in wanted:
            if name in present:
                return name
        raise ExternalFileError(
            f"{where} must hold an array named {' or '.join(wanted)}, got {', '.join(present) or 'nothing'}."
        )

    def features_in(self, names: Iterable[str], where: str) -> str | None:
        """Return the name of the features, or None; ExternalFileError if the given one is missing."""
        present = sorted(names)
        for name in (self.features,) if self.features else FEATURE_NAMES:
            if name in present:
                return name
        if self.features:
            raise ExternalFileError(
                f"{where} must hold an array named {self.features}, got {', '.join(present) or 'nothing'}."
            )
        return None


def checked_windows(
    where: str, boxes: ArrayLike, features: ArrayLike | None = None, truth: ArrayLike | None = None
) -> ExternalWindows:
    """Return the windows of one picture after checking the arrays' types and shapes.

    Parameters
    ----------
    where : str
    boxes : array-like of shape (n, 4), or more columns (such as EdgeBoxes' score), of which the first 4 are used
    features : array-like of shape (n, d), optional
    truth : array-like of n flags, optional

    Returns
    -------
    ExternalWindows

    Raises
    ------
    ExternalFileError
        If an array is not numeric, has another shape, or holds NaN or infinity; if there is no box, or if the numbers
        of features or flags and of boxes differ.
    """
    rows = _numbers(where, "boxes", boxes).astype(np.float64)
    if rows.ndim != 2 or rows.shape[1] < 4 or not len(rows):
        raise ExternalFileError(f"{where}: boxes must have shape (n, 4) with n at least 1, got {rows.shape}.")
    rows = rows[:, :4]
    _check_finite(where, "boxes", rows)
    flags = np.zeros(len(rows), dtype=bool) if truth is None else _flags(where, truth, len(rows))
    if features is None:
        return ExternalWindows(where, rows, None, flags)
    values = _numbers(where, "features", features)
    if values.ndim != 2 or not values.shape[1]:
        raise ExternalFileError(f"{where}: features must have shape (n, d) with d at least 1, got {values.shape}.")
    if len(values) != len(rows):
        raise ExternalFileError(
            f"{where}: there must be as many features as boxes, got {len(values)} rows for {len(rows)} boxes."
        )
    _check_finite(where, "features", values)
    return ExternalWindows(where, rows, values, flags)


def _numbers(where: str, what: str, values: ArrayLike) -> Array:
    """Return an array of real numbers."""
    if values is None:
        raise ExternalFileError(f"{where}: {what} must be a table of numbers, got another kind of value.")
    array = _array(where, what, values)
    if array.dtype.kind in "iuf":
        return array
    if array.size:
        raise ExternalFileError(f"{where}: {what} must be a table of numbers, got {array.dtype}.")
    return np.empty(array.shape)


def _array(where: str, what: str, values: ArrayLike) -> Array:
    """Return values as an array of any type."""
    try:
        return np.asarray(values)
    except (ValueError, OverflowError, RecursionError):
        raise ExternalFileError(f"{where}: {what} must be a table of numbers, got rows of different lengths.") from None


def _check_finite(where: str, what: str, array: Array) -> None:
    """Raise ExternalFileError, with the first row and column, unless all values are finite."""
    finite = np.isfinite(array)
    if not finite.all():
        row, column = (int(i) for i in np.unravel_index(int(np.argmin(finite)), array.shape))
        raise ExternalFileError(
            f"{where}: {what} must be finite, got {array[row, column]} in row {row}, column {column}."
        )


def _flags(where: str, truth: ArrayLike, count: int) -> NDArray[np.bool_]:
    """Return one flag per row; an empty array, as some caches hold, flags nothing."""
    values = _array(where, TRUTH_NAME, truth).ravel()
    if not values.size:
        return np.zeros(count, dtype=bool)
    if len(values) != count or values.dtype.kind not in "biuf":
        raise ExternalFileError(
            f"{where}: {TRUTH_NAME} must have one flag per box, got {len(values)} of {values.dtype} for {count} boxes."
        )
    return np.asarray(values != 0)
