"""What 0.2.0 wrote beside the files of 0.1.0 is read: verdicts, refined models, their folds, held-out scores.

``0.2.0/`` is a run on drawn digits (``write_digits(root, **DIGITS)``, options in its run.toml),
reviewed with nine verdicts and refined again, and an export of it. It is never made again.
"""

import json
import shutil
from pathlib import Path

import numpy as np
from lapsvm.pipelines.products.held_out import read_held_out
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.verdicts.verdict import read_verdicts

from lapsvm.detection import Detector

OLD = Path(__file__).parent / "0.2.0"
DIGITS = {"seed": 3, "n_train": 20, "n_test": 10}


def test_every_file_is_whole(copy, status):
    before = sorted(path for path in copy.rglob("*") if path.is_file())
    assert status("verify", "--out", copy, "--quiet") == 2  # the run is stored without detections and page
    assert status("verify", "--out", copy, "--repair", "--quiet") == 0
    assert all(path.is_file() for path in before)  # nothing is damaged
    assert len(read_held_out(RunFolder(OLD), "six").ids) == 20
    assert Detector.load(OLD / "first" / "six.safetensors").class_name == "six"


def test_verdicts_are_figures_and_train_the_same_models(copy, digits, status):
    models = {path.name: Detector.load(path).coef for path in (copy / "models").iterdir()}
    shutil.rmtree(copy / "models")
    shutil.copytree(copy / "first", copy / "models")
    for verb in ("refine", "detect", "evaluate"):
        assert status(verb, "--out", copy, "--root", digits, "--quiet") == 0
    for name, coef in models.items():
        again = Detector.load(copy / "models" / name).coef
        np.testing.assert_allclose(again, coef, atol=0.05 * np.abs(coef).max())  # processors round differently
    old, new = (json.loads((run / "evaluation.json").read_text())["verified"] for run in (OLD, copy))
    assert {name: one["of"] for name, one in new["classes"].items()} == {"six": 4, "three": 4}
    assert new.keys() == old.keys()


def test_verdicts_are_read_line_by_line():
    said = read_verdicts(OLD / "verdicts.jsonl")
    kinds = [one.verdict for own in said.by_class.values() for one in own.values()]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {"boxes": 6, "none": 2, "skip": 1}


def test_exported_boxes_are_evaluated(status):
    coco = OLD / "coco"
    assert status("evaluate", "--coco", coco / "annotations.json", "--results", coco / "results.json", "--quiet") == 0
