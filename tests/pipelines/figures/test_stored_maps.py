"""Score maps of stored windows: those of the predictor, and none where there is nothing to show."""

from dataclasses import replace

import numpy as np
import pytest
from lapsvm.pipelines.figures.maps.stored_maps import StoredMaps
from lapsvm.pipelines.run.folder import RunFolder

from lapsvm.detection import Detector, Predictor
from lapsvm.features import PictureWindows, assemble_shard, open_shards, write_shard
from lapsvm.settings import DetectSettings


@pytest.fixture(scope="module")
def maps(finished):
    return StoredMaps(open_shards(finished / "shards" / "test"), RunFolder(finished).settings().detect)


@pytest.fixture(scope="module")
def detectors(finished):
    return [Detector.load(finished / "models" / f"{name}.safetensors") for name in ("six", "three")]


def test_they_are_those_of_the_predictor(finished, digits, maps, detectors):
    predictor = Predictor.open(finished)
    for name in maps.shards.image_ids:
        own = predictor.score_maps(digits / "JPEGImages" / f"{name}.jpg")
        for detector in detectors:
            stored, expected = maps.score_map(detector, name), own[detector.class_name]
            assert stored.is_probability
            assert stored.values.shape == expected.values.shape
            np.testing.assert_allclose(stored.values, expected.values, atol=2e-3)  # features are stored as float16


def test_the_largest_value_is_the_probability_of_the_stored_detection(finished, maps, detectors):
    from lapsvm.evaluation import read_results

    for detector in detectors:
        best = read_results(finished / "detections" / "test", "test")[detector.class_name].best_scores()
        for name, score in best.items():
            top = maps.score_map(detector, name).values.max()
            assert top == pytest.approx(detector.probability([score])[0], abs=1e-5)


def test_without_probabilities_they_are_scores(maps, detectors):
    bare = replace(detectors[0], calibration=None)
    name = maps.shards.image_ids[0]
    with_probability = maps.score_map(detectors[0], name)
    scores = maps.score_map(bare, name)
    assert (scores.unit, scores.scale) == ("score", (scores.values.min(), scores.values.max()))
    assert (with_probability.unit, with_probability.scale) == ("probability", (0.0, 1.0))


def test_what_is_not_stored_has_no_map(maps, detectors):
    assert maps.score_map(detectors[0], "another") is None


def test_pictures_of_all_shards_are_found_and_windows_without_a_pixel_give_no_map(tmp_path):
    boxes = {"a": [[0, 0, 4, 3]], "b": [[1, 1, 1, 3]], "c": [], "d": [[0, 0, 4, 3], [2, 0, 4, 3]]}
    for number, names in enumerate(("ab", "cd")):
        windows = [
            PictureWindows(name, np.reshape(boxes[name], (-1, 4)), np.arange(len(boxes[name]))[:, None], name, (3, 4))
            for name in names
        ]
        write_shard(tmp_path / f"{number:07d}.safetensors", assemble_shard(windows, {}, "float32"))
    maps, detector = StoredMaps(open_shards(tmp_path), DetectSettings()), Detector("cat", [2.0], 1.0)
    assert maps.score_map(detector, "a").values.tolist() == [[1.0] * 4] * 3
    assert maps.score_map(detector, "b") is None
    assert maps.score_map(detector, "c") is None
    found = maps.score_map(detector, "d").values
    assert found.shape == (3, 4)
    assert (found[:, 2:] == 3).all()
    assert (found[:, :2] < 3).all()
