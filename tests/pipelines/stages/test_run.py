"""The main job, from pictures to figures."""

import csv
import json
import re
import tomllib
from itertools import pairwise
from operator import itemgetter

import numpy as np
import pytest
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.shards import extraction
from lapsvm.pipelines.shards.windows import window_boxes
from sklearn.metrics import average_precision_score

from lapsvm.catalog import open_dataset
from lapsvm.detection import Detector
from lapsvm.evaluation import read_results
from lapsvm.features import open_shards


def test_a_run_folder_holds_everything(finished):
    names = {str(p.relative_to(finished)) for p in finished.rglob("*") if p.is_file()}
    assert {
        "run.toml",
        "timings.json",
        "history.csv",
        "evaluation.json",
        "page/index.html",
        "models/six.safetensors",
        "models/three.safetensors",
        "detections/test/comp3_det_test_six.txt",
        "detections/trainval/comp3_det_trainval_three.txt",
    } <= names


def test_evaluation_json_has_the_promised_form(finished):
    sets = json.loads((finished / "evaluation.json").read_text())["sets"]
    assert set(sets) == {"trainval", "test"}
    test = {"ap_11point", "ap_area", "image_ap"}
    trainval = {"corloc", "corloc_30", "corloc_70", "pointing", "image_ap"}
    for name in ("six", "three"):
        assert set(sets["test"]["classes"][name]) == test | {"npos"}
        assert set(sets["trainval"]["classes"][name]) == trainval
    assert set(sets["test"]["mean"]) == test
    assert set(sets["trainval"]["mean"]) == trainval


def test_image_ap_is_scikit_learns_on_the_best_windows(finished, digits):
    sets = json.loads((finished / "evaluation.json").read_text())["sets"]
    found = read_results(finished / "detections" / "test", "test")["six"]
    best = dict(sorted(zip(found.image_ids, found.scores, strict=True), key=itemgetter(1)))
    records = [r for r in open_dataset("voc", digits).records("test") if r.labels["six"]]
    expected = average_precision_score([r.labels["six"] > 0 for r in records], [best[r.id] for r in records])
    assert sets["test"]["classes"]["six"]["image_ap"] == pytest.approx(expected, abs=1e-12)


def test_the_first_window_is_the_whole_picture(finished):
    shard = open_shards(finished / "shards" / "trainval").read(0)
    for start, (height, width) in zip(shard.offsets[:-1], shard.sizes, strict=True):
        assert shard.boxes[start].tolist() == [0, 0, width, height]


def strange_windows(run, root):
    """Return picture -> its windows that do not come from its pixels alone."""
    settings = RunFolder(run).settings()
    strange = {}
    for set_name in ("trainval", "test"):
        records = {record.id: record for record in open_dataset("voc", root).records(set_name)}
        for shard in open_shards(run / "shards" / set_name):
            for index, image_id in enumerate(shard.image_ids):
                boxes = shard.boxes[shard.offsets[index] : shard.offsets[index + 1]].tolist()
                own = window_boxes(records[image_id].pixels(), settings.windows, settings.seed).tolist()
                if boxes != own:
                    strange[image_id] = [box for box in boxes if box not in own]
    return strange


def test_no_window_was_taken_from_the_ground_truth(finished, digits):
    """Boxes of the ground truth in a feature cache would make the figures meaningless."""
    assert strange_windows(finished, digits) == {}


def test_one_window_from_the_ground_truth_would_be_found(digits, tmp_path, command, fast_extraction, monkeypatch):
    truth = open_dataset("voc", digits).ground_truth("trainval")["six"]
    image_id = next(name for name, objects in truth.items() if len(objects.boxes))

    def leaking(pixels, settings, seed, name):
        boxes = window_boxes(pixels, settings, seed, name)
        if name == image_id:
            boxes[-1] = truth[name].boxes[0]
        return boxes

    monkeypatch.setattr(extraction, "window_boxes", leaking)
    line = ["extract", "--data", "voc", "--root", digits, "--out", tmp_path / "RUN", *fast_extraction]
    assert command(*line).status == 0
    assert strange_windows(tmp_path / "RUN", digits) == {image_id: [truth[image_id].boxes[0].tolist()]}


def test_settings_versions_and_the_command_are_kept(finished):
    tables = tomllib.loads((finished / "run.toml").read_text())
    assert tables["windows"]["method"] == "grid"
    assert tables["train"]["C"] == [1.0, 10.0]
    assert tables["seed"] == 0
    assert {"lapsvm", "numpy", "python"} <= set(tables["versions"])


def test_a_rerun_makes_nothing_again(run_copy, digits, command, fast):
    before = {path: path.stat().st_mtime_ns for path in run_copy.glob("shards/*/*")}
    before |= {path: path.stat().st_mtime_ns for path in [*run_copy.glob("models/*"), *run_copy.glob("detections/*/*")]}
    assert command("run", "--data", "voc", "--root", digits, "--out", run_copy, *fast).status == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_stages_one_by_one_with_other_threads_give_the_same_bytes(
    finished, digits, tmp_path, command, made, fast_extraction, fast_training
):
    out = tmp_path / "stages"
    data = ["--data", "voc", "--root", digits]
    assert command("extract", *data, "--out", out, "--jobs", 1, *fast_extraction).status == 0
    assert command("train", "--out", out, "--jobs", 1, *fast_training).status == 0
    assert command("detect", "--out", out, "--jobs", 1).status == 0
    for verb in ("evaluate", "report"):
        assert command(verb, "--out", out).status == 0
    assert made(out) == made(finished)


def test_a_model_knows_where_it_comes_from_without_any_path(finished, digits):
    detector = Detector.load(finished / "models" / "six.safetensors")
    raw = (finished / "models" / "six.safetensors").read_bytes()
    assert detector.provenance["training"]["loss"] == "ap"
    assert detector.provenance["result"]["C"] in (1.0, 10.0)
    assert detector.provenance["result"]["duality_gap"] <= 0.001
    assert str(digits).encode() not in raw
    assert np.isfinite(detector.coef).all()


def test_the_page_counts_every_positive_picture_by_its_best_window(finished):
    page = (finished / "page" / "index.html").read_text()
    table = page.split("What the best box covers")[-1].split("</table>")[0]
    found = json.loads((finished / "evaluation.json").read_text())["sets"]["trainval"]["held_out"]["classes"]
    for name in ("six", "three"):
        row = table.split(f">{name}</th>")[1].split("</tr>")[0]
        pictures, right, *missed = [int(count) for count in re.findall(r">(\d+)</td>", row)]
        assert right / pictures == pytest.approx(found[name]["corloc"])
        assert len(missed) == 4
        assert right + sum(missed) == pictures


def test_history_has_one_row_per_outer_step_and_never_rises(finished):
    with (finished / "history.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["role"] == "final"]
    assert {row["class"] for row in rows} == {"six", "three"}
    for name in ("six", "three"):
        values = [float(row["objective"]) for row in rows if row["class"] == name]
        assert all(after <= before * (1 + 1e-3) for before, after in pairwise(values))


def test_history_tells_passes_and_seconds_which_only_rise(finished):
    with (finished / "history.csv").open() as file:
        rows = list(csv.DictReader(file))
    trainings = {(row["class"], row["role"], row["C"]) for row in rows}
    assert {role for _, role, _ in trainings} == {"final", "fold 1", "fold 2"}
    for training in trainings:
        own = [row for row in rows if (row["class"], row["role"], row["C"]) == training]
        for name in ("passes", "seconds"):
            values = [float(row[name]) for row in own]
            assert values[0] >= 0
            assert values == sorted(values)
    page = (finished / "page" / "index.html").read_text()
    assert page.count("<summary>Table of the steps</summary>") == 2
