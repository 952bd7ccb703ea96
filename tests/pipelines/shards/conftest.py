"""Pictures of which some stand out, and their extraction with sources of objectness of these tests."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from lapsvm.pipelines.products import projection
from lapsvm.pipelines.shards import extraction, forecast
from lapsvm.pipelines.stages import extract as extract_stage
from PIL import Image

from ...twins.networks import onnx_network
from ..calls import done
from .bright_source import LABELS, QUICK, Brightest, label


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Forty pictures with a bright rectangle each; not to be changed."""
    folder = tmp_path_factory.mktemp("pictures")
    for number, name in enumerate(LABELS):
        rng = np.random.default_rng(number)
        pixels = rng.integers(0, 100, (36, 48, 3), dtype=np.uint8)
        top, left = rng.integers(0, 16, 2)
        pixels[top : top + 12, left : left + 20] = rng.integers(130, 256, (12, 20, 3))
        Image.fromarray(pixels).save(folder / f"{name}.png")
    return folder


@pytest.fixture
def root(pictures, tmp_path):
    """The pictures and their labels in a folder that a test may change."""
    data = Path(shutil.copytree(pictures, tmp_path / "data"))
    label(data, LABELS)
    return data


@pytest.fixture(scope="module")
def made_once(pictures, tmp_path_factory):
    """Runs on the pictures without objectness, PLAIN, and with a source of these tests, BRIGHT; not to be changed."""
    folder = tmp_path_factory.mktemp("made")
    label(Path(shutil.copytree(pictures, folder / "data")), LABELS)
    line = ["extract", "--data", "csv", "--root", folder / "data", *QUICK, "--quiet"]
    done(*line, "--objectness", "none", "--out", folder / "PLAIN")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extract_stage, "open_objectness", lambda text, device: Brightest())
        done(*line, "--objectness", "bright", "--out", folder / "BRIGHT")
    return folder


@pytest.fixture
def plain_run(made_once, tmp_path):
    """A run without objectness that a test may change."""
    return shutil.copytree(made_once / "PLAIN", tmp_path / "RUN")


@pytest.fixture
def bright_run(made_once, tmp_path):
    """A run with objectness that a test may change."""
    return shutil.copytree(made_once / "BRIGHT", tmp_path / "RUN")


@pytest.fixture
def source(monkeypatch):
    """Let a name of --objectness open a source of these tests; none stays none."""

    def use(opened):
        monkeypatch.setattr(extract_stage, "open_objectness", lambda text, device: None if text == "none" else opened)
        return opened

    return use


@pytest.fixture
def extract(root, tmp_path, command):
    """Run lapsvm extract; with `objectness` none by default."""

    def run(*more, out="RUN", objectness="none", expected=0):
        line = ["extract", "--data", "csv", "--root", root, "--out", tmp_path / out, *QUICK]
        done = command(*line, "--objectness", objectness, *more)
        assert done.status == expected, done.err
        return done.err

    return run


@pytest.fixture
def unseen(monkeypatch):
    """Let the test fail if a picture is prepared for an extractor."""

    def forbid():
        def prepare(record, *rest):
            raise AssertionError(record.id)

        for module in (extraction, projection, forecast):
            monkeypatch.setattr(module, "prepare_record", prepare)

    return forbid


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """A saliency network of one layer: what is bright stands out."""
    pytest.importorskip("onnxruntime")
    shape, weights = [1, 1, 32, 32], np.full((1, 3, 1, 1), 4.0, np.float32)
    nodes = [("Conv", "input w", "sums", {}), ("Sigmoid", "sums", "map", {})]
    path = tmp_path_factory.mktemp("networks") / "bright.onnx"
    path.write_bytes(onnx_network(nodes, {"input": [1, 3, 32, 32]}, {"map": shape}, {"w": weights}))
    return path
