"""R-CNN's way end to end: each window warped and seen by a network, windows of a source of one's own."""

import json
import sys

import numpy as np
import pytest

from lapsvm.detection import Detector
from lapsvm.features import open_shards, read_header, shard_paths
from lapsvm.features.extractors.warped import network as warped
from lapsvm.windows import methods

pytest.importorskip("torch", reason="torch is not installed")

FACTORY = """
from torch import nn


def net():
    return nn.Sequential(
        nn.Conv2d(3, 6, 5, stride=3), nn.ReLU(), nn.AdaptiveAvgPool2d((3, 3)), nn.Flatten(),
        nn.Linear(54, 24), nn.ReLU(),
    )
"""
TEXT = "torch:papers_net:net?way=warped&size=24&context=3&batch=16"


def quarters(image, mode, seed, threads):
    """Return the quarters of a picture and its middle."""
    height, width = image.shape[:2]
    y, x = height // 2, width // 2
    return [[0, 0, x, y], [x, 0, width, y], [0, y, x, height], [x, y, width, height], [x // 2, y // 2, x + 9, y + 9]]


@pytest.fixture
def own(tmp_path, monkeypatch, entry_point):
    """A factory that can be imported, and an entry point of a source of windows."""
    (tmp_path / "papers_net.py").write_text(FACTORY)
    monkeypatch.syspath_prepend(tmp_path)
    entry_point("lapsvm.windows", "quarters", lambda: quarters)
    caches = methods._find_point, methods._load_source
    [one.cache_clear() for one in caches]
    yield
    [one.cache_clear() for one in caches]
    sys.modules.pop("papers_net", None)


@pytest.mark.usefixtures("own")
def test_it_runs_end_to_end(digits, fast_network, command, tmp_path):
    out = tmp_path / "RUN"
    line = ["--data", "voc", "--root", digits, *fast_network, "--quiet", "--device", "cpu", "--windows", "quarters"]
    done = command("run", *line, "--extractor", TEXT, "--out", out)
    assert (done.status, done.err) == (0, "")
    shards = open_shards(out / "shards" / "trainval")
    made_with = shards.provenance["features"]["extractor"]
    assert made_with.get("of", made_with)["kind"] == "warped-network"
    windows = read_header(shard_paths(out / "shards" / "trainval")[0]).provenance["windows"]
    assert (windows["method"], windows["runtime"]) == ("quarters", {"name": "numpy", "version": np.__version__})
    assert {len(found) for shard in shards for found in np.split(shard.boxes, shard.offsets[1:-1])} == {6}
    assert len(Detector.load(out / "models" / "six.safetensors").coef) == 24
    assert shards.dim == 24
    picture = next((digits / "JPEGImages").iterdir())
    predicted = command("predict", "--model", out / "models", "--extractor", TEXT, picture)
    assert predicted.status == 0
    assert json.loads(predicted.out)


@pytest.mark.usefixtures("own")
def test_a_run_says_that_the_processor_is_slow(digits, fast_network_extraction, command, tmp_path, monkeypatch):
    monkeypatch.setattr(warped, "SLOW", 0.0)
    line = ["--data", "voc", "--root", digits, *fast_network_extraction, "--quiet", "--device", "cpu"]
    done = command("extract", *line, "--extractor", TEXT, "--out", tmp_path / "RUN")
    assert done.status == 0
    (line,) = done.err.splitlines()
    assert line.startswith("network papers_net:net takes about ")


@pytest.mark.usefixtures("own")
def test_windows_of_a_package_that_is_missing_are_refused_before_extraction(digits, fast_network, refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "selectivesearch", None)
    line = ["--data", "voc", "--root", digits, *fast_network, "--extractor", "hog"]
    said = refused("run", *line, "--windows", "selectivesearch", "--out", digits.parent / "NONE")
    assert "method 'selectivesearch' needs selectivesearch, which is not installed" in said
    assert not (digits.parent / "NONE").exists()
