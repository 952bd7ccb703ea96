"""`lapsvm threshold` learns from whole pictures, and `predict` and `Predictor` decide as it has measured."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from lapsvm.pipelines.context import RunContext
from lapsvm.pipelines.inspection.decisions import calibrated_detectors, known_detections, known_held_out
from lapsvm.pipelines.inspection.whole_pictures import HELD_OUT, TESTED, PictureRules, learn_whole_pictures
from lapsvm.pipelines.products.held_out import HeldOut
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.run.progress import Reporter

from lapsvm.bfloat16 import as_float32
from lapsvm.detection import AlarmThreshold, Calibration, Detected, Detector, Predictor, ScoredPicture, Shown
from lapsvm.evaluation import image_auroc, image_average_precision
from lapsvm.features import open_shards
from lapsvm.inspection import whole_pictures as second
from lapsvm.inspection.threshold_file import signed
from lapsvm.inspection.whole_pictures import PictureModel, fit_picture_model
from lapsvm.settings import DetectSettings


@pytest.fixture
def run(inspected, tmp_path, monkeypatch):
    """A finished run, some of whose whole pictures say something, whose few pictures are enough for once."""
    monkeypatch.setattr(second, "LEAST", 3)
    copy = shutil.copytree(inspected, tmp_path / "RUN")
    random = np.random.default_rng(1)
    for path in (copy / "heldout").iterdir():  # best windows that tell less, so that whole pictures add something
        held_out = HeldOut.load(path)
        replace(held_out, score=random.normal(0, 0.2, len(held_out.ids)) + 0.15 * held_out.y).save(path)
    return copy


def learned(run):
    """Return a run, and its rules by best windows and with whole pictures."""
    folder = RunFolder(run)
    stored = RunContext(folder, folder.settings(), 1, Reporter(True)).stored
    detectors = calibrated_detectors(stored)
    alone = PictureRules(detectors, known_held_out(folder, detectors))
    return stored, alone, learn_whole_pictures(stored, alone, Reporter(True))


def sets(stored, rules):
    return rules.sets(known_detections(stored), stored.data.records[stored.settings.data.test_set])


def slow_means(run, name):
    """Return the mean features of each picture of a set, window by window."""
    means = {}
    for shard in open_shards(run / "shards" / name):
        for picture in shard.pictures():
            windows = as_float32(picture.features)
            means[picture.image_id] = sum(row.astype(float) for row in windows) / len(windows)
    return means


def test_models_are_of_mean_features_and_of_the_folds_of_held_out_scores(run):
    stored, _, whole = learned(run)
    means = slow_means(run, stored.train_set)
    assert whole.fitted
    for name, one in whole.held_out.items():
        expected = fit_picture_model([means[image_id] for image_id in one.ids], one.score, one.y, one.fold)
        assert (expected is None) == (name not in whole.fitted)
        if expected is not None:
            np.testing.assert_allclose(whole.fitted[name].held_out, expected.held_out, atol=1e-5)
    joined = sets(stored, whole)[HELD_OUT]
    for name, fitted in whole.fitted.items():
        np.testing.assert_array_equal(joined.probabilities[:, joined.classes.index(name)], fitted.held_out)


def test_predict_says_of_test_pictures_what_the_threshold_was_tested_on(run, command):
    assert command("threshold", "--out", run).status == 0
    stored, *rules = learned(run)
    alone, tested = (sets(stored, one)[TESTED] for one in rules)
    predictor, records = Predictor.open(run), list(stored.data.records[stored.settings.data.test_set])
    assert predictor.shown.alarm.pictures
    found = [predictor.decision(record.path) for record in records]
    np.testing.assert_allclose([one.probability for one in found], tested.best, atol=2e-3)
    assert np.abs(tested.best - alone.best).max() > 0.02
    entries = json.loads(command("predict", "--model", run, *(record.path for record in records), "--quiet").out)
    for entry, decision, record in zip(entries, found, records, strict=True):
        assert (entry["verdict"], entry["probability"]) == (decision.name, decision.probability)
        assert decision.is_ok == (not entry["detections"])
        assert decision.is_ok or predictor.scored(record.path).best_class() == decision.name
    alarms = sum(not decision.is_ok for decision in found)
    assert alarms == sum(
        one["alarms"] for one in json.loads((run / "models/threshold.json").read_text())["tested"].values()
    )


def test_boxes_and_all_other_files_stay_as_they_are(run, command, product):
    pictures = sorted(product.glob("test/*/00[0-3].png"))
    ask = ("predict", "--model", run, *pictures, "--threshold", "0", "--quiet")
    before, boxes = (
        {path: path.read_bytes() for path in run.rglob("*") if path.is_file()},
        json.loads(command(*ask).out),
    )
    command("threshold", "--out", run)
    changed = {path for path in run.rglob("*") if path.is_file() and path.read_bytes() != before.get(path)}
    assert {path.name for path in changed} == {"threshold.json", ".lapsvm-files", "index.html", "timings.json"}
    for entry, known in zip(json.loads(command(*ask).out), boxes, strict=True):
        assert entry["detections"] == known["detections"]


def test_figures_stand_beside_those_of_best_windows(run, command):
    result = command("threshold", "--out", run, "--json")
    stored, alone, whole = learned(run)
    figures = json.loads(result.out)["figures"]
    assert "pictures" not in figures
    for name, rules in (("verdicts", whole), ("best_windows", alone)):
        assert figures["any_class"][name] == {
            key: {
                "image_ap": image_average_precision(one.best, one.any_shown),
                "image_auroc": image_auroc(one.best, one.any_shown),
            }
            for key, one in sets(stored, rules).items()
        }
    said = command("threshold", "--out", run).out
    assert f"count beside best windows for {', '.join(whole.fitted)}" in said
    for name, rows in figures["any_class"].items():
        for set_name, row in rows.items():
            known = figures["any_class_intervals"][name][set_name]["image_auroc"]
            assert f"{row['image_auroc']:.3f} [{known['low']:.3f}, {known['high']:.3f}]" in said


def test_what_orders_no_more_pairs_of_the_other_folds_is_left_out(run, command, monkeypatch):
    monkeypatch.setattr(second, "orders_better", lambda _: False)
    result = command("threshold", "--out", run)
    assert "best windows alone decide for bar, spot: whole pictures add nothing" in result.out
    content = json.loads((run / "models/threshold.json").read_text())
    assert content["pictures"] == {}
    assert content["held_out"] == json.loads(command("threshold", "--out", run, "--json").out)["figures"]["held_out"]


def test_without_features_or_with_few_pictures_best_windows_decide(inspected, run, command, monkeypatch):
    shutil.move(run / "shards" / "test", run / "kept")
    result = command("threshold", "--out", run)
    assert result.status == 0, result.err
    assert "shards/test holds no features, so best windows alone decide" in result.err
    assert "best windows alone decide for bar, spot: the features of the run are gone" in result.out
    alone = (run / "models/threshold.json").read_bytes()
    shutil.move(run / "kept", run / "shards" / "test")
    monkeypatch.setattr(second, "LEAST", 10)
    result = command("threshold", "--out", run)
    assert (
        "best windows alone decide for bar, spot: whole pictures need 10 with and without the class in every"
        in result.out
    )
    assert (run / "models/threshold.json").read_bytes() == alone
    assert json.loads(alone)["pictures"] == {}


def test_a_file_of_version_1_decides_by_best_windows(run, command, product):
    command("threshold", "--out", run)
    path, picture = run / "models/threshold.json", product / "test/bar/001.png"
    content = json.loads(path.read_text())
    for later in ("pictures", "digest", "confidence", "promise", "scoring"):
        del content[later]
    path.write_text(json.dumps(content | {"version": 1, "probability": 0.01}))
    predictor = Predictor.open(run)
    best = max(found.probabilities[0] for found in replace(predictor, shown=Shown(0))(picture).values())
    assert predictor.decision(picture).probability == best


def test_damaged_and_other_models_are_named(run, command, refused, product):
    command("threshold", "--out", run)
    path, ask = run / "models/threshold.json", ("predict", "--model", run, product / "test/bar/001.png")
    content = json.loads(path.read_text())
    name, model = next(iter(content["pictures"].items()))
    short = PictureModel(1.0, 0.0, [1.0, 2.0]).as_json()
    path.write_text(signed(content | {"pictures": {name: short}}))
    assert "was chosen for other models and is not used; run lapsvm threshold again" in command(*ask).err
    path.write_text(signed(content | {"pictures": {name: {**model, "coef": model["coef"][:-3]}}}))
    assert "threshold.json is damaged or of another version" in refused(*ask)


def test_a_drawing_shows_the_best_box_of_a_picture_that_alarms_as_a_whole(run, command, product, tmp_path):
    command("threshold", "--out", run)
    path = run / "models/threshold.json"
    content = json.loads(path.read_text())
    for model in content["pictures"].values():
        model |= {"slope": 0.0, "offset": 30.0, "coef": PictureModel(0, 0, np.zeros(len(_coef(run)))).as_json()["coef"]}
    path.write_text(signed(content | {"probability": 0.999}))
    ask = ("predict", "--model", run, product / "test/good/003.png", "--draw", tmp_path / "drawn")
    result = command(*ask)
    (entry,) = json.loads(result.out)
    assert entry["verdict"] in content["pictures"]
    assert entry["probability"] > 0.999
    assert {one["class"] for one in entry["detections"]} >= set(content["pictures"])
    assert all(one["probability"] < 0.999 for one in entry["detections"])
    assert f"{len(entry['detections'])} boxes in 1 of 1 pictures, with an alarm of their class" in result.err


def _coef(run):
    return next(Detector.load(path) for path in (run / "models").glob("*.safetensors")).whole.coef


def scored(best, whole, alarm, is_plain=False):
    """Return a picture of one window of two classes, of which `whole` are scores of the whole picture."""
    detectors = [Detector(name, [1.0], calibration=Calibration(1.0, 0.0)) for name in best]
    boxes, scores = np.array([[0, 0, 4, 4]], np.float32), np.array([list(best.values())], float)
    rules = [DetectSettings()] * len(best)
    return ScoredPicture((8, 8), boxes, scores, detectors, rules, Shown(alarm=alarm), is_plain, whole)


def test_a_class_with_a_picture_model_is_judged_by_both_scores_and_others_by_the_best_window():
    alarm = AlarmThreshold(0.7, 0.05, {}, pictures={"uneven": PictureModel(0.5, -1.0, [1.0])})
    picture = scored({"crack": 0.5, "uneven": -2.0}, {"uneven": 3.5}, alarm)
    decision, found = picture.decision(), picture.detections()
    assert (decision.name, decision.probability) == ("uneven", pytest.approx(1 / (1 + np.exp(-(0.5 * -2 + 3.5 - 1)))))
    assert [len(one.boxes) for one in found.values()] == [0, 1]
    assert found["uneven"].probabilities == pytest.approx([1 / (1 + np.exp(2))])
    assert picture.best_class() == "uneven"
    calm = scored({"crack": 0.5, "uneven": 4.0}, {"uneven": -3.5}, alarm)
    assert (calm.decision().is_ok, calm.decision().probability) == (True, pytest.approx(1 / (1 + np.exp(-0.5))))
    assert all(isinstance(one, Detected) and not len(one.boxes) for one in calm.detections().values())
    plain = scored({"crack": 5.0, "uneven": 4.0}, {"uneven": 9.0}, alarm, is_plain=True)
    assert (plain.decision().is_ok, plain.decision().probability) == (True, 0.0)
