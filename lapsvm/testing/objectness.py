"""Laws of objectness: tests that every source must pass."""

# ruff: noqa: D102 - the names of the tests state the laws

from abc import abstractmethod
from typing import Any

import numpy as np

from lapsvm.arrays import Array, Float32, Float64
from lapsvm.objectness import ObjectnessSource, picture_objectness
from lapsvm.testing.checks import check, check_description, check_threads, drawn_pictures


class ObjectnessLaws:
    """Tests of a source of objectness; subclasses in a test module define `make`."""

    @abstractmethod
    def make(self) -> ObjectnessSource:
        """Return the source; calls return sources of equal description."""

    def pictures(self) -> list[Array]:
        """Return pictures of several shapes: noise, one grey, and a bright rectangle on a dark background."""
        return drawn_pictures()

    def test_it_is_a_source(self) -> None:
        check(isinstance(self.make(), ObjectnessSource), "it must have the methods describe and regions")

    def test_its_description_is_plain_json_without_paths_and_does_not_change(self) -> None:
        source = self.make()
        description = source.describe()
        check_description(description)
        source.regions(self.pictures()[0])
        check(source.describe() == description == self.make().describe(), "descriptions must be equal")

    def test_regions_are_boxes_inside_the_picture(self) -> None:
        source = self.make()
        for pixels in self.pictures():
            boxes, (height, width) = _regions(source, pixels), pixels.shape[:2]
            check(boxes.dtype == np.float64 and boxes.shape[1:] == (4,), f"float64 (m, 4), got {boxes.shape}")
            check(bool(np.isfinite(boxes).all()), "a region is not finite")
            check(bool((boxes[:, 2:] > boxes[:, :2]).all()), f"a region has no area: {boxes}")
            low, high = boxes[:, :2].min(initial=0), (boxes[:, 2:] - [width, height]).max(initial=0)
            check(low >= 0 >= high, f"a region leaves the picture of {height} x {width}: {boxes}")

    def test_a_picture_has_the_same_regions_each_time_and_is_not_changed(self) -> None:
        source = self.make()
        before = [pixels.copy() for pixels in self.pictures()]
        for pixels, copy in zip(self.pictures(), before, strict=True):
            pixels.flags.writeable = False
            np.testing.assert_array_equal(_regions(source, pixels), _regions(self.make(), copy))
            np.testing.assert_array_equal(pixels, copy)

    def test_a_view_of_a_picture_has_the_regions_of_its_copy(self) -> None:
        source = self.make()
        for pixels in self.pictures():
            view = pixels[::-1, ::-1]
            np.testing.assert_array_equal(_regions(source, view), _regions(source, view.copy()))

    def test_several_threads_get_what_one_gets(self) -> None:
        check_threads(self.make().regions, self.pictures())

    def test_a_map_covers_the_picture_with_numbers_from_0_to_1(self) -> None:
        """A source without the method `map` passes."""
        source: Any = self.make()
        for pixels in self.pictures() if hasattr(source, "map") else []:
            cells: Float32 = source.map(pixels)
            check(cells.dtype == np.float32 and cells.ndim == 2, f"float32 (rows, columns), got {cells.shape}")
            check(cells.size > 0 and bool(((cells >= 0) & (cells <= 1)).all()), "a cell is outside 0..1, or none is")

    def test_a_region_is_as_much_of_an_object_as_can_be(self) -> None:
        source = self.make()
        for pixels in self.pictures():
            boxes = _regions(source, pixels)
            np.testing.assert_array_equal(picture_objectness(source, pixels, boxes), np.ones(len(boxes)))


def _regions(source: ObjectnessSource, pixels: Array) -> Float64:
    """Return a source's regions of a picture."""
    return source.regions(pixels)
