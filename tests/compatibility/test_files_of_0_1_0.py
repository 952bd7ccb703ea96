"""Every kind of file that 0.1.0 wrote is read, and gives what it gave then.

``0.1.0/`` is a run on drawn digits (``write_digits(root, **DIGITS)``, options in its run.toml), an
estimator, a prediction, and an export of the run. It is never made again; a later format gets a folder of its own.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lapsvm.detection import Detector
from lapsvm.features.shards.shard_file import read_shard
from lapsvm.models import load

OLD = Path(__file__).parent / "0.1.0"
DIGITS = {"seed": 3, "n_train": 10, "n_test": 10}


def lines(folder):
    """Return picture, score and box of all lines of a folder's result files."""
    found = [line.split() for path in sorted(folder.glob("*.txt")) for line in path.read_text().splitlines()]
    return [line[0] for line in found], np.array([line[1:] for line in found], dtype=float)


def shape_of(content):
    """Return the keys of JSON content, with the type of every value."""
    if isinstance(content, dict):
        return {key: shape_of(value) for key, value in content.items()}
    return [shape_of(value) for value in content[:1]] if isinstance(content, list) else type(content)


def test_shards_and_models_are_whole(copy, status):
    before = sorted(path for path in copy.rglob("*") if path.is_file())
    assert status("verify", "--out", copy, "--quiet") == 2  # the run is stored without detections and page
    assert status("verify", "--out", copy, "--repair", "--quiet") == 0
    assert all(path.is_file() for path in before)  # nothing is damaged
    shard = read_shard(OLD / "shards" / "test" / "0000000.safetensors")
    assert len(shard.image_ids) == 10
    assert Detector.load(OLD / "models" / "six.safetensors").class_name == "six"


def test_the_run_detects_evaluates_and_reports_as_it_did(copy, digits, status):
    shutil.rmtree(copy / "detections")
    (copy / "evaluation.json").unlink()
    for verb in ("detect", "evaluate", "report"):
        assert status(verb, "--out", copy, "--root", digits, "--quiet") == 0
    pictures, numbers = lines(copy / "detections" / "test")
    assert pictures == lines(OLD / "detections" / "test")[0]
    np.testing.assert_allclose(numbers, lines(OLD / "detections" / "test")[1], rtol=1e-9)
    old, new = (json.loads((run / "evaluation.json").read_text())["sets"]["test"] for run in (OLD, copy))
    for name, figures in old["classes"].items():
        assert new["classes"][name] == pytest.approx(figures), name


def test_an_estimator_decides_as_it_did():
    decision = load(OLD / "estimator.safetensors").decision_function(np.array([[1.0, 2.0, 3.0]]))
    np.testing.assert_allclose(decision, [0.28234261], rtol=1e-6)


def test_predictions_have_at_least_the_keys_they_had(tmp_path, capsys, status):
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (60, 80, 3), np.uint8)).save(tmp_path / "drawn.png")
    assert status("predict", "--model", OLD, tmp_path / "drawn.png", "--quiet") == 0
    old, new = (
        shape_of(json.loads((OLD / "predictions.json").read_text())),
        shape_of(json.loads(capsys.readouterr().out)),
    )
    assert new[0].items() >= {key: kind for key, kind in old[0].items() if key != "detections"}.items()
    assert new[0]["detections"][0].items() >= old[0]["detections"][0].items()


def test_exported_boxes_are_evaluated(status):
    coco = OLD / "coco"
    assert status("evaluate", "--coco", coco / "annotations.json", "--results", coco / "results.json", "--quiet") == 0
