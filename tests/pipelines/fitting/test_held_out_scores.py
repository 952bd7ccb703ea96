"""Held-out scores: of models that did not see the picture, in the scale of the final model, whatever the threads."""

from dataclasses import replace

import numpy as np
import pytest
from lapsvm.pipelines.fitting.fit import Constants, FitRequest, problem
from lapsvm.pipelines.fitting.fold_scores import FoldPart, FoldScores
from lapsvm.pipelines.fitting.picture_scores import detect_windows
from lapsvm.pipelines.fitting.selection import Trial, fit_trials, held_out_folds
from lapsvm.pipelines.fitting.training_bags import training_bags
from lapsvm.pipelines.results.held_out import read_held_out, too_few_pictures
from lapsvm.pipelines.run.context import RunContext
from lapsvm.pipelines.run.dataset import label_vector
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.run.progress import Reporter

from lapsvm.boxes import paired_iou
from lapsvm.detection import Calibration, Detector
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
    return shards.image_ids, training_bags(context, shards)[0], boxes, y


@pytest.mark.parametrize("name", ["six", "three"])
def test_every_labelled_picture_has_a_row(finished, context, name):
    found = read_held_out(RunFolder(finished), name)
    labels = {record.id: record.labels.get(name, 0) for record in context.data.records["trainval"]}
    assert dict(zip(found.ids, found.y.tolist(), strict=True)) == {one: y for one, y in labels.items() if y}
    assert set(found.fold.tolist()) == {1, 2}
    assert ((found.agreement >= 0) & (found.agreement <= 1)).all()


def test_scores_and_windows_are_those_of_models_without_the_fold(finished, context, material):
    ids, bags, boxes, y = material
    found, detector = read_held_out(RunFolder(finished), "six"), Detector.load(finished / "models/six.safetensors")
    constants = Constants(detector.provenance["result"]["C"])
    folds = held_out_folds(y, 2, context.settings.seed, "six", "")
    labels = [y, *(np.where(fold, 0, y).astype(np.int8) for fold in folds)]
    solutions = fit_many([problem(context.settings, FitRequest(each, constants)) for each in labels], bags)
    best = bags.best(np.column_stack([solution.coef for solution in solutions]))
    rows = {image_id: row for row, image_id in enumerate(found.ids)}
    for number, fold in enumerate(folds, start=1):
        final, own = best.score[:, 0], best.score[:, number]
        both = ~fold & (y != 0)
        expected = final[both].mean() + (own - own[both].mean()) * final[both].std() / own[both].std()
        for picture in np.flatnonzero(fold):
            row = rows[ids[picture]]
            assert found.fold[row] == number
            assert found.score[row] == pytest.approx(expected[picture], rel=1e-6)
            box = boxes[bags.offsets[picture] + best.index[picture, number]]
            assert found.boxes[row].tolist() == box.tolist()
            last = boxes[bags.offsets[picture] + best.index[picture, 0]]
            assert found.agreement[row] == pytest.approx(paired_iou([box], [last])[0])


def test_the_label_of_a_held_out_picture_changes_no_model_that_scores_it(context, material):
    """A guard against a leak: labels that a fold hides may be any, its scores stay the same to the last bit."""
    _, bags, _, y = material
    held_out = held_out_folds(y, 2, context.settings.seed, "six", "")[0]
    flipped = np.where(held_out, -y, y).astype(np.int8)
    trials = [Trial("six", Constants(1.0), labels, held_out, 1) for labels in (y, flipped)]
    (one,), (other,) = (fit_trials(context, "folds", [trial], bags) for trial in trials)
    for left, right in zip(one.part, other.part, strict=True):
        np.testing.assert_array_equal(left, right)
    assert one.image_ap != other.image_ap


def test_the_calibration_is_fitted_on_held_out_scores(finished):
    for name in ("six", "three"):
        found = read_held_out(RunFolder(finished), name)
        detector = Detector.load(finished / "models" / f"{name}.safetensors")
        assert detector.calibration == Calibration.fit(found.score, found.y, found.fold)
        assert detector.calibration.reliability.positives == (found.y > 0).sum()


def test_final_scores_are_in_the_scale_of_detections(finished):
    """In-sample scores of the final model lie on both sides of the held-out ones, and none is far from all of them."""
    found = read_held_out(RunFolder(finished), "six")
    final = read_results(finished / "detections" / "trainval", "trainval")["six"].scores
    spread = found.score.std()
    assert abs(found.score.mean() - np.mean(final[final > np.median(final)])) < 5 * spread


@pytest.mark.parametrize("refinement", [(), ("--refine", "1", "--refine-folds", "3", "--average")])
def test_the_bytes_do_not_depend_on_threads(run_copy, command, made, refinement):
    def files(*arguments):
        assert command("train", "--out", run_copy, "--redo", "--quiet", *arguments).status == 0
        if refinement:
            assert command("refine", "--out", run_copy, "--redo", "--quiet", *arguments, *refinement).status == 0
        return made(run_copy, "models/*", "heldout/*")

    one = files("--jobs", "1")
    assert sorted(one) == [
        f"{folder}/{name}.safetensors" for folder in ("heldout", "models") for name in ("six", "three")
    ]
    assert files("--jobs", "2") == one


def test_one_candidate_takes_three_folds_of_its_own(run_copy, command):
    assert command("train", "--out", run_copy, "--redo", "--quiet", "--C", "1").status == 0
    found = read_held_out(RunFolder(run_copy), "six")
    assert set(found.fold.tolist()) == {1, 2, 3}
    assert Detector.load(run_copy / "models/six.safetensors").calibration is not None


def test_refinement_has_held_out_scores_of_its_own_folds(run_copy, command):
    before = read_held_out(RunFolder(run_copy), "six")
    assert command("refine", "--out", run_copy, "--quiet", "--refine", "1", "--refine-folds", "3").status == 0
    found = read_held_out(RunFolder(run_copy), "six")
    assert set(found.fold.tolist()) == {1, 2, 3}
    assert found.ids == before.ids
    assert Detector.load(run_copy / "models/six.safetensors").calibration is not None
    assert Detector.load(run_copy / "first/six.safetensors").calibration is None


@pytest.mark.parametrize("stages", [["train"], ["train", "refine"]])
def test_scores_that_were_lost_are_made_again(run_copy, command, made, stages):
    if "refine" in stages:
        assert command("refine", "--out", run_copy, "--quiet", "--refine", "1", "--refine-folds", "3").status == 0
    before = made(run_copy, "models/*", "heldout/*", "first/*")
    path = RunFolder(run_copy).held_out("six")
    path.write_bytes(path.read_bytes()[:100])
    assert "heldout/six.safetensors is damaged" in command("evaluate", "--out", run_copy).err
    assert command("verify", "--out", run_copy, "--remove").status == 0
    assert not path.exists()
    for stage in stages:
        assert command(stage, "--out", run_copy, "--quiet").status == 0
    assert made(run_copy, "models/*", "heldout/*", "first/*") == before


def test_scores_with_box_support_are_those_of_detection(run_copy, command, material):
    """By models that are trained here again, box by box through detection."""
    ids, bags, boxes, y = material
    before = read_held_out(RunFolder(run_copy), "six")
    assert command("detect", "--out", run_copy, "--quiet", "--box-support", "2", "--demotion", "1").status == 0
    assert command("train", "--out", run_copy, "--redo", "--quiet").status == 0
    found, settings = read_held_out(RunFolder(run_copy), "six"), RunFolder(run_copy).settings()
    detector = Detector.load(run_copy / "models/six.safetensors")
    constants = Constants(detector.provenance["result"]["C"])
    folds = held_out_folds(y, 2, settings.seed, "six", "")
    labels = [y, *(np.where(fold, 0, y).astype(np.int8) for fold in folds)]
    solutions = fit_many([problem(settings, FitRequest(each, constants)) for each in labels], bags)
    rows = {image_id: row for row, image_id in enumerate(found.ids)}
    for number, fold in enumerate(folds, start=1):
        scores = np.split(bags.score_windows(solutions[number].coef), bags.offsets[1:-1])
        final, own = bags.best(solutions[0].coef).score, np.array([each.max() for each in scores])
        both = ~fold & (y != 0)
        for picture in np.flatnonzero(fold):
            windows = boxes[bags.offsets[picture] : bags.offsets[picture + 1]]
            top = detect_windows(scores[picture].astype(float), windows, settings.detect)[1].max()
            expected = final[both].mean() + (top - own[both].mean()) * final[both].std() / own[both].std()
            assert found.score[rows[ids[picture]]] == pytest.approx(expected, rel=1e-5)
    assert (found.score > before.score).all()
    np.testing.assert_array_equal(found.boxes, before.boxes)
    assert detector.calibration == Calibration.fit(found.score, found.y, found.fold)


def test_agreement_chooses_with_box_support(run_copy, command):
    assert command("detect", "--out", run_copy, "--quiet", "--box-support", "2").status == 0
    assert command("train", "--out", run_copy, "--redo", "--quiet", "--criterion", "agreement").status == 0
    found = read_held_out(RunFolder(run_copy), "six")
    calibration = Detector.load(run_copy / "models/six.safetensors").calibration
    assert calibration == Calibration.fit(found.score, found.y, found.fold)


def test_refined_scores_have_box_support(run_copy, command):
    refinement = ["--refine", "1", "--refine-folds", "3"]
    assert command("refine", "--out", run_copy, "--quiet", *refinement).status == 0
    before = read_held_out(RunFolder(run_copy), "six")
    assert command("detect", "--out", run_copy, "--quiet", "--box-support", "2").status == 0
    assert command("refine", "--out", run_copy, "--quiet", "--redo", *refinement).status == 0
    found = read_held_out(RunFolder(run_copy), "six")
    assert (found.score > before.score).all()
    np.testing.assert_array_equal(found.boxes, before.boxes)
    calibration = Detector.load(run_copy / "models/six.safetensors").calibration
    assert calibration == Calibration.fit(found.score, found.y, found.fold)


def test_windows_that_folds_kept_give_no_probabilities(run_copy, command):
    said = command("train", "--out", run_copy, "--redo", "--keep-windows", "20")
    assert said.status == 0
    assert "scores of six have no probabilities, because folds kept other windows" in said.out + said.err
    assert not list((run_copy / "heldout").glob("*"))
    assert Detector.load(run_copy / "models/six.safetensors").calibration is None


def test_a_class_with_too_few_pictures_has_no_probabilities():
    y = np.array([1, 1, -1, -1, -1, 0], dtype=np.int8)
    assert too_few_pictures("cat", y, 2) == ""
    expected = "scores of cat have no probabilities, which need 3 pictures with it and 3 without, got 2 and 3."
    assert too_few_pictures("cat", y, 3) == expected


def test_scores_of_folds_of_any_scale_become_those_of_the_final_model():
    rng = np.random.default_rng(0)
    final, fold = rng.normal(size=40), np.arange(40) % 2 + 1
    parts = []
    for number, factor, offset in ((1, 3.0, 100.0), (2, 0.01, -7.0)):
        own = fold == number
        score = factor * final + offset
        parts.append(FoldPart.of(own, ~own, score, np.zeros(40, dtype=np.intp)))
    found = FoldScores.join(parts)
    np.testing.assert_allclose(found.aligned(final), final, atol=1e-9)
    again = FoldScores.from_json(found.as_json())
    np.testing.assert_array_equal(again.aligned(final), found.aligned(final))


def test_what_boxes_gain_is_in_the_scale_of_the_fold():
    final, own = np.array([0.0, 1, 2, 3, 4, 5]), np.array([True, True, False, False, False, False])
    windows = np.zeros(6, dtype=np.intp)
    parts = [
        FoldPart.of(own, ~own, 10 * final, windows).raised(np.array([5.0, 0])), FoldPart.of(~own, own, final, windows)
    ]  # fmt: skip
    np.testing.assert_allclose(FoldScores.join(parts).aligned(final), [0.5, 1, 2, 3, 4, 5])


def test_a_fold_without_spread_keeps_its_differences():
    parts = [
        FoldPart.of(own, ~own, np.zeros(4), np.zeros(4, dtype=np.intp))
        for own in (np.array([True, False, True, False]), np.array([False, True, False, True]))
    ]
    found = replace(FoldScores.join(parts), score=np.array([1.0, 0, -1, 0]))
    assert found.aligned(np.full(4, 5.0)).tolist() == [6, 5, 4, 5]
