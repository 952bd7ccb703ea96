"""The whole file on a small network: a picture in, the library's scores and boxes out."""

import json
import subprocess
import sys
from dataclasses import replace
from hashlib import blake2b

import numpy as np
import pytest

from lapsvm.boxes import iou
from lapsvm.detection import Detector, score_many
from lapsvm.detection.onnx_file import FileContent, OnnxDetector, detector_file, network_passes
from lapsvm.detection.onnx_file.assembly import EmbeddedNetwork
from lapsvm.detection.onnx_file.grouping import lattice
from lapsvm.errors import DataError, InputError, LapsvmError, OptionError, ShapeError
from lapsvm.features import Concatenation, open_extractor
from lapsvm.settings import DetectSettings

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
OPTIONS = ["size=64", "size=96&contrast=0.5&order=bgr&mean=10,20,30&scale=0.1", "size=64&norm=none&context=appended"]


@pytest.fixture(scope="module")
def network(tmp_path_factory, write_network):
    path = tmp_path_factory.mktemp("network") / "tiny.onnx"
    path.write_bytes(write_network())
    return path


def pixels_of(height=75, width=100, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def windows_of(height, width, count=40, seed=1):
    rng = np.random.default_rng(seed)
    corners = rng.uniform(0, [width - 10, height - 10], (count, 2))
    return np.hstack([corners, corners + rng.uniform(5, 60, (count, 2))]).round()


def detectors_of(extractor, classes=("a", "b")):
    rng = np.random.default_rng(5)
    return [Detector(name, rng.normal(size=extractor.dim), 0.1, 2.0) for name in classes]


def content_of(extractor, detectors, max_side=200):
    rules = [DetectSettings(max_detections=20, score_smoothing=0.5, demotion=1.0, box_voting=0.7)] * len(detectors)
    return FileContent(detectors, rules, network_passes(extractor.describe(), detectors), max_side, 0.9)


def exported(path, extractor, inputs="all"):
    detectors = detectors_of(extractor)
    content = detector_file(content_of(extractor, detectors), path.read_bytes(), "tiny", {}, inputs)
    return OnnxDetector(content), detectors


@pytest.fixture(scope="module")
def coarse(network):
    """An extractor of one map, and the file with all inputs of detectors on it."""
    extractor = open_extractor(f"onnx:{network}?output=coarse&size=64")
    return extractor, exported(network, extractor)[0]


@pytest.fixture(scope="module", params=OPTIONS)
def of_two_maps(network, request):
    """An extractor of two maps, the file of detectors on it, and the detectors."""
    extractor = open_extractor([f"onnx:{network}?output={name}&{request.param}" for name in ("fine", "coarse")])
    return extractor, *exported(network, extractor)


@pytest.mark.parametrize("shape", [(75, 100), (64, 64), (31, 150)])
def test_scores_of_given_windows_are_those_of_the_extractor(of_two_maps, shape):
    extractor, detector, detectors = of_two_maps
    pixels, windows = pixels_of(*shape), windows_of(*shape)
    expected = score_many(detectors, extractor(pixels, windows))
    found = detector.window_scores(pixels, windows)
    np.testing.assert_allclose(found, expected, atol=1e-4 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("pixels", [pixels_of(), np.full((9, 13, 3), 7, np.uint8), np.zeros((1, 1, 3), np.uint8)])
def test_the_files_own_windows_end_with_the_lattice(coarse, pixels):
    _, detector = coarse
    height, width = pixels.shape[:2]
    fixed = lattice(0.9) * [width, height, width, height]
    own, scores = detector.run(["all_windows", "window_scores"], pixels)
    np.testing.assert_allclose(own[-len(fixed) :], fixed, atol=1e-4)
    np.testing.assert_allclose(scores, detector.window_scores(pixels, own), atol=1e-5)
    for boxes, values in detector.detect(pixels):
        assert 0 < len(values) <= 20
        assert (np.diff(values) <= 0).all()
        assert (boxes[:, :2] >= 0).all()
        assert (boxes[:, 2:] <= [100.01, 75.01]).all()
    (few,) = {len(values) for _, values in detector.detect(pixels, max_boxes=np.array([2]))}
    assert few == 2


def test_windows_around_small_things_are_added_where_they_are_asked_for(network, coarse):
    extractor, pixels = coarse[0], np.full((384, 512, 3), 90, np.uint8)
    pixels += np.random.default_rng(0).integers(0, 5, pixels.shape, dtype=np.uint8)
    pixels[50:58, 70:78] = 200
    detectors = detectors_of(extractor)
    for side, finds in ((0, False), (512, True)):
        content = replace(content_of(extractor, detectors), fine_side=side)
        file = OnnxDetector(detector_file(content, network.read_bytes(), "tiny", {}))
        windows = file.run(["all_windows"], pixels)[0]
        assert (iou(np.array([[70.0, 50, 78, 58]]), windows.astype(float)).max() > 0.5) == finds


BAD = [
    [50, 10, 20, 40], [10, 40, 50, 20], [30, 30, 30, 60], [30, 30, 60, 30], [np.nan, 0, 9, 9], [0, 0, 9, np.nan],
    [0, 0, np.inf, 9], [-np.inf, 0, 9, 9], [-20, 5, 0, 30], [100, 5, 120, 30], [5, 75, 30, 80], [5, -9, 30, 0],
]  # fmt: skip
OUTPUTS = ["boxes", "classes", "scores", "score_maps", "all_windows", "window_scores"]


@pytest.mark.parametrize("bad", [*([one] for one in BAD), BAD], ids=str)
def test_windows_that_are_no_boxes_in_the_picture_change_nothing_and_alone_give_no_detection(coarse, bad):
    _, detector = coarse
    good = windows_of(75, 100).astype(np.float32)
    mixed = np.insert(good, 3, np.array(bad, np.float32), axis=0)
    expected, with_bad, found = (
        detector.run(OUTPUTS, pixels_of(), windows=windows) for windows in (good, mixed, np.array(bad, np.float32))
    )
    assert len(expected[0])
    for one, other in zip(with_bad, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert [len(one) for one in found[:3]] == [0, 0, 0]
    assert np.isfinite(found[3]).all()
    np.testing.assert_array_equal(found[4], [[0, 0, 100, 75]])


def test_neutral_inputs_give_what_the_file_of_a_picture_alone_gives(network, coarse):
    extractor, detector = coarse
    alone, _ = exported(network, extractor, "picture")
    for found, expected in zip(detector.run(OUTPUTS, pixels_of()), alone.run(OUTPUTS, pixels_of()), strict=True):
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(OptionError, match="'windows' must be one of the file's, picture"):
        alone.window_scores(pixels_of(), windows_of(75, 100))


def test_limits_that_are_given_replace_the_recorded_ones(coarse):
    _, detector = coarse
    every = detector.detect(pixels_of())[0][1]
    least = np.float32((every[0] + every[1]) / 2)
    assert len(detector.detect(pixels_of(), score_threshold=np.array([least]))[0][1]) == 1
    assert len(detector.detect(pixels_of(), iou_threshold=np.array([0.99], np.float32))[0][1]) > len(every) // 2
    assert len(detector.detect(pixels_of(), max_boxes=np.array([3]))[0][1]) == 3
    never = np.array([1.1], np.float32)  # classes without probabilities pass
    assert len(detector.detect(pixels_of(), probability_threshold=never)[0][1]) == len(every)


OPENED = """
import sys, onnxruntime
onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
"""


@pytest.mark.parametrize("inputs", ["picture", "all"])
def test_onnx_runtime_opens_the_file_without_a_word(network, tmp_path, inputs):
    extractor = open_extractor([f"onnx:{network}?output={name}&{OPTIONS[1]}" for name in ("fine", "coarse")])
    file = detector_file(content_of(extractor, detectors_of(extractor)), network.read_bytes(), "tiny", {}, inputs)
    (tmp_path / "detector.onnx").write_bytes(file)
    command = [sys.executable, "-c", OPENED, str(tmp_path / "detector.onnx")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [done.stdout, done.stderr] == ["", ""]


def test_unknown_inputs_are_refused(network, coarse):
    with pytest.raises(OptionError, match="inputs 'some' is not known; choose from picture, all"):
        exported(network, coarse[0], "some")


def test_the_score_map_is_highest_where_the_best_windows_are(network):
    extractor = open_extractor(f"onnx:{network}?output=coarse&size=128")
    detector, _ = exported(network, extractor)
    pixels, windows = pixels_of(128, 128), np.array([[0, 0, 64, 64], [64, 64, 128, 128]], np.float32)
    maps, scores = detector.run(["score_maps", "window_scores"], pixels, windows=windows)
    assert maps.shape == (2, 4, 4)
    for column in range(2):
        np.testing.assert_allclose(maps[column, :2, :2], scores[0, column], rtol=1e-4)
        np.testing.assert_allclose(maps[column, 2:, 2:], scores[1, column], rtol=1e-4)
        np.testing.assert_allclose(maps[column, :2, 2:], scores[:, column].min(), rtol=1e-4)


def test_equal_content_gives_equal_bytes_and_says_what_it_is(network, coarse):
    content = content_of(coarse[0], detectors_of(coarse[0]))
    files = [detector_file(content, network.read_bytes(), "tiny", {"classes": json.dumps(["a", "b"])}) for _ in "12"]
    assert files[0] == files[1]
    assert json.loads(OnnxDetector(files[0]).metadata["classes"]) == ["a", "b"]


def test_weights_of_a_network_are_stored_once(network, coarse):
    onnx = pytest.importorskip("onnx")
    one, _ = coarse
    three = Concatenation([one, one.at_size(96), one.at_size(128)])
    file = detector_file(content_of(three, detectors_of(three)), network.read_bytes(), "tiny", {})
    stored = [onnx.numpy_helper.to_array(one).tobytes() for one in onnx.load_from_string(file).graph.initializer]
    weights = [onnx.numpy_helper.to_array(one).tobytes() for one in onnx.load(network).graph.initializer]
    assert weights
    assert [stored.count(one) for one in weights] == [1] * len(weights)


def test_what_cannot_be_exported_is_one_sentence(coarse):
    hog = open_extractor("hog")
    with pytest.raises(OptionError, match="extractor 'hog' is no network"):
        network_passes(hog.describe(), detectors_of(hog))
    with pytest.raises(ShapeError, match="9 features, got 4"):
        network_passes(coarse[0].describe(), [Detector("a", np.ones(4))])


def test_old_and_damaged_networks_are_refused(write_network):
    onnx = pytest.importorskip("onnx")
    with pytest.raises(OptionError, match="opset 13 or later to be exported, got 11"):
        EmbeddedNetwork.read(onnx, write_network(opset=11), "tiny")
    content = write_network()
    for cut in (1, 50, len(content) - 3):
        with pytest.raises(LapsvmError):
            EmbeddedNetwork.read(onnx, content[:cut], "tiny")


def test_pictures_of_other_shapes_are_one_sentence(coarse):
    _, detector = coarse
    for picture in (np.zeros((5, 5), np.uint8), np.zeros((5, 5, 4), np.uint8), np.zeros((5, 5, 3), np.float32)):
        with pytest.raises((ShapeError, InputError), match="a picture must"):
            detector.detect(picture)
    with pytest.raises(DataError, match="cannot be read by ONNX Runtime"):
        OnnxDetector(b"no such thing")


def test_a_tiny_picture_has_boxes(coarse):
    _, detector = coarse
    for shape in ((1, 1), (1, 40), (300, 2)):
        assert all(np.isfinite(values).all() for _, values in detector.detect(pixels_of(*shape)))


def test_the_hash_of_the_network_is_that_of_the_description(network, coarse):
    assert coarse[0].describe()["weights"] == blake2b(network.read_bytes(), digest_size=16).hexdigest()
