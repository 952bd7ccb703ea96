"""The entries of a run's evaluation.json beside the table."""

import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
from lapsvm.pipelines.annotations.known_boxes import BoxSource
from lapsvm.pipelines.context import open_stored
from lapsvm.pipelines.figures.evaluation import evaluate_set
from lapsvm.pipelines.figures.held_out import Unseen
from lapsvm.pipelines.figures.set_entry import set_entry, stored_entry
from lapsvm.pipelines.figures.tables import _errors_line
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.run.progress import Reporter

from lapsvm.boxes import iou
from lapsvm.evaluation import Detections, Draws, corloc, detection_figures, draw_pictures, evaluate_voc
from lapsvm.evaluation.figure import DRAWS
from lapsvm.features import open_shards


def opened(path):
    return open_stored(RunFolder(path), RunFolder(path).settings(), Reporter(quiet=True))


def evaluated(run, set_name):
    return evaluate_set(run, BoxSource.of(run), set_name)


@pytest.fixture(scope="module")
def sets(finished):
    return json.loads((finished / "evaluation.json").read_text())["sets"]


def test_an_interval_is_that_of_the_drawn_pictures_evaluated_anew(finished, sets):
    """Every draw is made as a data set of its own, in which a picture drawn twice has two names."""
    run = opened(finished)
    evaluation, ids = evaluated(run, "test"), [record.id for record in run.data.records["test"]]
    detections, truth, values = evaluation.detections["six"], evaluation.truth["six"], []
    rows = [np.flatnonzero([image == name for image in detections.image_ids]) for name in ids]
    for counts in draw_pictures(len(ids), DRAWS, 0)[:40]:
        drawn = [(f"{name} {copy}", i) for i, name in enumerate(ids) for copy in range(counts[i])]
        taken = np.concatenate([rows[i] for _, i in drawn])
        names = tuple(new for new, i in drawn for _ in rows[i])
        again = Detections(names, detections.scores[taken], detections.boxes[taken])
        report = evaluate_voc({"six": again}, {"six": {new: truth[ids[i]] for new, i in drawn}})
        values.append(report.classes["six"].ap_area)
    figures = detection_figures(evaluation.voc.classes["six"], detections, truth, Draws.of(ids, 0))
    assert figures["ap_area"].draws[:40] == pytest.approx([np.nan if v is None else v for v in values], nan_ok=True)
    found = sets["test"]["intervals"]["classes"]["six"]["ap_area"]
    assert (found["low"], found["high"]) == figures["ap_area"].interval


def test_every_figure_of_unseen_pictures_corloc_and_pointing_have_intervals(sets):
    for name, measures in (("test", {"ap_11point", "ap_area", "image_ap"}), ("trainval", {"corloc", "pointing"})):
        intervals = sets[name]["intervals"]
        assert (intervals["level"], intervals["draws"], intervals["seed"]) == (0.95, DRAWS, 0)
        for row in (*intervals["classes"].values(), intervals["mean"]):
            assert set(row) == measures
            assert all(0 <= value["low"] <= value["high"] <= 1 for value in row.values())
        for measure in measures:
            assert (
                intervals["mean"][measure]["low"] <= sets[name]["mean"][measure] <= intervals["mean"][measure]["high"]
            )


def test_corloc_is_given_at_three_thresholds(finished):
    """The best windows hold 40 %, 60 % or 80 % of their objects."""
    run = opened(finished)
    evaluation, found = evaluated(run, "trainval"), {}
    for name, truth in evaluation.truth.items():
        objects = [(image, item.boxes[0]) for image, item in truth.items() if len(item.boxes)]
        shares = np.tile([0.4, 0.6, 0.8], len(objects))[: len(objects)]
        boxes = [
            [x1, y1, x2, y1 + share * (y2 - y1)] for (_, (x1, y1, x2, y2)), share in zip(objects, shares, strict=True)
        ]
        found[name] = Detections([image for image, _ in objects], shares, boxes)
    moved = replace(evaluation, detections=found, located=found, corloc=corloc(found, evaluation.truth))
    row = set_entry(run, moved, 0.9)["classes"]["six"]
    assert 1 == row["corloc_30"] > row["corloc"] > row["corloc_70"] > 0
    for key, threshold in (("corloc_30", 0.3), ("corloc", 0.5), ("corloc_70", 0.7)):
        assert row[key] == corloc(found, evaluation.truth, threshold).classes["six"].share


def test_held_out_figures_have_intervals_and_those_of_seen_pictures_none(finished, sets):
    entry = sets["trainval"]["held_out"]
    assert set(entry["intervals"]["mean"]) == {"image_ap", "corloc", "pointing"}
    for name, row in entry["intervals"]["classes"].items():
        assert row["image_ap"]["low"] <= entry["classes"][name]["image_ap"] <= row["image_ap"]["high"]
    run = opened(finished)
    without_boxes = Unseen.of_run(run).figures(None, run).to_json()["intervals"]
    assert without_boxes["classes"]["six"] == {"image_ap": entry["intervals"]["classes"]["six"]["image_ap"]}
    boxless = replace(evaluated(opened(finished), "trainval"), corloc=None, pointing=None, truth=None)
    assert "intervals" not in set_entry(opened(finished), boxless, 0.9)


def test_windows_are_those_of_the_shards(finished, sets):
    run = opened(finished)
    truth = evaluated(run, "trainval").truth["six"]
    best = []
    for shard in open_shards(finished / "shards" / "trainval"):
        for index, image_id in enumerate(shard.image_ids):
            windows = shard.boxes[shard.offsets[index] : shard.offsets[index + 1]]
            objects = truth[image_id].boxes[~truth[image_id].difficult]
            best += [max(iou([box], windows)[0]) for box in objects]
    found = sets["trainval"]["windows"]
    assert found["classes"]["six"]["abo"] == pytest.approx(np.mean(best))
    assert found["classes"]["six"]["recall_50"] == pytest.approx(np.mean(np.array(best) >= 0.5))
    assert found["mean"]["abo"] == pytest.approx(np.mean([row["abo"] for row in found["classes"].values()]))


def test_errors_of_the_test_set_are_told_by_kind(sets):
    assert "errors" not in sets["trainval"]
    for name in ("six", "three"):
        row = sets["test"]["errors"][name]
        assert list(row) == ["correct", "class", "localisation", "both", "duplicate", "background", "missed"]
        assert set(row["class"]) == {"count", "top", "ap_gain"}
        assert sum(kind["count"] for kind in row.values()) > 0


def test_a_stored_entry_counts_only_for_the_same_detections(run_copy):
    run = opened(run_copy)
    evaluation = evaluated(run, "test")
    stored = stored_entry(run, evaluation)
    assert stored == json.loads(json.dumps(set_entry(run, evaluation, 0.9)))
    text = (run_copy / "evaluation.json").read_text()
    changed = json.loads(text)
    changed["sets"]["test"]["classes"]["six"]["image_ap"] = 0.123
    for content in (json.dumps(changed), "[]", "no JSON", text.replace('"intervals"', '"other"'), "{}"):
        (run_copy / "evaluation.json").write_text(content)
        assert stored_entry(run, evaluation) is None


def test_figures_of_before_pointing_are_computed_anew_for_the_page(run_copy, command):
    run, page = opened(run_copy), run_copy / "page" / "index.html"
    evaluation, path = evaluated(run, "trainval"), run_copy / "evaluation.json"
    shown = page.read_text().count(">Pointing</th>")
    stored = json.loads(path.read_text())
    path.write_text(json.dumps(without_pointing(stored)))
    assert stored_entry(run, evaluation) is None
    assert command("report", "--out", run_copy).status == 0
    assert page.read_text().count(">Pointing</th>") == shown > 3
    stored["sets"]["trainval"]["classes"]["six"]["pointing"] += 0.25
    path.write_text(json.dumps(stored))
    assert stored_entry(run, evaluation) is None


def without_pointing(content):
    """Return JSON content without any key "pointing"."""
    if not isinstance(content, dict):
        return content
    return {key: without_pointing(value) for key, value in content.items() if key != "pointing"}


def test_without_shards_the_windows_are_left_out(run_copy, command):
    shutil.rmtree(run_copy / "shards")
    result = command("evaluate", "--out", run_copy)
    assert result.status == 0, result.err
    assert "95% intervals of the means over pictures: AP 11-point [0." in result.out
    test = json.loads((run_copy / "evaluation.json").read_text())["sets"]["test"]
    assert len(re.findall(r"^errors: .* best boxes \(as many as objects\) are wrong; most", result.out, re.M)) == 1
    assert "windows" not in test
    assert "errors" in test


def test_coco_figures_of_a_run_stand_beside_the_others(run_copy, command):
    pytest.importorskip("faster_coco_eval", reason="faster-coco-eval is not installed")
    result = command("evaluate", "--out", run_copy, "--metrics", "coco")
    assert result.status == 0, result.err
    assert "COCO AP" in result.out
    entry = json.loads((run_copy / "evaluation.json").read_text())["sets"]
    assert entry["test"]["mean"]["ap_11point"] is not None
    assert 0 < entry["test"]["mean"]["coco_ap"] < entry["test"]["mean"]["coco_ap50"]
    assert "coco_ap" not in entry["trainval"]["mean"]


def test_the_most_frequent_kind_of_error_is_one_line():
    def of_class(**top):
        return {kind: {"count": 9, "top": count, "ap_gain": None} for kind, count in top.items()}

    cat = of_class(correct=1200, **{"class": 1}, localisation=3, both=0, duplicate=0, background=2, missed=90)
    dog = of_class(correct=5, **{"class": 0}, localisation=1, both=0, duplicate=0, background=1, missed=0)
    assert _errors_line({"cat": cat, "dog": dog}) == (
        "errors: 8 of the 1,213 best boxes (as many as objects) are wrong; most frequent kind: localisation (50%)"
    )
    assert _errors_line({}) == ""
    assert _errors_line({"dog": of_class(correct=5, missed=2)}) == ""
