"""Laws of extractors: tests that every extractor must pass."""

# ruff: noqa: D102 - the names of the tests state the laws

import json
from abc import abstractmethod

import numpy as np

from lapsvm.arrays import Array, Float32
from lapsvm.errors import InputError, NotFiniteError, ShapeError
from lapsvm.features import Extractor, recorded_blocks, recorded_description
from lapsvm.features.extractors.blocks import check_blocks
from lapsvm.features.extractors.extractor import prepared
from lapsvm.features.extractors.maps.prepared import project_blocks
from lapsvm.testing.checks import check, check_description, check_threads, drawn_pictures


class ExtractorLaws:
    """Tests of an extractor; subclasses in a test module define `make`.

    ::

        class TestMeanColour(ExtractorLaws):
            def make(self):
                return MeanColour()

    Extractors are opened in every process from their text, so they need not be picklable; one extractor is used by
    several threads at once.
    """

    @abstractmethod
    def make(self) -> Extractor:
        """Return the extractor; calls return extractors of equal description."""

    def pictures(self) -> list[Array]:
        """Return pictures of several shapes: noise, one grey, and a bright rectangle on a dark background."""
        return drawn_pictures()

    def boxes(self, pixels: Array) -> Array:
        """Return the whole picture, windows inside, fractional ones, some outside or without area."""
        height, width = pixels.shape[:2]
        shares = np.random.default_rng(0).random((6, 4))
        inside = np.hstack([np.minimum(shares[:, :2], shares[:, 2:]), np.maximum(shares[:, :2], shares[:, 2:])])
        edges = [[0, 0, 1, 1], [-0.5, -0.5, 0.5, 0.5], [0.5, 0.25, 7, 9], [0.5, 0.5, 0.5, 0.5], [2, 2, 3, 3]]
        return np.concatenate([edges, inside]) * [width, height, width, height]

    def test_it_is_an_extractor(self) -> None:
        check(
            isinstance(self.make(), Extractor), "it must have dim, blocks, describe() and a call with pixels and boxes"
        )

    def test_its_blocks_have_all_of_its_features(self) -> None:
        extractor = self.make()
        check_blocks("the extractor", extractor.blocks, extractor.dim)

    def test_its_description_is_plain_json_without_paths_and_does_not_change(self) -> None:
        extractor = self.make()
        description = extractor.describe()
        check_description(description)
        _features(extractor, *self._example())
        check(extractor.describe() == description == self.make().describe(), "descriptions must be equal")

    def test_files_can_record_its_description_and_its_blocks(self) -> None:
        extractor = self.make()
        description, recorded = extractor.describe(), recorded_description(extractor)
        taken = {key for key in ("blocks", "has_context") if description.get(key, recorded[key]) != recorded[key]}
        check(not taken, f"keys that record the blocks must say nothing else: {taken}")
        check(recorded_blocks(json.loads(json.dumps(recorded))) == tuple(extractor.blocks), "blocks change in files")

    def test_features_are_finite_float32_one_row_a_window(self) -> None:
        extractor = self.make()
        for pixels in self.pictures():
            for boxes in (self.boxes(pixels), np.empty((0, 4))):
                features = _features(extractor, pixels, boxes)
                shape = len(boxes), extractor.dim
                right = features.dtype == np.float32 and features.shape == shape
                check(right, f"{pixels.shape}: must be float32 {shape}, got {features.dtype} {features.shape}")
                check(bool(np.isfinite(features).all()), f"{pixels.shape}: a feature is NaN or infinite")

    def test_a_window_without_area_in_the_picture_has_zeros(self) -> None:
        extractor = self.make()
        for pixels in self.pictures():
            height, width = pixels.shape[:2]
            boxes = [[0, 0, 0, height], [width, 0, width + 9, height], [-9, -9, 0, -1]]
            check(not _features(extractor, pixels, np.array(boxes, float)).any(), f"{pixels.shape}: a feature is not 0")

    def test_a_window_has_the_same_bits_in_any_order_and_company(self) -> None:
        extractor = self.make()
        for pixels in self.pictures():
            boxes = self.boxes(pixels)
            expected = _features(extractor, pixels, boxes)
            order = np.random.default_rng(1).permutation(np.repeat(np.arange(len(boxes)), 2))
            np.testing.assert_array_equal(_features(extractor, pixels, boxes[order]), expected[order])
            alone = [_features(extractor, pixels, box[None]) for box in boxes]
            np.testing.assert_array_equal(np.concatenate(alone), expected)

    def test_a_picture_has_the_same_features_each_time_and_is_not_changed(self) -> None:
        extractor = self.make()
        for pixels in self.pictures():
            boxes, before = self.boxes(pixels), pixels.copy()
            pixels.flags.writeable = boxes.flags.writeable = False
            expected = _features(self.make(), before.copy(), boxes)
            np.testing.assert_array_equal(_features(extractor, pixels, boxes), expected)
            np.testing.assert_array_equal(_features(extractor, pixels, boxes), expected)
            np.testing.assert_array_equal(pixels, before)

    def test_a_view_of_a_picture_has_the_features_of_its_copy(self) -> None:
        extractor = self.make()
        for pixels in self.pictures():
            view, boxes = pixels[::-1, ::-1], self.boxes(pixels)
            np.testing.assert_array_equal(_features(extractor, view, boxes), _features(extractor, view.copy(), boxes))

    def test_several_threads_get_what_one_gets(self) -> None:
        extractor = self.make()
        check_threads(lambda pixels: _features(extractor, pixels, self.boxes(pixels)), self.pictures())

    def test_a_prepared_picture_gives_the_same_features_and_their_products(self) -> None:
        """An extractor without the method `prepare` passes if it has the right blocks."""
        extractor, rng = self.make(), np.random.default_rng(2)
        components = [rng.normal(size=(block.inside, 2)).astype(np.float32) for block in extractor.blocks]
        for pixels in self.pictures():
            boxes, picture = self.boxes(pixels), prepared(extractor, pixels)
            expected = _features(extractor, pixels, boxes)
            np.testing.assert_array_equal(picture(boxes), expected)
            products = project_blocks(expected, components, extractor.blocks)
            scale = np.abs(products).max(initial=1e-6)
            np.testing.assert_allclose(picture.project(boxes, components), products, rtol=0, atol=1e-4 * scale)
            check(picture.nbytes >= 0, f"nbytes must not be negative, got {picture.nbytes}")

    def test_what_is_no_picture_or_no_box_is_refused(self) -> None:
        extractor, (pixels, boxes) = self.make(), self._example()
        for wrong in (pixels[..., 0], pixels.astype(np.float32)):
            check(_refuses(extractor, wrong, boxes, InputError), f"a picture must be (h, w, 3) uint8: {wrong.dtype}")
        check(_refuses(extractor, pixels, boxes[:, :3], ShapeError), "boxes must be (n, 4): ShapeError for others")
        broken = np.where(np.arange(boxes.size).reshape(boxes.shape) == 1, np.nan, boxes)
        check(_refuses(extractor, pixels, broken, NotFiniteError), "boxes must be finite: NotFiniteError for others")

    def _example(self) -> tuple[Array, Array]:
        """Return a picture and its windows."""
        pixels = self.pictures()[-1]
        return pixels, self.boxes(pixels)


def _features(extractor: Extractor, pixels: Array, boxes: Array) -> Float32:
    """Return the features of windows."""
    return extractor(pixels, boxes)


def _refuses(extractor: Extractor, pixels: Array, boxes: Array, error: type[Exception]) -> bool:
    """Return whether an extractor raises an error."""
    try:
        extractor(pixels, boxes)
    except error:
        return True
    return False
