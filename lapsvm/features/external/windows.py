"""Windows, with or without features, from files of other programs, and the conversion of their boxes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lapsvm.arrays import Array, Float64, as_array, as_numbers, check_choice, check_finite, check_same_length
from lapsvm.errors import ExternalFileError, InputError, ShapeError

ORDERS = ("xyxy", "yxyx", "xywh")
EDGES = ("exclusive", "inclusive")
BOX_NAMES = ("boxes", "bboxes", "rois", "bbs", "proposals")
FEATURE_NAMES = ("features", "feat", "feats")
TRUTH_NAME = "gt"
OBJECTNESS_NAME = "objectness"


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
        for name, choices in (("order", ORDERS), ("base", (0, 1)), ("edges", EDGES)):
            check_choice(f"{name} of boxes", getattr(self, name), choices)

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
    objectness : ndarray of shape (n,), float64, from 0 to 1, or None
        How much each window stands out.
    """

    where: str
    boxes: Float64
    features: Array | None
    truth: NDArray[np.bool_]
    objectness: Float64 | None = None

    @property
    def content_hash(self) -> str:
        """The hash of everything but `where`, 32 hex digits."""
        digest = blake2b(digest_size=16)
        optional = [array for array in (self.features, self.objectness) if array is not None]
        for array in (self.boxes, self.truth, *optional):
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
        (name, whether features and objectness are wanted) -> windows of a picture.
    """

    where: str
    keys: tuple[str, ...]
    convention: BoxConvention
    has_features: bool
    load: Callable[[str, bool], ExternalWindows] = field(repr=False)

    def read(self, key: str, features: bool = True) -> ExternalWindows:
        """Return the windows of a picture; without reading its features and objectness if `features` is False.

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
    boxes, features, objectness : str
        "" selects the first of the usual names in the file.
    """

    boxes: str = ""
    features: str = ""
    objectness: str = ""

    @property
    def box_names(self) -> tuple[str, ...]:
        """The names that the boxes may have."""
        return (self.boxes,) if self.boxes else BOX_NAMES

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names that the features may have."""
        return (self.features,) if self.features else FEATURE_NAMES

    def boxes_in(self, names: Iterable[str], where: str) -> str:
        """Return the name of the boxes. Raises ExternalFileError if there is none."""
        return _found(self.box_names, names, where)

    def features_in(self, names: Iterable[str], where: str) -> str | None:
        """Return the name of the features, or None. Raises ExternalFileError if the given one is missing."""
        if not self.features and not set(FEATURE_NAMES).intersection(names):
            return None
        return _found(self.feature_names, names, where)

    def objectness_in(self, names: Iterable[str], where: str) -> str | None:
        """Return the name of the objectness, or None. Raises ExternalFileError if the given one is missing."""
        if not self.objectness and OBJECTNESS_NAME not in names:
            return None
        return _found((self.objectness or OBJECTNESS_NAME,), names, where)

    def windows(self, where: str, arrays: Mapping[str, Any], features: bool) -> ExternalWindows:
        """Return the windows of one picture's arrays, checked; with features and objectness only if `features`."""
        boxes = arrays[self.boxes_in(arrays, where)]
        names = (self.features_in(arrays, where), self.objectness_in(arrays, where)) if features else (None, None)
        values, shares = (None if name is None else arrays[name] for name in names)
        return checked_windows(where, boxes, values, arrays.get(TRUTH_NAME), shares)


def _found(wanted: Sequence[str], names: Iterable[str], where: str) -> str:
    """Return the first of the wanted names that is there. Raises ExternalFileError if none is."""
    present = sorted(names)
    for name in wanted:
        if name in present:
            return name
    raise ExternalFileError(
        f"{where} must hold an array named {' or '.join(wanted)}, got {', '.join(present) or 'nothing'}."
    )


def checked_windows(
    where: str,
    boxes: ArrayLike,
    features: ArrayLike | None = None,
    truth: ArrayLike | None = None,
    objectness: ArrayLike | None = None,
) -> ExternalWindows:
    """Return the windows of one picture after checking the arrays' types and shapes.

    Parameters
    ----------
    where : str
    boxes : array-like of shape (n, 4), or more columns (such as EdgeBoxes' score), of which the first 4 are used
    features : array-like of shape (n, d), optional
    truth : array-like of n flags, optional
    objectness : array-like of n numbers from 0 to 1, optional
        None if it is empty.

    Returns
    -------
    ExternalWindows

    Raises
    ------
    ExternalFileError
        If an array is not numeric, has another shape, or holds NaN or infinity; if there is no box, or if the numbers
        of features, flags or objectness and of boxes differ; if an objectness is below 0 or above 1.
    """
    try:
        rows = _table("boxes", boxes, 4, "(n, 4) with n at least 1")[:, :4].astype(np.float64)
        check_finite("boxes", rows)
        values = None if features is None else _table("features", features, 1, "(n, d) with d at least 1")
        if values is not None:
            check_same_length("features", values, "boxes", rows)
            check_finite("features", values)
        return ExternalWindows(where, rows, values, _flags(truth, len(rows)), _shares(objectness, len(rows)))
    except InputError as error:
        raise ExternalFileError(f"{where}: {error}") from None


def _table(name: str, values: ArrayLike, columns: int, shape: str) -> Array:
    """Return rows of real numbers, one or more, with at least as many columns; `shape` is for the message."""
    array = as_array(name, values, "a table of numbers")
    if array.size and array.dtype.kind not in "iuf":
        raise InputError(f"{name} must be a table of numbers, got {array.dtype}.")
    if array.ndim != 2 or array.shape[1] < columns or not len(array):
        raise ShapeError(f"{name} must have shape {shape}, got {array.shape}.")
    return array


def _shares(objectness: ArrayLike | None, count: int) -> Float64 | None:
    """Return one number from 0 to 1 per row. None for an empty array."""
    values = as_numbers(OBJECTNESS_NAME, () if objectness is None else objectness).ravel()
    if not values.size:
        return None
    if len(values) != count:
        raise InputError(f"{OBJECTNESS_NAME} must have one number per box, got {len(values)} for {count} boxes.")
    wrong = values[~((values >= 0) & (values <= 1))]
    if len(wrong):
        raise InputError(f"{OBJECTNESS_NAME} must be from 0 to 1, got {wrong[0]:g}.")
    return values


def _flags(truth: ArrayLike | None, count: int) -> NDArray[np.bool_]:
    """Return one flag per row; an empty array, as some caches hold, flags nothing."""
    values = as_array(TRUTH_NAME, () if truth is None else truth).ravel()
    if not values.size:
        return np.zeros(count, dtype=bool)
    if len(values) != count or values.dtype.kind not in "biuf":
        raise InputError(
            f"{TRUTH_NAME} must have one flag per box, got {len(values)} of {values.dtype} for {count} boxes."
        )
    return np.asarray(values != 0)
