"""Sources of objectness of other packages, whose failures and wrong maps are named in one sentence."""

from typing import Any

from lapsvm.arrays import Array, Float32, Float64, check_finite
from lapsvm.boxes import as_boxes
from lapsvm.catalog import OwnObject, running
from lapsvm.objectness.regions import check_map


class OwnSource(OwnObject):
    """A source of objectness of another package (see `ObjectnessSource`). It has a map if the package's source has."""

    def describe(self) -> dict[str, Any]:
        """Return the description of the source. Raises InputError if it is none."""
        return self._description("objectness")

    def regions(self, pixels: Array) -> Float64:
        """Return the boxes of the regions that stand out in a picture.

        Raises
        ------
        DataError
            If the source fails.
        InputError, ShapeError, NotFiniteError
            If its regions are no finite boxes (m, 4).
        """
        with running(self._point):
            regions = self._made.regions(pixels)
        name = f"regions of objectness {self._point.name!r}"
        boxes = as_boxes(regions, name)
        check_finite(name, boxes)
        return boxes

    def __getattr__(self, name: str) -> Any:
        value = super().__getattr__(name)
        if name != "map" or not callable(value):
            return value

        def checked(pixels: Array) -> Float32:
            return check_map(value(pixels), f"a map of objectness {self._point.name!r}")

        return checked
