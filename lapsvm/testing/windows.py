"""Laws of sources of windows: tests that every method of `lapsvm.windows.propose` must pass."""

# ruff: noqa: D102 - the names of the tests state the laws

from abc import abstractmethod
from functools import partial
from inspect import signature

import numpy as np

from lapsvm.arrays import Array
from lapsvm.boxes import as_boxes
from lapsvm.testing.checks import check, check_threads, drawn_pictures
from lapsvm.windows import Source


class ProposalLaws:
    """Tests of a source of windows; subclasses in a test module define `make`.

    ::

        class TestHalves(ProposalLaws):
            def make(self):
                return left_and_right

    `propose` removes duplicates and small boxes, and keeps the first ones, of whatever a source returns.
    """

    mode = "fast"
    """The mode that the source is called with; "fast" is the default of runs."""

    @abstractmethod
    def make(self) -> Source:
        """Return the source, a function ``(image, mode, seed, threads) -> boxes``."""

    def pictures(self) -> list[Array]:
        """Return pictures of several shapes: noise, one grey, and a bright rectangle on a dark background."""
        return drawn_pictures()

    def test_it_is_a_function_of_a_picture_a_mode_a_seed_and_threads(self) -> None:
        source = self.make()
        check(callable(source), f"it must be callable, got {type(source).__name__}")
        try:
            signature(source).bind(self.pictures()[0], self.mode, 0, 1)
        except TypeError as error:
            raise AssertionError(f"it must take a picture, a mode, a seed and a number of threads: {error}") from None

    def test_boxes_are_whole_pixels_inside_the_picture(self) -> None:
        for pixels in self.pictures():
            boxes, (height, width) = as_boxes(self._boxes(pixels)), pixels.shape[:2]
            check(bool(np.isfinite(boxes).all() and (boxes == np.rint(boxes)).all()), f"no whole pixels: {boxes}")
            low, high = boxes[:, :2].min(initial=0), (boxes[:, 2:] - [width, height]).max(initial=0)
            check(low >= 0 >= high, f"a box leaves the picture of {height} x {width}: {boxes}")

    def test_boxes_have_an_area(self) -> None:
        for pixels in self.pictures():
            boxes = as_boxes(self._boxes(pixels))
            check(
                bool((boxes[:, 2:] > boxes[:, :2]).all()), f"a box has no area, are they x, y, width, height? {boxes}"
            )

    def test_a_picture_has_the_same_boxes_each_time_and_is_not_changed(self) -> None:
        for pixels in self.pictures():
            before = pixels.copy()
            pixels.flags.writeable = False
            expected = self._boxes(before.copy())
            np.testing.assert_array_equal(self._boxes(pixels), expected)
            np.testing.assert_array_equal(self._boxes(pixels), expected)
            np.testing.assert_array_equal(pixels, before)

    def test_the_number_of_threads_changes_nothing(self) -> None:
        for pixels in self.pictures():
            np.testing.assert_array_equal(self._boxes(pixels, threads=3), self._boxes(pixels))

    def test_several_callers_get_what_one_gets(self) -> None:
        check_threads(partial(self._boxes, source=self.make()), self.pictures())

    def _boxes(self, pixels: Array, threads: int = 1, source: Source | None = None) -> Array:
        """Return the boxes of a picture."""
        return np.asarray((source or self.make())(pixels, self.mode, 0, threads))
