"""The file in OpenVINO: the windows and boxes of ONNX Runtime, from the first answer on."""

from dataclasses import replace

import numpy as np
import pytest

from lapsvm.boxes import iou
from lapsvm.detection import Detector
from lapsvm.detection.onnx_file import FileContent, OnnxDetector, detector_file, network_passes
from lapsvm.features import open_extractor
from lapsvm.inspection.calibration import Calibration
from lapsvm.settings import DetectSettings

openvino = pytest.importorskip("openvino", reason="OpenVINO is not installed")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
OUTPUTS = ["boxes", "classes", "scores", "probabilities", "all_windows"]
FLOAT32 = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}


@pytest.fixture(scope="module")
def pictures():
    """Noise on areas, and spots of 8 to 14 pixels, in several sizes."""
    rng, drawn = np.random.default_rng(0), []
    for height, width in ((240, 320), (240, 320), (300, 200), (96, 128)):
        pixels = rng.integers(90, 130, (height, width, 3)).astype(np.uint8)
        pixels[: height // 2, : width // 3] = [180, 60, 60]
        for _ in range(10):
            y, x, side = rng.integers(0, height - 14), rng.integers(0, width - 14), rng.integers(8, 15)
            pixels[y : y + side, x : x + side] = rng.choice([20, 230])
        drawn.append(pixels)
    return drawn


@pytest.fixture
def content(tmp_path, write_network):
    """What a file of two classes computes, and its network."""
    path = tmp_path / "tiny.onnx"
    path.write_bytes(write_network())
    extractor = open_extractor([f"onnx:{path}?output={name}&size=128&contrast=0.5" for name in ("fine", "coarse")])
    rng = np.random.default_rng(5)
    detectors = [
        Detector(name, rng.normal(size=extractor.dim), 0.1, calibration=Calibration(2.0, -0.5)) for name in ("a", "b")
    ]
    rules = [DetectSettings(max_detections=20, score_smoothing=0.5, demotion=1.0, box_voting=0.7)] * 2
    passes = network_passes(extractor.describe(), detectors)
    return FileContent(detectors, rules, passes, 256, 0.9), path.read_bytes()


def compiled(file):
    core = openvino.Core()
    return core.compile_model(core.read_model(file), "CPU", FLOAT32)


@pytest.mark.parametrize("fine_side", [0, 256])
def test_boxes_are_those_of_onnx_runtime(content, pictures, fine_side):
    described, network = content
    file = detector_file(replace(described, fine_side=fine_side), network, "tiny", {})
    session, other = OnnxDetector(file), compiled(file)
    for pixels in pictures:
        expected, answer = session.run(OUTPUTS, pixels), other({"picture": pixels})
        found = [answer[name] for name in OUTPUTS]
        overlaps = iou(expected[4].astype(float), found[4].astype(float))
        assert (overlaps.max(axis=1) > 0.999).mean() > 0.98
        for number in range(2):
            best = [np.flatnonzero(one[1] == number)[:2] for one in (expected, found)]
            np.testing.assert_allclose(found[0][best[1]], expected[0][best[0]], atol=0.1)
            for place in (2, 3):  # scores and probabilities
                np.testing.assert_allclose(found[place][best[1]], expected[place][best[0]], rtol=2e-3, atol=1e-3)


def test_windows_that_are_given_have_the_scores_of_onnx_runtime(content, pictures):
    described, network = content
    file = detector_file(described, network, "tiny", {}, "all")
    windows = np.array([[0, 0, 60, 60], [40, 20, 110, 80], [10, 10, 30, 35]], np.float32)
    none = np.array([np.nan], np.float32)
    inputs = {"windows": windows, "iou_threshold": none, "score_threshold": none, "probability_threshold": none}
    answer = compiled(file)({"picture": pictures[0], **inputs, "max_boxes": np.array([2])})
    expected = OnnxDetector(file).window_scores(pictures[0], windows)
    np.testing.assert_allclose(answer["window_scores"], expected, atol=1e-3)
    assert np.bincount(answer["classes"]).tolist() == [2, 2]
