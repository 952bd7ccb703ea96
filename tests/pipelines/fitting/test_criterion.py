"""The criterion "agreement": its definition, its guard against models that merely repeat themselves, its account."""

import csv
import json
import statistics
from dataclasses import replace

import numpy as np
import pytest
from lapsvm.pipelines.fitting.fit import Constants, FitRequest, problem
from lapsvm.pipelines.fitting.selection import GUARD, best_candidate, choose_constants, held_out_folds
from lapsvm.pipelines.fitting.training_bags import training_bags
from lapsvm.pipelines.run.context import RunContext
from lapsvm.pipelines.run.dataset import label_vector
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.run.progress import Reporter
from lapsvm.pipelines.stages import train

from lapsvm.boxes import iou
from lapsvm.detection import Detector
from lapsvm.features import open_shards
from lapsvm.latent import fit_many

AGREEMENT = ["--criterion", "agreement"]


def entry(C, image_ap, agreement=None):
    """Return a candidate with the same values in both folds."""
    both = {} if agreement is None else {"agreement": [agreement] * 2}
    return {"C": C, "folds": [image_ap] * 2} | both


@pytest.fixture
def context(finished):
    """Return the context of a finished run, with the criterion agreement."""
    run = RunFolder(finished)
    return RunContext(run, run.settings().with_values({"train.criterion": "agreement"}), 1, Reporter(True))


@pytest.fixture
def material(context):
    """Return the training set: bags, their boxes (n, 4) and the labels of the class six."""
    shards = open_shards(context.run.shards("trainval"))
    by_id = {record.id: record for record in context.data.records["trainval"]}
    y = label_vector([by_id[image] for image in shards.image_ids], "six")
    return training_bags(context, shards)[0], np.concatenate([shard.boxes for shard in shards]), y


@pytest.fixture
def untrained(run_copy):
    """Return a run folder that has shards and no models."""
    for path in (run_copy / "models").iterdir():
        path.unlink()
    (run_copy / "history.csv").unlink()
    return run_copy


@pytest.mark.parametrize(
    ("candidates", "chosen"),
    [
        ([entry(1, 0.91), entry(2, 0.93)], 1),
        ([entry(1, 0.91, 0.8), entry(2, 0.93, 0.7)], 0),
        ([entry(1, 0.93 - GUARD, 0.8), entry(2, 0.93, 0.7)], 0),
        ([entry(1, 0.93 - GUARD - 0.001, 1.0), entry(2, 0.93, 0.7)], 1),
        ([entry(3, 0.9, 0.8), entry(1, 0.9, 0.8), entry(2, 0.91, 0.8)], 1),
        ([entry(3, 0.9), entry(1, 0.9), entry(2, 0.89)], 1),
    ],
    ids=["image AP", "agreement", "at the guard", "below the guard", "a tie", "a tie of image AP"],
)
def test_the_candidate_taken_agrees_best_among_those_that_rank_pictures_well(candidates, chosen):
    assert best_candidate(candidates) == chosen


@pytest.mark.parametrize(
    ("image_aps", "margin", "chosen"),
    [
        ([0.90, 0.93, 0.95], 0.0, 2),
        ([0.90, 0.93, 0.95], 0.02, 1),
        ([0.90, 0.93, 0.95], 0.05, 0),
        ([0.40, 0.93, 0.95], 0.05, 1),
        ([1.0, 1.0, 1.0], 0.0, 0),
    ],
)
def test_with_a_margin_the_smallest_C_of_those_about_as_good_is_taken(image_aps, margin, chosen):
    candidates = [{"C": C, "folds": [value, value]} for C, value in enumerate(image_aps, start=1)]
    assert best_candidate(candidates, margin) == chosen
    assert candidates[::-1][best_candidate(candidates[::-1], margin)]["C"] == chosen + 1


def test_a_margin_holds_for_agreement_among_those_that_rank_well():
    candidates = [entry(1, 0.5, 0.9), entry(2, 0.93, 0.86), entry(3, 0.93, 0.9)]
    assert best_candidate(candidates, 0.05) == 1


def test_agreement_is_the_mean_iou_of_held_out_windows_with_those_of_all_pictures(context, material):
    bags, boxes, y = material
    choice = choose_constants(context, bags, {"six": y})["six"]
    assert [one["C"] for one in choice.candidates] == [1.0, 10.0]
    folds = held_out_folds(y, 2, context.settings.seed, "six", "")
    for one in choice.candidates:
        problems = [
            problem(context.settings, FitRequest(labels.astype(np.int8), Constants(one["C"])))
            for labels in (y, *(np.where(fold, 0, y) for fold in folds))
        ]
        whole, *held_out = [bags.best(solution.coef).index for solution in fit_many(problems, bags)]
        for fold, chosen, value in zip(folds, held_out, one["agreement"], strict=True):
            pictures = np.flatnonzero(fold & (y > 0))
            first = bags.offsets[pictures]
            pairs = zip(boxes[first + chosen[pictures]], boxes[first + whole[pictures]], strict=True)
            assert value == pytest.approx(statistics.fmean(iou([a], [b])[0, 0] for a, b in pairs), abs=1e-9)
    assert choice.candidates[best_candidate(choice.candidates)]["C"] == choice.constants.C


def test_image_ap_of_the_folds_is_the_same_with_either_criterion(context, material):
    bags, _, y = material
    usual = replace(context, settings=context.settings.with_values({"train.criterion": "image_ap"}))
    both = [choose_constants(one, bags, {"six": y})["six"].candidates for one in (context, usual)]
    assert [one["folds"] for one in both[0]] == [pytest.approx(one["folds"], abs=1e-6) for one in both[1]]
    assert all("agreement" not in one for one in both[1])


def test_weights_of_zero_agree_with_themselves_and_are_not_taken(context, material):
    bags, _, y = material
    settings = context.settings.with_values({"train.C": (1e-9, 1.0)})
    choice = choose_constants(replace(context, settings=settings), bags, {"six": y})["six"]
    nothing, something = choice.candidates
    assert nothing["agreement"] == [1.0, 1.0]
    assert max(something["agreement"]) < 1.0
    assert choice.constants.C == 1.0


def test_models_of_the_one_window_that_is_kept_agree_on_it(context, material):
    bags, _, y = material
    settings = context.settings.with_values({"train.keep_windows": 1})
    choice = choose_constants(replace(context, settings=settings), bags.kept(1), {"six": y})["six"]
    assert [one["agreement"] for one in choice.candidates] == [[1.0, 1.0]] * 2


def test_tuning_tells_the_criterion_and_the_agreement_everywhere(untrained, command):
    result = command("tune", "--out", untrained, "--C", "1,10", "--folds", 2, *AGREEMENT)
    assert result.status == 0, result.err
    table = json.loads((untrained / "tuning.json").read_text())
    assert table["criterion"] == "agreement"
    with (untrained / "tuning.csv").open() as file:
        rows = list(csv.DictReader(file))
    for name in ("six", "three"):
        provenance = Detector.load(RunFolder(untrained).model(name)).provenance
        assert provenance["training"]["criterion"] == "agreement"
        stored = provenance["result"]["held_out_agreement"]
        candidates = table["classes"][name]["candidates"]
        assert [one["folds"] for one in stored] == [one["agreement"] for one in candidates]
        assert table["classes"][name]["chosen"] == {"C": candidates[best_candidate(candidates)]["C"]}
        for one in candidates:
            key = (name, str(one["C"]))
            assert [float(row["agreement"]) for row in rows if (row["class"], row["C"]) == key] == one["agreement"]
            assert f"{statistics.fmean(one['agreement']):.3f}" in result.out
    assert RunFolder(untrained).settings().train.criterion == "agreement"


def test_without_it_models_and_tables_have_no_agreement(untrained, command):
    assert command("tune", "--out", untrained, "--C", "1,10", "--folds", 2, "--quiet").status == 0
    assert "held_out_agreement" not in Detector.load(RunFolder(untrained).model("six")).provenance["result"]
    with (untrained / "tuning.csv").open() as file:
        assert {row["agreement"] for row in csv.DictReader(file)} == {""}


def test_another_criterion_is_another_training(run_copy, refused):
    assert "criterion 'image_ap' instead of 'agreement'" in refused("train", "--out", run_copy, *AGREEMENT)


def test_what_was_chosen_by_another_criterion_is_chosen_again(untrained, command, monkeypatch):
    asked = []

    def choose(context, bags, labels):
        asked.extend(labels)
        if asked == ["six", "three"]:
            raise KeyboardInterrupt
        return choose_constants(context, bags, labels)

    monkeypatch.setattr(train.trainer, "SIDE_BY_SIDE", 1)
    monkeypatch.setattr(train, "choose_constants", choose)
    line = ["train", "--out", untrained, "--C", "1,10", "--folds", 2, "--quiet"]
    assert command(*line).status == 130
    assert command(*line, *AGREEMENT).status == 0
    assert asked == ["six", "three", "six", "three"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--criterion", "corloc"], "--criterion must be one of image_ap, agreement, got 'corloc'"),
        (
            [*AGREEMENT, "--set=train.keep_windows=5", "--set=train.keep_by=x"],
            "agreement must not go with train.keep_by",
        ),
    ],
)
def test_a_criterion_that_does_not_fit_is_refused_in_one_line(untrained, refused, options, words):
    assert words in refused("train", "--out", untrained, *options)
    assert not list((untrained / "models").iterdir())
