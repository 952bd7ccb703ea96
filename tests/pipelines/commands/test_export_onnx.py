"""`lapsvm export --format onnx`: the detectors of a run as one file."""

import json

import numpy as np
import pytest
from lapsvm.pipelines.commands.verbs import main

from lapsvm.catalog import open_dataset, read_image
from lapsvm.detection.onnx_file import OnnxDetector

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """A network with a map of colours in cells of 16 pixels."""
    onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
    helper, single = onnx.helper, onnx.TensorProto.FLOAT
    kernel = np.random.default_rng(0).normal(size=(8, 3, 16, 16)).astype(np.float32) / 50
    nodes = [
        helper.make_node("Conv", ["picture", "kernel"], ["sums"], kernel_shape=[16, 16], strides=[16, 16]),
        helper.make_node("Relu", ["sums"], ["map"]),
    ]
    picture = helper.make_tensor_value_info("picture", single, [1, 3, "h", "w"])
    found = helper.make_tensor_value_info("map", single, [1, 8, "r", "c"])
    graph = helper.make_graph(nodes, "tiny", [picture], [found], [onnx.numpy_helper.from_array(kernel, "kernel")])
    path = tmp_path_factory.mktemp("network") / "tiny.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


@pytest.fixture(scope="module")
def of_network(network, digits, fast_network, tmp_path_factory):
    """A run on the network's features with all that recipe best does to scores."""
    run = tmp_path_factory.mktemp("onnx run") / "run"
    chosen = {"features.beside": "true", "features.contrast": ".5", "detect.demotion": "1", "train.candidates": "5"}
    chosen |= {"detect.score_smoothing": ".5", "detect.box_voting": ".7"}
    more = ["--C", "1", "--pca", "6", "--quiet"]
    more += [word for name, value in chosen.items() for word in ("--set", f"{name}={value}")]
    with pytest.raises(SystemExit) as end:
        main(["run", "--data", "voc", "--root", str(digits), "--out", str(run), "--extractor",
              f"onnx:{network}?size=96", *fast_network, *more])  # fmt: skip
    assert end.value.code == 0
    return run


def test_the_file_is_compared_and_written(command, of_network, digits, tmp_path):
    to = tmp_path / "detector.onnx"
    result = command("export", "--out", of_network, "--format", "onnx", "--to", to)
    assert result.status == 0, result.err
    assert "scores of given windows: largest difference" in result.err + result.out
    assert "VOC AP" in result.err + result.out
    assert [path.name for path in tmp_path.iterdir()] == ["detector.onnx"]
    detector = OnnxDetector(to.read_bytes())
    assert json.loads(detector.metadata["classes"]) == ["six", "three"]
    assert detector.metadata["network"] == "tiny.onnx"
    pixels = read_image(open_dataset("voc", digits).records("test")[0].path)
    assert all(len(scores) for _, scores in detector.detect(pixels))


def test_the_same_run_gives_the_same_bytes(command, of_network, tmp_path):
    files = [tmp_path / name for name in ("a.onnx", "b.onnx")]
    for path in files:
        assert command("export", "--out", of_network, "--format", "onnx", "--to", path, "--quiet").status == 0
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_file_with_other_scores_is_not_written(refused, of_network, tmp_path, monkeypatch):
    scores = OnnxDetector.window_scores
    monkeypatch.setattr(OnnxDetector, "window_scores", lambda self, *given: scores(self, *given) + 2e-4)
    said = refused("export", "--out", of_network, "--format", "onnx", "--to", tmp_path / "a.onnx", "--quiet")
    assert "must equal the run's to 0.0001" in said
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("more", [["--per-class", "2"], ["--threshold", ".5"], ["--labelled-only"], ["--copy"]])
def test_options_of_annotations_are_refused(refused, of_network, tmp_path, more):
    said = refused("export", "--out", of_network, "--format", "onnx", "--to", tmp_path / "a.onnx", *more)
    assert f"option {more[0]} chooses boxes of annotations" in said


def test_only_a_new_onnx_file_is_written(refused, of_network, tmp_path):
    (tmp_path / "there.onnx").write_bytes(b"mine")
    for name in ("there.onnx", "detector.bin", "folder"):
        said = refused("export", "--out", of_network, "--format", "onnx", "--to", tmp_path / name)
        assert "option --to must be a new file *.onnx" in said
    assert (tmp_path / "there.onnx").read_bytes() == b"mine"


def test_a_folder_that_is_not_there_is_refused_before_the_comparison(refused, of_network, tmp_path):
    said = refused("export", "--out", of_network, "--format", "onnx", "--to", tmp_path / "none" / "a.onnx")
    assert "option --to must name a file in a folder that is there" in said


def test_a_run_without_a_network_is_refused(refused, finished, tmp_path):
    said = refused("export", "--out", finished, "--format", "onnx", "--to", tmp_path / "a.onnx", "--quiet")
    assert "extractor 'hog' is no network" in said


def test_a_set_that_is_not_there_is_refused(refused, of_network, tmp_path):
    said = refused("export", "--out", of_network, "--format", "onnx", "--to", tmp_path / "a.onnx", "--set", "none")
    assert "option --set must be a set of the run" in said
