"""What every extractor does first: check a picture and its windows."""

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Array, Float64, check_finite
from lapsvm.boxes import as_boxes
from lapsvm.errors import InputError, ShapeError

_LUMA = np.array([299, 587, 114], dtype=np.uint32)


def check_pixels(pixels: Array) -> None:
    """Raise unless `pixels` is a picture.

    Raises
    ------
    ShapeError
        If it is not (h, w, 3) with at least one pixel.
    InputError
        If it is not uint8.
    """
    shape = np.shape(pixels)
    if len(shape) != 3 or shape[2] != 3 or 0 in shape:
        raise ShapeError(f"a picture must have shape (height, width, 3) with at least one pixel, got {shape}.")
    if pixels.dtype != np.uint8:
        raise InputError(f"a picture must be uint8, got {pixels.dtype}.")


def clip_boxes(boxes: ArrayLike, height: int, width: int) -> Float64:
    """Return boxes cut to a picture, float64 of shape (n, 4); one without area inside becomes 0, 0, 0, 0.

    Raises
    ------
    ShapeError
        If the shape is not (n, 4).
    NotFiniteError
        If one is NaN or infinite.
    """
    array = as_boxes(boxes)
    check_finite("boxes", array)
    clipped = np.clip(array, 0.0, np.array([width, height, width, height], dtype=np.float64))
    empty = (clipped[:, 2:] <= clipped[:, :2]).any(axis=1)
    clipped[empty] = 0.0
    return clipped


def grey_levels(pixels: Array) -> Float64:
    """Return the luma of a picture (Rec. 601: .299 R + .587 G + .114 B), float64 in 0..255, to 1/1000."""
    return np.asarray((pixels @ _LUMA) / 1000.0)


def l2_normalise(features: Array) -> Array:
    """Return rows divided by their length; a row of zeros stays zero."""
    lengths = np.sqrt(np.einsum("ij,ij->i", features, features, dtype=np.float64))
    inverse = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return np.asarray(features * inverse[:, None].astype(features.dtype))
