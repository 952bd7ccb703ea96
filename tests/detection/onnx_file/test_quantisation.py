"""Networks in 8 bits give nearly the maps of float32, by int8 weights, and the same bytes each time."""

from dataclasses import replace

import numpy as np
import pytest

from lapsvm.detection import Detector
from lapsvm.detection.onnx_file import FileContent, OnnxDetector, detector_file, network_passes
from lapsvm.detection.onnx_file.quantisation import FLOAT_LAYERS, network_inputs, quantised_network
from lapsvm.errors import DataError, ImageError
from lapsvm.features import open_extractor
from lapsvm.settings import DetectSettings

from ...twins.networks import onnx_network

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
PICTURES = [np.random.default_rng(seed).integers(0, 256, (90, 120, 3), dtype=np.uint8) for seed in range(4)]


def deep_network(channels=12, layers=6):
    """Return a network of convolutions with a map of stride 8, and a second map that nothing needs."""
    rng, nodes, arrays, before, depth = np.random.default_rng(0), [], {}, "picture", 3
    for number in range(layers):
        kernel = rng.normal(size=(channels, depth, 3, 3)) / np.sqrt(9 * depth)
        arrays[f"kernel{number}"] = kernel.astype(np.float32)
        strides = [2, 2] if number < 3 else [1, 1]
        nodes += [
            ("Conv", f"{before} kernel{number}", f"sums{number}", {"pads": [1] * 4, "strides": strides}),
            ("Relu", f"sums{number}", f"map{number}", {}),
        ]
        before, depth = f"map{number}", channels
    maps = {name: [1, channels, "r", "c"] for name in (before, "map2")}
    return onnx_network(nodes, {"picture": [1, 3, "h", "w"]}, maps, arrays)


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    path = tmp_path_factory.mktemp("network") / "deep.onnx"
    path.write_bytes(deep_network())
    return path


@pytest.fixture(scope="module")
def quantised(network):
    """What a detector's file computes, and its network in int8."""
    _, content = content_of(network)
    return content, quantised_network(network.read_bytes(), "deep", content, PICTURES[:2])


def content_of(network, options="size=96"):
    extractor = open_extractor(f"onnx:{network}?output=map5&{options}")
    detectors = [Detector("a", np.random.default_rng(5).normal(size=extractor.dim))]
    passes = network_passes(extractor.describe(), detectors)
    return extractor, FileContent(detectors, [DetectSettings()], passes, 200, 0.9)


def maps_of(network, batch):
    return runtime.InferenceSession(network, providers=["CPUExecutionProvider"]).run(["map5"], {"picture": batch})[0]


def test_maps_are_nearly_those_of_float32_and_weights_are_int8(network, caplog, capfd):
    _, content = content_of(network)
    small = quantised_network(network.read_bytes(), "deep", content, PICTURES[:2])
    for pixels in PICTURES:
        (batch,) = network_inputs(pixels, content)
        expected, found = maps_of(network.read_bytes(), batch), maps_of(small, batch)
        assert np.abs(found - expected).max() < 0.1 * expected.max()
        assert not np.array_equal(found, expected)
    model = onnx.load_model_from_string(small)
    assert [output.name for output in model.graph.output] == ["map5"]
    kinds = [entry.data_type for entry in model.graph.initializer if len(entry.dims) == 4]
    assert [kinds.count(kind) for kind in (1, 3)] == [FLOAT_LAYERS, 6 - FLOAT_LAYERS]  # float32, int8
    assert not caplog.records
    assert capfd.readouterr() == ("", "")


def test_equal_pictures_give_equal_bytes(network, quantised):
    content, small = quantised
    assert quantised_network(network.read_bytes(), "deep", content, PICTURES[:2]) == small


@pytest.mark.parametrize("options", ["size=96", "size=64&order=bgr&mean=10,20,30&scale=0.1,0.2,0.3", "size=256"])
@pytest.mark.parametrize("shape", [(90, 120, 3), (31, 150, 3)])
def test_inputs_are_those_that_the_extractor_gives_its_network(network, options, shape):
    extractor, content = content_of(network, options)
    pixels = np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)
    (found,) = network_inputs(pixels, content)
    np.testing.assert_array_equal(found, extractor._batch(pixels))


def test_a_detector_of_an_int8_network_scores_nearly_as_one_of_float32(network, quantised):
    content, small = quantised
    windows = np.array([[0, 0, 60, 60], [40, 20, 110, 80], [10, 10, 30, 35]], np.float32)
    scores = [
        OnnxDetector(detector_file(content, file, "deep", {}, "all")).window_scores(PICTURES[3], windows)
        for file in (network.read_bytes(), small)
    ]
    np.testing.assert_allclose(scores[1], scores[0], atol=0.1)


@pytest.mark.parametrize("channels", [12, 80])
def test_maps_of_many_channels_are_pooled_in_8_bits_where_that_is_asked_for(tmp_path, channels):
    path = tmp_path / "wide.onnx"
    path.write_bytes(deep_network(channels))
    _, content = content_of(path)
    small = quantised_network(path.read_bytes(), "wide", content, PICTURES[:2])
    whole = replace(content, in_8_bits=True)
    files = [detector_file(one, network, "wide", {}, "all") for one, network in
             ((content, path.read_bytes()), (content, small), (whole, small), (whole, path.read_bytes()))]  # fmt: skip
    assert [b"MatMulInteger" in file for file in files] == [False, False, channels >= 64, False]
    assert files[3] == files[0]  # bytes, so scores as well
    windows = np.array([[0, 0, 60, 60], [40, 20, 110, 80], [10, 10, 50, 75]], np.float32)
    expected, found = (OnnxDetector(file).window_scores(PICTURES[3], windows) for file in files[1:3])
    np.testing.assert_allclose(found, expected, atol=0.02)


@pytest.mark.parametrize("shape", [(1, 1, 3), (1, 200, 3), (3000, 1, 3), (90, 120, 3)])
def test_one_picture_of_any_shape_gives_a_network_that_sees_others(network, shape):
    _, content = content_of(network)
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    small = quantised_network(network.read_bytes(), "deep", content, [pixels])
    for seen in (pixels, PICTURES[0]):
        (batch,) = network_inputs(seen, content)
        found = maps_of(small, batch)
        assert found.shape == maps_of(network.read_bytes(), batch).shape
        assert np.isfinite(found).all()


def test_a_picture_that_cannot_be_read_is_named_and_not_the_network(network):
    def pictures():
        yield PICTURES[0]
        raise ImageError("picture a.jpg cannot be read whole: it is cut.")

    _, content = content_of(network)
    with pytest.raises(ImageError, match=r"^picture a\.jpg cannot be read whole"):
        quantised_network(network.read_bytes(), "deep", content, pictures())


def test_a_network_that_cannot_be_quantised_is_one_sentence(network):
    _, content = content_of(network)
    with pytest.raises(DataError, match=r"^network deep cannot be computed in int8: .*\.$"):
        quantised_network(network.read_bytes(), "deep", content, [])
