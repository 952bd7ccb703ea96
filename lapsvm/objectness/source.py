"""The protocol of sources of objectness, and the objectness of a picture's windows."""

from typing import Any, Protocol, runtime_checkable

from numpy.typing import ArrayLike

from lapsvm.arrays import Array, Float32, Float64
from lapsvm.catalog import check_pixels
from lapsvm.objectness.regions import window_objectness


@runtime_checkable
class ObjectnessSource(Protocol):
    """Finds the regions of a picture that stand out, whatever their class; thread-safe.

    A source that computes a map has a method ``map(pixels)`` too. It returns float32 of shape (rows, columns), of any
    resolution, which covers the whole picture and says in 0..1 how much each cell stands out; heat maps show it.
    """

    def describe(self) -> dict[str, Any]:
        """Return everything that the regions depend on, as plain JSON.

        It has no paths: a file is identified by the hash of its content. Values below the key "runtime" are recorded
        but need not match (see `lapsvm.features.check_settings`).
        """

    def regions(self, pixels: Array) -> Float64:
        """Return the boxes of the regions that stand out in a picture.

        Parameters
        ----------
        pixels : ndarray of shape (h, w, 3), uint8 RGB

        Returns
        -------
        ndarray of shape (m, 4), float64
            x1, y1, x2, y2 in pixels of the picture, 0-based and half-open; perhaps none.

        Raises
        ------
        ShapeError, InputError
            If the picture has another shape or type.
        """


def picture_objectness(source: ObjectnessSource, pixels: Array, boxes: ArrayLike) -> Float32:
    """Return the objectness of a picture's windows.

    Parameters
    ----------
    source : ObjectnessSource
    pixels : ndarray of shape (h, w, 3), uint8 RGB
    boxes : array-like of shape (n, 4)
        x1, y1, x2, y2 in pixels of the picture, 0-based and half-open.

    Returns
    -------
    ndarray of shape (n,), float32
        In 0..1; see `window_objectness`.

    Raises
    ------
    ShapeError, InputError, NotFiniteError
        If the picture, the boxes or the source's regions have another shape or type, or a number is not finite.
    DataError
        If the source's network cannot take the picture.
    """
    check_pixels(pixels)
    return window_objectness(boxes, source.regions(pixels))
