"""Choosing constants: the thesis's grids, the same models as training, and everything told."""

import json
import statistics

import numpy as np
import pytest
from lapsvm.pipelines.fitting import fit
from lapsvm.pipelines.fitting.fit import Constants
from lapsvm.pipelines.fitting.selection import Trial, best_candidate, choose_constants, grid, held_out_folds
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.settings.settings import Settings
from lapsvm.pipelines.stages import train
from lapsvm.pipelines.stages.tune import C_GRID, J_GRID, TRIM_GRID, thesis_grids

from lapsvm.detection import Detector


@pytest.fixture(scope="module")
def y():
    """Return labels of 4 positives and 6 negatives among 12 pictures."""
    return np.array([1, 1, 0, 1, 1, -1, -1, -1, 0, -1, -1, -1], dtype=np.int8)


def with_train(**values):
    """Return settings with some values of the learner."""
    return Settings().with_values({f"train.{name}": value for name, value in values.items()})


def test_the_grids_are_the_thesiss():
    assert pytest.approx([1e-3, 1e-2, 1e-1, 1, 10, 100, 1000, 1e4]) == C_GRID
    assert pytest.approx([1e-4, 1e-3, 1e-2, 1e-1, 1, 10]) == J_GRID
    assert pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]) == TRIM_GRID
    assert thesis_grids("latent_svm")["train.J_relative"] is True
    assert thesis_grids("latent_svm")["train.trim"] == TRIM_GRID
    assert "train.J" not in thesis_grids("latent_rank_svm")


@pytest.mark.parametrize(
    ("values", "needed"),
    [
        ({"C": (1.0, 2.0)}, True),
        ({"C": (1.0, 1.0), "J": (1.0, 3.0)}, False),
        ({"learner": "latent_svm", "C": (1.0,), "trim": (0.0, 0.1)}, True),
        ({"learner": "latent_svm", "C": (1.0,), "J": (1.0, 3.0)}, True),
    ],
)
def test_folds_are_needed_where_they_compare_candidates(values, needed):
    assert with_train(**values).train.needs_folds is needed


def test_a_relative_j_is_times_pictures_per_positive(y):
    settings = with_train(learner="latent_svm", C=(1.0,), J=(0.1, 1.0), J_relative=True)
    assert grid(settings, y) == [Constants(1.0, 0.1 * 10 / 4, 0.0), Constants(1.0, 1.0 * 10 / 4, 0.0)]


def test_a_rank_learner_has_no_j(y):
    assert grid(with_train(C=(1.0, 2.0, 1.0), J=(3.0, 4.0)), y) == [Constants(1.0, None), Constants(2.0, None)]


def test_every_known_picture_is_held_out_once_and_an_unknown_one_never(y):
    folds = np.array(held_out_folds(y, 2, 7, "six", ""))
    assert (folds.sum(axis=0) == (y != 0)).all()
    assert [int((y[fold] > 0).sum()) for fold in folds] == [2, 2]
    assert (folds == held_out_folds(y, 2, 7, "six", "")).all()


def test_a_trial_trains_on_what_it_does_not_score(y):
    held_out = held_out_folds(y, 2, 0, "six", "")[0]
    trial = Trial("six", Constants(1.0, None), y, held_out, 1)
    assert (trial.seen[held_out] == 0).all()
    assert (trial.seen[~held_out] == y[~held_out]).all()
    scores = np.where(held_out, y, -y).astype(float)  # right where it is scored, wrong elsewhere
    assert trial.score(scores) == 1.0


def test_tune_writes_the_models_that_train_writes(extracted, finished, command, made):
    result = command("tune", "--out", extracted, "--C", "1,10", "--folds", 2, "--set=train.path=false")
    assert result.status == 0, result.err
    assert made(extracted, "models/*") == made(finished, "models/*")
    assert made(extracted, "history.csv") == made(finished, "history.csv")
    before = made(extracted, "models/*", "tuning.json")
    assert command("train", "--out", extracted, "--quiet").status == 0
    assert (
        command("tune", "--out", extracted, "--C", "1,10", "--folds", 2, "--set=train.path=false", "--quiet").status
        == 0
    )
    assert made(extracted, "models/*", "tuning.json") == before


def test_tuning_is_told_in_two_ways_that_agree(extracted, command):
    arguments = ["--learner", "latent_svm", "--C", "0.1,1", "--J", "0.5,2", "--trim", "0", "--folds", 2]
    result = command("tune", "--out", extracted, *arguments)
    assert result.status == 0, result.err
    table = json.loads((extracted / "tuning.json").read_text())
    for name in ("six", "three"):
        entry = table["classes"][name]
        best = max(entry["candidates"], key=lambda one: (round(one["mean"], 9), -one["C"], -one["J"]))
        assert entry["chosen"] == {"C": best["C"], "J": best["J"], "trim": 0.0}
        stored = Detector.load(RunFolder(extracted).model(name)).provenance["result"]
        assert {"C": stored["C"], "J": stored["J"], "trim": stored["trim"]} == entry["chosen"]
        for one in entry["candidates"]:
            assert one["mean"] == pytest.approx(sum(one["folds"]) / 2)
            assert one["std"] == pytest.approx(statistics.stdev(one["folds"]))
        assert f"{best['mean']:.3f}" in result.out
    assert result.out.count("*") == 2


def test_classes_already_chosen_for_are_kept_when_the_next_are_interrupted(
    extracted, finished, command, made, monkeypatch
):
    line = ["tune", "--out", extracted, "--C", "1,10", "--folds", 2, "--set=train.path=false", "--quiet"]
    asked = []

    def choose(trainer, bags, labels, groups):
        asked.extend(labels)
        if asked == ["six", "three"]:
            raise KeyboardInterrupt
        return choose_constants(trainer, bags, labels, groups)

    monkeypatch.setattr(fit, "SIDE_BY_SIDE", 1)
    monkeypatch.setattr(train, "choose_constants", choose)
    assert command(*line).status == 130
    assert list(json.loads((extracted / "choices.json").read_text())["choices"]) == ["six"]
    assert command(*line).status == 0
    assert asked == ["six", "three", "three"]
    assert made(extracted, "models/*", "history.csv") == made(finished, "models/*", "history.csv")
    assert not (extracted / "choices.json").exists()


def test_tune_walks_along_c_and_train_says_so_too(extracted, command, made):
    line = ["--C", "0.1,1,10", "--folds", 2, "--quiet"]
    assert command("tune", "--out", extracted, *line).status == 0
    assert RunFolder(extracted).settings().train.path is True
    tuned = made(extracted, "models/*", "history.csv")
    assert command("train", "--out", extracted, "--redo", "--set=train.path=true", *line).status == 0
    assert made(extracted, "models/*", "history.csv") == tuned


def test_a_typed_j_is_itself_after_a_relative_one(extracted, command, refused):
    more = ["--learner", "latent_svm", "--C", "1", "--J", "0.1,1", "--trim", "0", "--folds", 2, "--quiet"]
    assert command("tune", "--out", extracted, *more, "--set=train.J_relative=true").status == 0
    relative = json.loads((extracted / "tuning.json").read_text())["classes"]["six"]["candidates"]
    data = Detector.load(RunFolder(extracted).model("six")).provenance["data"]
    unit = (data["positives"] + data["negatives"]) / data["positives"]
    assert [one["J"] for one in relative] == [0.1 * unit, 1.0 * unit]
    assert "J_relative True instead of False" in refused("train", "--out", extracted, "--J", "0.1,1")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--C", "5"], "several values"),
        (["--C", "1,0"], "C must be"),
        (["--J", "1,-1"], "J must be"),
        (["--J", "x"], "--J must be numbers"),
        (["--folds", "1"], "--folds"),
        ([], "instead of"),
        (["--C", "1,10", "--folds", "40", "--redo"], "for 40 folds"),
    ],
)
def test_tune_refuses_in_one_line_and_leaves_what_is_there(run_copy, refused, made, arguments, words):
    before = made(run_copy)
    assert words in refused("tune", "--out", run_copy, *arguments)
    assert made(run_copy) == before


def test_tune_needs_a_run(tmp_path, refused):
    assert "tune needs a run folder" in refused("tune", "--out", tmp_path / "none")


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
