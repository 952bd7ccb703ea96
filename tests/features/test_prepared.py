"""Prepared pictures: the features of the extractor itself, and projected ones, from one pass of the network."""

import numpy as np
import pytest

from lapsvm.detection import Detector, score_many
from lapsvm.detection.prepared import prepare_windows, window_scores
from lapsvm.features import HOG, Projected, fit_projection
from lapsvm.features.extractors.extractor import Concatenation, prepared
from lapsvm.features.extractors.maps.prepared import project_blocks
from lapsvm.features.extractors.pooled_network import PooledNetwork

PICTURE = np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8)
BOXES = [[0, 0, 64, 48], [3, 4, 50, 40], [10.5, 1, 12, 47], [-5, 2, 20, 90], [5, 5, 5, 9], [70, 2, 80, 9]]


class Strided:
    """A network with two maps of made-up channels; counts its passes."""

    runtime, fixed_size, passes = {"name": "made up", "version": "1"}, None, 0

    def run(self, batch):
        self.passes += 1
        wide = np.concatenate([batch, np.sin(3 * batch), np.abs(batch) * 2], axis=1)
        return {"fine": wide[:, :7, ::4, ::4], "coarse": wide[:, :, ::8, ::8] + np.float32(0.3)}


def network(**options):
    return PooledNetwork(Strided(), "hash", output=("fine", "coarse"), size=96, **options)


OPTIONS = {
    "plain": {},
    "not normalised": {"norm": "none"},
    "contrast": {"contrast": 0.5},
    "beside": {"context": "appended"},
    "beside, not normalised": {"context": "appended", "norm": "none"},
}
EXTRACTORS = {
    **{name: lambda options=options: network(**options) for name, options in OPTIONS.items()},
    "hog": HOG,
    "several": lambda: Concatenation([HOG(), network(context="appended"), network(contrast=0.25)]),
}


@pytest.mark.parametrize("extractor", EXTRACTORS.values(), ids=EXTRACTORS)
class TestPrepared:
    def test_features_are_those_of_the_extractor(self, extractor):
        made = extractor()
        np.testing.assert_array_equal(prepared(made, PICTURE)(BOXES), made(PICTURE, BOXES))
        assert prepared(made, PICTURE)([]).shape == (0, made.dim)

    def test_projected_features_are_the_features_times_the_components(self, extractor):
        made, rng = extractor(), np.random.default_rng(1)
        sizes = [block.inside for block in made.blocks]
        components = [rng.normal(size=(size, 1 + size // 2)).astype(np.float32) for size in sizes]
        expected = project_blocks(made(PICTURE, BOXES), components, made.blocks)
        found = prepared(made, PICTURE).project(BOXES, components)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
        assert prepared(made, PICTURE).project([], components).shape == (0, expected.shape[1])

    def test_scores_of_pooled_weights_are_those_of_the_features(self, extractor):
        made, rng = extractor(), np.random.default_rng(2)
        detectors = [Detector(name, rng.normal(size=made.dim), 0.5, rng.uniform(1, 2, made.dim)) for name in "ab"]
        picture = prepare_windows(PICTURE, np.array(BOXES, np.float32), 2048, made)
        expected = score_many(detectors, picture.features())
        np.testing.assert_allclose(window_scores(picture, detectors, made), expected, rtol=1e-4, atol=1e-3)


def test_weights_beyond_single_precision_give_scores():
    made = network()
    detector = Detector("a", np.full(made.dim, 1e200))
    picture = prepare_windows(PICTURE, np.array(BOXES, np.float32), 2048, made)
    found = window_scores(picture, [detector], made)
    np.testing.assert_array_equal(found, score_many([detector], picture.features()))
    assert np.isfinite(found).all()


@pytest.mark.parametrize("options", [{}, {"norm": "none"}, {"context": "appended"}, {"contrast": 0.5}])
def test_the_bits_of_a_window_do_not_depend_on_the_others(options):
    made = network(**options)
    picture, components = prepared(made, PICTURE), [np.eye(7, 4, dtype=np.float32), np.eye(9, 5, dtype=np.float32)]
    alone = np.concatenate([picture.project([box], components) for box in BOXES])
    np.testing.assert_array_equal(picture.project(BOXES, components), alone)


def test_the_network_sees_a_picture_once():
    whole = network(context="appended")
    projection = fit_projection([whole(PICTURE, BOXES)], whole.blocks, 3)
    whole._network.passes = 0
    picture = prepared(whole, PICTURE)
    picture(BOXES)
    expected = picture.project(BOXES, projection.components)
    assert whole._network.passes == 1
    np.testing.assert_array_equal(Projected(whole, projection)(PICTURE, BOXES), expected)
