"""The decision in the file is that of the predictor: on made pictures, by picture models and a memory of good ones."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from lapsvm.detection import AlarmThreshold, Calibration, Detector, Predictor
from lapsvm.detection.onnx_file import FileContent, OnnxDetector, detector_file, network_passes, with_thresholds
from lapsvm.detection.onnx_file.deciding import decision_number
from lapsvm.detection.scoring import picture_detectors
from lapsvm.features import open_extractor
from lapsvm.inspection.shown import Shown
from lapsvm.inspection.threshold import UnlikeGood
from lapsvm.inspection.whole_pictures import PictureModel
from lapsvm.objectness.good_pictures import GoodPictures, distance_of, good_network, parts_of
from lapsvm.settings import DetectSettings, ProposalSettings

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
CLASSES = ["a", "b", "c"]
SHAPES = [(75, 100), (64, 64), (31, 250), (300, 20), (120, 260), (1, 1)]


def drawn(number, shape):
    """Noise around a grey, of another strength in each picture; some of one colour, or nearly."""
    rng = np.random.default_rng(number)
    noise = rng.normal(size=(*shape, 3)) * (0 if number % 9 == 8 else rng.uniform(2, 60))
    return np.clip(rng.integers(60, 200) + noise, 0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def pictures():
    return [drawn(number, SHAPES[number % len(SHAPES)]) for number in range(36)]


@pytest.fixture(scope="module")
def predictor(tmp_path_factory, write_network, pictures):
    """A predictor with a picture model for one class of three, and a memory; each decision is on some picture."""
    path = tmp_path_factory.mktemp("network") / "tiny.onnx"
    path.write_bytes(write_network())
    extractor = open_extractor([f"onnx:{path}?output={name}&size=96&contrast=0.5" for name in ("fine", "coarse")])
    rng, rules = np.random.default_rng(5), [DetectSettings(score_smoothing=0.5, demotion=1.0, box_voting=0.7)] * 3
    detectors = [
        Detector(name, rng.normal(size=extractor.dim), 0.1, 2.0, calibration=Calibration(2.0, -0.5 - place))
        for place, name in enumerate(CLASSES)
    ]
    network = good_network(extractor)
    good = GoodPictures.fit(network, [parts_of(network, one) for one in pictures[:4]], range(4), 300)
    middle = float(np.median([distance_of(good.map(parts_of(network, one))) for one in pictures]))
    pictured = {"b": PictureModel(0.5, 0.4, rng.normal(size=extractor.dim))}
    alarm = AlarmThreshold(0.9, 0.1, {}, pictures=pictured, unlike=UnlikeGood(middle, good.digest))
    windows = ProposalSettings(method="grid", max_windows=40, max_side=200)
    made = Predictor(detectors, extractor, windows, 0, rules, Shown(alarm=alarm), good)
    probabilities = [made.decision(pixels).probability for pixels in pictures]
    return replace(made, shown=Shown(alarm=replace(alarm, probability=float(np.quantile(probabilities, 0.6)))))


@pytest.fixture(scope="module")
def file_of(predictor, write_network):
    """A function that returns the file of the predictor, with changes of its content."""

    @cache
    def made(inputs="all", **change):
        alarm = predictor.shown.alarm
        weighted = [*predictor.detectors, *picture_detectors(alarm, predictor.detectors)]
        passes = network_passes(predictor.extractor.describe(), weighted)
        described = FileContent(predictor.detectors, predictor.detection, passes, 200, 0.9)
        changed = replace(described, **{"alarm": alarm, "good": predictor.good, **change})
        return detector_file(changed, write_network(), "tiny", {}, inputs)

    return made


@pytest.fixture(scope="module")
def expected(predictor, pictures):
    """The windows of each picture, its decision as a number, and its probability."""
    found = []
    for pixels in pictures:
        scored = predictor.scored(pixels)
        decision = scored.decision()
        found.append((scored.boxes, decision_number(decision, CLASSES), decision.probability))
    return found


def test_the_heat_map_has_the_distances_and_other_thresholds_decide_otherwise(predictor, pictures, file_of):
    file = OnnxDetector(file_of("picture"))
    unlike = predictor.scored(pictures[0]).unlike
    probability, heatmap = file.run(["probability", "heatmap"], pictures[0])
    np.testing.assert_allclose(heatmap, unlike.map, atol=1e-5)
    assert file.measures(pictures[0]) == (probability[0], distance_of(heatmap))
    found = [file.measures(pixels) for pixels in pictures]
    for limits in ((2.0, np.inf), (0.0, 0.0), tuple(np.median(found, axis=0).tolist())):
        other = OnnxDetector(with_thresholds(file_of("picture"), *limits, {"promise": "another"}))
        assert other.metadata == {"promise": "another"}
        expected = [known >= limits[0] or unlike >= limits[1] for known, unlike in found]
        assert [other.decision(pixels) != 0 for pixels in pictures] == expected


def test_decisions_are_those_of_the_predictor_with_its_windows_given(pictures, expected, file_of):
    numbers = [number for _, number, _ in expected]
    assert {-1, 0, 2} < set(numbers)  # 2 has a picture model
    file = OnnxDetector(file_of())
    for pixels, (windows, number, probability) in zip(pictures, expected, strict=True):
        decision, found = file.run(["decision", "probability"], pixels, windows=windows)
        np.testing.assert_allclose(found, [probability], atol=2e-6)
        assert decision.tolist() == [number]
        assert decision.dtype == np.int64


def test_openvino_decides_alike(pictures, expected, file_of):
    openvino = pytest.importorskip("openvino", reason="OpenVINO is not installed")
    core, none = openvino.Core(), np.array([np.nan], np.float32)
    hints = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    file = core.compile_model(core.read_model(file_of()), "CPU", hints)
    neutral = {f"{name}_threshold": none for name in ("iou", "score", "probability")} | {"max_boxes": np.array([0])}
    for pixels, (windows, number, probability) in zip(pictures, expected, strict=True):
        answer = file({"picture": pixels, "windows": windows, **neutral})
        np.testing.assert_allclose(answer["probability"], [probability], atol=1e-3)
        assert answer["decision"].tolist() == [number]


def test_without_a_memory_nothing_is_unknown_and_without_an_alarm_there_is_no_decision(pictures, expected, file_of):
    known, none = OnnxDetector(file_of(good=None)), OnnxDetector(file_of(alarm=None, good=None))
    for pixels, (windows, number, _) in zip(pictures[:12], expected, strict=False):
        assert known.decision(pixels, windows=windows) == max(number, 0)
    assert none.decision(pictures[0]) is None


def test_without_a_window_in_the_picture_no_class_is_found(pictures, file_of):
    outside = np.array([[-9, -9, -1, -1]], np.float32)
    file = OnnxDetector(file_of(good=None))
    decision, probability = file.run(["decision", "probability"], pictures[0], windows=outside)
    assert (decision.tolist(), probability.tolist()) == ([0], [0.0])


def test_the_windows_of_the_file_itself_decide_where_none_are_given(pictures, file_of):
    alone, both = OnnxDetector(file_of("picture")), OnnxDetector(file_of())
    for pixels in pictures[:6]:
        own, scores = alone.run(["all_windows", "window_scores"], pixels)
        assert alone.decision(pixels) == both.decision(pixels) == both.decision(pixels, windows=own)
        assert len(scores) == len(own)
