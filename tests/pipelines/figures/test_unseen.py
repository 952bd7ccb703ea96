"""What unseen pictures say: held-out figures, thresholds, weak features; on the terminal and in evaluation.json."""

import json
from dataclasses import replace

import numpy as np
import pytest
from lapsvm.pipelines.figures.held_out import Unseen
from lapsvm.pipelines.products.held_out import HeldOut, read_held_out
from lapsvm.pipelines.run.folder import RunFolder

from lapsvm.catalog import open_dataset
from lapsvm.detection import Detector
from lapsvm.evaluation import evaluate_voc, read_results


def figures(run):
    return json.loads((run / "evaluation.json").read_text())["sets"]


def test_the_held_out_figures_are_those_of_the_scores(finished, digits):
    entry = figures(finished)["trainval"]["held_out"]
    truth = open_dataset("voc", digits, classes=("six", "three")).ground_truth("trainval")
    for name, row in entry["classes"].items():
        held_out = read_held_out(RunFolder(finished), name)
        reliability = Detector.load(finished / "models" / f"{name}.safetensors").calibration.reliability
        assert row == {
            "corloc": held_out.corloc(name, truth[name]).share,
            "pointing": held_out.pointing(name, truth[name]).share,
            "image_ap": held_out.image_ap,
            "chance": (held_out.y > 0).mean(),
            "ece": reliability.ece,
            "brier": reliability.brier,
        }
    assert entry["mean"]["image_ap"] == pytest.approx(np.mean([row["image_ap"] for row in entry["classes"].values()]))


def test_thresholds_reach_what_they_say(finished, digits):
    entry = figures(finished)["test"]["thresholds"]
    assert entry["wanted"] == 0.9
    truth = open_dataset("voc", digits, classes=("six", "three")).ground_truth("test")
    found = read_results(finished / "detections" / "test", "test")
    assert any(rules["best_f1"] for rules in entry["classes"].values())
    for name, rules in entry["classes"].items():
        best = rules["best_f1"]
        if best is None:  # no true positive
            assert not evaluate_voc({name: found[name]}, {name: truth[name]}).classes[name].tp.any()
            continue
        kept = found[name].scores >= best["score"]
        cut = type(found[name])(
            tuple(np.array(found[name].image_ids)[kept]), found[name].scores[kept], found[name].boxes[kept]
        )
        last = evaluate_voc({name: cut}, {name: truth[name]}).classes[name]
        assert (best["precision"], best["recall"]) == pytest.approx((last.precision[-1], last.recall[-1]))
        model = Detector.load(finished / "models" / f"{name}.safetensors")
        assert best["probability"] == model.probability([best["score"]])[0]
        if rules["wanted_precision"] is not None:
            assert rules["wanted_precision"]["precision"] >= 0.9


def test_the_terminal_says_first_what_unseen_pictures_say(run_copy, command):
    said = command("evaluate", "--out", run_copy, "--precision", "0.5")
    assert said.status == 0
    titles = ["test set", "trainval set, held out: each picture by", "trainval set, in-sample", "test set, thresholds"]
    places = [said.out.index(title) for title in titles]
    assert places == sorted(places)
    assert "precision 0.5" in said.out
    assert figures(run_copy)["test"]["thresholds"]["wanted"] == 0.5


def test_a_run_without_models_and_held_out_scores_is_evaluated_as_before(run_copy, command):
    for path in [*(run_copy / "models").iterdir(), *(run_copy / "heldout").iterdir()]:
        path.unlink()
    said = command("evaluate", "--out", run_copy)
    assert said.status == 0
    assert "held out" not in said.out
    assert "held_out" not in figures(run_copy)["trainval"]
    rules = figures(run_copy)["test"]["thresholds"]["classes"]["six"]
    assert rules["best_f1"]["probability"] is None


@pytest.mark.parametrize("precision", ["0", "1.5", "-1"])
def test_a_precision_that_is_no_share_is_refused(refused, finished, precision):
    assert "option --precision must be" in refused("evaluate", "--out", finished, "--precision", precision)


def held_out(scores, y):
    n = len(y)
    ids, boxes = tuple(map(str, range(n))), np.tile([0.0, 0, 1, 1], (n, 1))
    return HeldOut(ids, np.array(y, dtype=np.int8), np.ones(n, dtype=int), np.array(scores), boxes, np.ones(n))


def test_weak_features_are_said_in_one_sentence():
    rng = np.random.default_rng(0)
    y = np.repeat([1, -1], [30, 90])
    good, bad, constant = held_out(y + 0.0, y), held_out(rng.normal(size=120), y), held_out(np.zeros(120), y)
    unseen = Unseen({"cat": good, "dog": constant}, {})
    assert unseen.weakness_message().startswith(
        "the detectors hardly separate pictures with and without a class, held-out image AP: dog 0.25 (chance 0.25); "
    )
    assert unseen.weakness_message().endswith(
        "check the labels, add pictures, or use features of another network (--extractor)."
    )
    assert Unseen({"cat": good}, {}).weakness_message() == ""
    assert "cat" in Unseen({"cat": bad}, {}).weakness_message()


def test_weak_features_are_said_on_the_terminal(run_copy, command):
    path = RunFolder(run_copy).held_out("six")
    one = read_held_out(RunFolder(run_copy), "six")
    replace(one, score=np.zeros(len(one.ids))).save(path)
    said = command("evaluate", "--out", run_copy)
    assert "evaluate: the detectors hardly separate" in said.out + said.err
