"""Held-out scores: of models that did not see the picture, in the scale of the final model, whatever the threads."""

import shutil

import numpy as np
import pytest
from lapsvm.pipelines.context import RunContext
from lapsvm.pipelines.fitting import selection
from lapsvm.pipelines.fitting.fit import Constants, FitRequest, problem
from lapsvm.pipelines.fitting.training_bags import training_bags
from lapsvm.pipelines.products import fold_models
from lapsvm.pipelines.products.fold_models import FoldModels, held_out_folds, too_few_pictures
from lapsvm.pipelines.products.held_out import read_held_out, rescaled
from lapsvm.pipelines.run.dataset import label_vector
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.run.progress import Reporter

from lapsvm.boxes import paired_iou
from lapsvm.detection import Calibration, Detector
from lapsvm.detection.picture_scores import detect_windows
from lapsvm.evaluation import read_results
from lapsvm.features import open_shards
from lapsvm.latent import fit_many


@pytest.fixture
def context(finished):
    run = RunFolder(finished)
    return RunContext(run, run.settings(), 1, Reporter(True))


@pytest.fixture
def material(context):
    """Return the training set: ids, bags, their boxes (n, 4) and the labels of the class six."""
    shards = open_shards(context.run.shards("trainval"))
    by_id = {record.id: record for record in context.data.records["trainval"]}
    y = label_vector([by_id[image] for image in shards.image_ids], "six")
    boxes = np.concatenate([shard.boxes for shard in shards])
    return shards.image_ids, training_bags(context.workspace, context.settings, shards)[0], boxes, y


@pytest.mark.parametrize("name", ["six", "three"])
def test_every_labelled_picture_has_a_row(finished, context, name):
    found = read_held_out(RunFolder(finished), name)
    labels = {record.id: record.labels.get(name, 0) for record in context.data.records["trainval"]}
    assert dict(zip(found.ids, found.y.tolist(), strict=True)) == {one: y for one, y in labels.items() if y}
    assert set(found.fold.tolist()) == {1, 2}
    assert ((found.agreement >= 0) & (found.agreement <= 1)).all()


@pytest.mark.parametrize("detection", [("--set=detect.demotion=1",), ("--set=detect.score_smoothing=.5",)])
def test_scores_and_boxes_are_those_of_detection_by_models_without_the_fold(run_copy, command, material, detection):
    """By models that are trained here again, picture by picture through detection."""
    ids, bags, boxes, y = material
    assert command("detect", "--out", run_copy, "--quiet", "--set=detect.box_voting=.7", *detection).status == 0
    assert command("train", "--out", run_copy, "--redo", "--quiet", "--C", "1").status == 0
    found, settings = read_held_out(RunFolder(run_copy), "six"), RunFolder(run_copy).settings()
    folds = held_out_folds(y, 2, settings.seed, "six", "")
    labels = [y, *(np.where(fold, 0, y).astype(np.int8) for fold in folds)]
    solutions = fit_many([problem(settings, FitRequest(each, Constants(1.0))) for each in labels], bags)
    rows = {image_id: row for row, image_id in enumerate(found.ids)}
    final = np.split(bags.score_windows(solutions[0].coef), bags.offsets[1:-1])
    for number, fold in enumerate(folds, start=1):
        scores = np.split(bags.score_windows(solutions[number].coef), bags.offsets[1:-1])
        last, own = (np.array([each.max() for each in values]) for values in (final, scores))
        both = ~fold & (y != 0)
        for picture in np.flatnonzero(fold):
            windows, row = boxes[bags.offsets[picture] : bags.offsets[picture + 1]], rows[ids[picture]]
            box, score = (part[0] for part in detect_windows(scores[picture], windows, settings.detect))
            expected = last[both].mean() + (score - own[both].mean()) * last[both].std() / own[both].std()
            assert found.fold[row] == number
            assert found.score[row] == pytest.approx(expected, rel=1e-5)
            assert found.boxes[row].tolist() == box.tolist()
            by_final = detect_windows(final[picture], windows, settings.detect)[0][:1]
            assert found.agreement[row] == pytest.approx(paired_iou([box], by_final)[0])
    calibration = Detector.load(run_copy / "models/six.safetensors").calibration
    assert calibration == Calibration.fit(found.score, found.y, found.fold)


@pytest.fixture
def relabelled(digits, tmp_path):
    """The digits with the labels of every other training picture of the class six flipped."""
    root = shutil.copytree(digits, tmp_path / "relabelled")
    path = root / "ImageSets" / "Main" / "six_trainval.txt"
    rows = [line.split() for line in path.read_text().splitlines()]
    flags = [-int(flag) if number % 2 == 0 else int(flag) for number, (_, flag) in enumerate(rows)]
    path.write_text("".join(f"{image_id} {flag:2d}\n" for (image_id, _), flag in zip(rows, flags, strict=True)))
    return root


VOTING = ["--refine", "2", "--set=refine.box_voting=true", "--set=refine.candidates=9"]
SPARING = ["--learner", "latent_svm", "--J", "2", "--refine", "1", "--set=refine.C=30", "--set=refine.neg_part_iou=.1"]


@pytest.mark.parametrize("options", [VOTING, SPARING], ids=["voting", "sparing"])
def test_labels_of_a_fold_change_nothing_that_scores_it(
    digits, relabelled, finished, fast_extraction, command, tmp_path, monkeypatch, options
):
    """A sceptic's test: all labels of fold 1 are flipped, and its model, boxes and order of scores stay the same."""
    for module in (fold_models, selection):
        monkeypatch.setattr(module, "held_out_folds", every_other_picture)
    runs = []
    for root in (digits, relabelled):
        out = tmp_path / f"{root.name}-RUN"
        given = ("--data", "voc", "--root", root, "--out", out, "--quiet", *fast_extraction, "--folds", "2", "--C", "1")
        assert command("run", *given, "--shards-from", finished, *options).status == 0
        runs.append(RunFolder(out))
    first, other = (FoldModels.load(run.fold_models("six")) for run in runs)
    np.testing.assert_allclose(first.coef[:, 0], other.coef[:, 0], rtol=1e-9, atol=1e-12)
    assert np.abs(first.coef[:, 1] - other.coef[:, 1]).max() > 1e-3
    known, flipped = (read_held_out(run, "six") for run in runs)
    own = known.fold == 1
    assert (known.y[own] == -flipped.y[own]).all()
    np.testing.assert_array_equal(known.boxes[own], flipped.boxes[own])
    assert (np.argsort(known.score[own]) == np.argsort(flipped.score[own])).all()
    assert not np.array_equal(known.boxes[~own], flipped.boxes[~own])


def every_other_picture(y, folds, *_):
    """Folds that do not depend on labels."""
    return [(np.arange(len(y)) % folds == number) & (y != 0) for number in range(folds)]


def test_the_calibration_is_fitted_on_held_out_scores(finished):
    for name in ("six", "three"):
        found = read_held_out(RunFolder(finished), name)
        detector = Detector.load(finished / "models" / f"{name}.safetensors")
        assert detector.calibration == Calibration.fit(found.score, found.y, found.fold)
        assert detector.calibration.reliability.positives == (found.y > 0).sum()


def test_final_scores_are_in_the_scale_of_detections(finished):
    """The final model's own scores of the same pictures have about the mean and spread of the held-out ones."""
    found = read_held_out(RunFolder(finished), "six")
    results = read_results(finished / "detections" / "trainval", "trainval")["six"]
    best = dict(zip(reversed(results.image_ids), reversed(results.scores.tolist()), strict=True))  # the first is best
    final = np.array([best[image] for image in found.ids])
    for fold in (1, 2):
        own = found.fold == fold
        assert abs(found.score[own].mean() - final[own].mean()) < 0.2 * final[own].std()
        assert 0.25 < found.score[own].std() / final[own].std() < 1  # in-sample scores are spread more
    assert np.corrcoef(final, found.score)[0, 1] > 0.3


def test_the_bytes_do_not_depend_on_threads(run_copy, command, made):
    def files(jobs, *stage):
        assert command(*stage, "--out", run_copy, "--redo", "--quiet", "--jobs", jobs).status == 0
        return made(run_copy, "models/*", "heldout/*")

    names = [f"{folder}/{name}.safetensors" for folder in ("heldout", "models") for name in ("six", "three")]
    for stage in (["train"], ["refine", "--refine", "1"]):
        one = files(1, *stage)
        assert sorted(one) == names
        assert files(2, *stage) == one


def test_refinement_has_held_out_scores_of_the_same_folds(run_copy, command):
    before = read_held_out(RunFolder(run_copy), "six")
    assert command("refine", "--out", run_copy, "--quiet", "--refine", "1").status == 0
    found = read_held_out(RunFolder(run_copy), "six")
    assert set(found.fold.tolist()) == {1, 2}
    assert found.ids == before.ids
    calibration = Detector.load(run_copy / "models/six.safetensors").calibration
    assert calibration == Calibration.fit(found.score, found.y, found.fold)
    assert Detector.load(run_copy / "first/six.safetensors").calibration is None


def test_scores_that_were_lost_are_made_again(run_copy, command, made):
    assert command("refine", "--out", run_copy, "--quiet", "--refine", "1").status == 0
    assert command("detect", "--out", run_copy, "--quiet").status == 0
    before = made(run_copy, "models/*", "heldout/*", "first/*", "folds/*")
    path = RunFolder(run_copy).held_out("six")
    path.write_bytes(path.read_bytes()[:100])
    assert "heldout/six.safetensors is damaged" in command("evaluate", "--out", run_copy).err
    assert command("verify", "--out", run_copy, "--remove").status == 0
    assert not path.exists()
    for stage in ("train", "refine"):
        assert command(stage, "--out", run_copy, "--quiet").status == 0
    assert made(run_copy, "models/*", "heldout/*", "first/*", "folds/*") == before


def test_a_class_with_too_few_pictures_has_no_probabilities():
    y = np.array([1, 1, -1, -1, -1, 0], dtype=np.int8)
    assert too_few_pictures("cat", y, 2) == ""
    expected = "scores of cat have no probabilities, which need 3 pictures with it and 3 without, got 2 and 3."
    assert too_few_pictures("cat", y, 3) == expected


def test_scores_of_any_scale_become_those_of_the_final_model():
    final = np.random.default_rng(0).normal(size=40)
    np.testing.assert_allclose(rescaled(3 * final[:10] + 100, 3 * final + 100, final), final[:10], atol=1e-9)
    np.testing.assert_allclose(rescaled(final / 100 - 7, final / 100 - 7, final), final, atol=1e-9)


def test_a_fold_without_spread_keeps_its_differences():
    assert rescaled(np.array([1.0, -1.0]), np.zeros(4), np.full(4, 5.0)).tolist() == [6, 4]
