"""The stage of refinement: after training, resumed like the others."""

import csv
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from lapsvm.pipelines.fitting.refining.chains import TrainedModels
from lapsvm.pipelines.fitting.refining.pictures import StoredPictures
from lapsvm.pipelines.fitting.refining.refinement import Refinement
from lapsvm.pipelines.products.fold_models import FoldModels
from lapsvm.pipelines.products.models import FitTask
from lapsvm.pipelines.run.progress import Reporter
from lapsvm.pipelines.settings.settings import RefineSettings, Settings
from lapsvm.pipelines.verdicts.reviewed import Reviews

from lapsvm.bags import Bags
from lapsvm.detection import Detector
from lapsvm.latent import KnownBoxes

from ...calls import done

REFINEMENT = ["--refine", "2", "--set=refine.C=10"]


@pytest.fixture(scope="module")
def refined(digits, fast, tmp_path_factory):
    out = tmp_path_factory.mktemp("refined") / "RUN"
    done("run", "--data", "voc", "--root", digits, "--out", out, "--quiet", *fast, *REFINEMENT)
    return out


def test_the_first_models_are_those_of_a_run_without_refinement(refined, finished):
    for path in (finished / "models").glob("*.safetensors"):
        np.testing.assert_array_equal(Detector.load(refined / "first" / path.name).coef, Detector.load(path).coef)
        assert not np.array_equal(Detector.load(refined / "models" / path.name).coef, Detector.load(path).coef)


def test_the_model_tells_how_it_was_refined(refined):
    provenance = Detector.load(refined / "models" / "six.safetensors").provenance
    assert provenance["training"]["refine"]["rounds"] == 2
    assert provenance["result"]["C"] == 10
    first = Detector.load(refined / "first" / "six.safetensors").provenance["result"]
    assert provenance["result"]["held_out_image_ap"] == first["held_out_image_ap"]  # the page warns by it
    assert provenance["result"]["telling_parts"] == first["telling_parts"]
    assert provenance["result"]["duality_gap"] <= provenance["training"]["tol"]


def test_the_model_tells_in_how_many_pictures_the_box_stayed(refined, digits):
    """The page asks for a person's eyes where labels leave boxes open."""
    for path in (refined / "models").glob("*.safetensors"):
        result, trained = (Detector.load(one).provenance["result"] for one in (path, refined / "first" / path.name))
        rows = (digits / "ImageSets" / "Main" / f"{path.stem}_trainval.txt").read_text().splitlines()
        assert result["boxes_stayed"] + result["boxes_moved"] == sum(row.split()[1] == "1" for row in rows)
        assert "boxes_stayed" not in trained


def test_the_history_has_rows_of_both_stages(refined):
    roles = {line.split(",")[1] for line in (refined / "history.csv").read_text().splitlines()[1:]}
    assert {"final", "round 1", "round 2"} <= roles


def test_the_page_plots_the_steps_of_the_last_round(refined):
    with (refined / "history.csv").open() as file:
        rows = {row["role"]: row for row in csv.DictReader(file) if row["class"] == "six"}
    page = (refined / "page" / "index.html").read_text()
    assert f"{float(rows['round 2']['objective']):.6g}" in page
    provenance = Detector.load(refined / "models" / "six.safetensors").provenance
    assert provenance["result"]["objective"] == pytest.approx(float(rows["round 2"]["objective"]))


def test_a_class_that_was_lost_is_refined_again_to_the_same_bytes(refined, command, made):
    path = refined / "models" / "six.safetensors"
    before = made(refined, "models/*")
    path.write_bytes(path.read_bytes()[:100])
    assert command("refine", "--out", refined, "--quiet").status == 0
    assert made(refined, "models/*") == before


def test_refinement_follows_on_a_finished_run(run_copy, refined, command, made):
    assert command("refine", "--out", run_copy, "--quiet", *REFINEMENT).status == 0
    assert made(run_copy, "models/*") == made(refined, "models/*")
    assert made(run_copy, "first/*") == made(refined, "first/*")


def test_other_constants_are_refused(refined, command):
    said = command("refine", "--out", refined, "--set=refine.C=20")
    assert said.status == 2
    assert "was trained with training.refine.C 10.0 instead of 20.0" in said.err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--refine", "-1"], "option --refine must be from 0 to 2147483647, got -1."),
        (["--set=refine.candidates=-2"], "setting refine.candidates must be from 0 to 2147483647, got -2."),
        (["--set=refine.neg_iou=0.8"], "must be 0 <= neg_min_iou < neg_iou <= pos_iou <= 1, got 0.1, 0.8, 0.7."),
        (["--set=refine.neg_part_iou=1.5"], "setting refine.neg_part_iou must be from 0 to 1, got 1.5."),
        (["--set=refine.C=0"], "setting refine.C must be a finite number greater than 0, got 0."),
    ],
)
def test_constants_that_break_their_rule_are_refused(refined, command, options, sentence):
    said = command("refine", "--out", refined, *options)
    assert (said.status, sentence in said.err) == (2, True)


def test_windows_inside_the_chosen_one_may_be_spared(run_copy, command):
    changed = {"C": 30, "neg_iou": 0.3, "neg_min_iou": 0, "top": 1, "candidates": 0, "box_voting": "false"}
    options = ("--refine", "1", "--quiet", "--redo", *(f"--set=refine.{key}={value}" for key, value in changed.items()))
    weights = []
    for given in ("1", "0.3", "0"):  # an IoU of 0.3 is that below which a window is negative anyway
        assert command("refine", "--out", run_copy, *options, f"--set=refine.neg_part_iou={given}").status == 0
        weights.append(Detector.load(run_copy / "models" / "six.safetensors").coef)
    np.testing.assert_array_equal(weights[0], weights[1])
    assert not np.array_equal(weights[1], weights[2])


def test_detection_says_which_stage_is_missing(run_copy, command):
    said = command("refine", "--out", run_copy, "--quiet", *REFINEMENT)
    (run_copy / "models" / "six.safetensors").unlink()
    said = command("detect", "--out", run_copy)
    assert said.status == 2
    assert "run lapsvm refine first." in said.err


def test_with_as_many_candidates_as_windows_nothing_changes(run_copy, refined, command, made):
    assert command("refine", "--out", run_copy, "--quiet", *REFINEMENT, "--set=refine.candidates=0").status == 0
    for path in (refined / "models").glob("*.safetensors"):
        found = Detector.load(run_copy / "models" / path.name)
        np.testing.assert_allclose(found.coef, Detector.load(path).coef, atol=1e-6)


def test_little_memory_changes_no_byte(run_copy, refined, command):
    """Stored windows stay in their files, and every chain has a copy of its own."""
    assert command("refine", "--out", run_copy, *REFINEMENT, "--memory", "1M", "--quiet").status == 0
    for path in (refined / "models").glob("*.safetensors"):
        assert (run_copy / "models" / path.name).read_bytes() == path.read_bytes()


def test_features_without_surroundings_keep_all_weights_and_the_certificate(run_copy, refined, command):
    assert command("refine", "--out", run_copy, *REFINEMENT, "--set=refine.context_share=0.5", "--quiet").status == 0
    for path in (refined / "models").glob("*.safetensors"):
        found = Detector.load(run_copy / "models" / path.name)
        expected = Detector.load(path)
        np.testing.assert_array_equal(found.coef, expected.coef)
        assert found.provenance["result"] == expected.provenance["result"]


def test_a_class_with_fewer_pictures_than_folds_is_refined_without_them(digits, fast_extraction, command, tmp_path):
    root = shutil.copytree(digits, tmp_path / "DATA")
    path = root / "ImageSets" / "Main" / "six_trainval.txt"
    rows = [line.split() for line in path.read_text().splitlines()]
    shown = [image_id for image_id, flag in rows if flag == "1"][:1]
    path.write_text("".join(f"{image_id} {1 if image_id in shown else -1:2d}\n" for image_id, _ in rows))
    given = ("--data", "voc", "--root", root, "--out", tmp_path / "RUN", *fast_extraction, "--C", "1")
    said = command("run", *given, "--refine", "1")
    assert said.status == 0
    assert "scores of six have no probabilities, which need 3 pictures with it and 3 without, got 1" in said.err
    assert not (tmp_path / "RUN" / "folds" / "six.safetensors").exists()
    assert Detector.load(tmp_path / "RUN" / "models" / "six.safetensors").coef.any()


def test_fold_models_of_another_training_are_refused(run_copy, command):
    path = run_copy / "folds" / "six.safetensors"
    replace(FoldModels.load(path), model="another").save(path)
    said = command("refine", "--out", run_copy, "--refine", "1")
    assert said.status == 2
    assert "fold models of the trained model" in said.err


@pytest.fixture
def planted():
    """Make refinement of 24 pictures with five windows each; window 1 holds the object of positive ones, window 2 more.

    Training has found the window that holds more than the object.
    """
    rng, n = np.random.default_rng(0), 24
    y, fold = np.where(np.arange(n) % 2, -1, 1).astype(np.int8), np.arange(n) // 2 % 3 + 1
    features = rng.normal(scale=0.1, size=(n, 5, 4))
    features[y > 0, 1, 0] += 2
    features[y > 0, 2, :2] += 1
    corners = np.array([[0, 0, 90, 90], [10, 10, 30, 30], [10, 10, 31, 31], [60, 5, 80, 25], [5, 60, 25, 80]])
    bags, boxes = Bags(features.reshape(-1, 4), np.arange(0, 5 * n + 1, 5)), np.tile(corners, (n, 1)).astype(np.float32)
    pictures = StoredPictures(bags, boxes, np.ones(4), tuple(map(str, range(n))), np.ones(4, dtype=bool))
    settings = Settings(refine=RefineSettings(rounds=2, top=1, box_voting=False))

    def planted(labels=y):
        models = {"object": TrainedModels(labels, fold, np.tile([[0.0], [1], [0], [0]], 4))}
        return Refinement(settings, pictures, models, {}, Reporter(True)), FitTask("object", labels, {}, Path("object"))

    return planted


def test_refinement_needs_no_run_and_returns_all_that_is_saved(planted):
    refinement, task = planted()
    refined = refinement.fit(task)
    assert len(refined.chains) == 4
    assert {row["role"] for row in refined.history} == {"round 1", "round 2"}
    assert refined.result == {"C": 2.0, "boxes_stayed": 12, "boxes_moved": 0}
    for chain in refined.chains:
        best = refinement.pictures.bags.best(chain.weights).index
        assert np.isin(best[task.y > 0], [1, 2]).all()


@pytest.mark.parametrize(("factor", "things"), [(1.0, 3.0), (0.0, None)])
def test_things_apart_are_learned_from_and_a_model_says_so(planted, capsys, factor, things):
    refinement, task = planted()
    pictures = refinement.pictures
    features = np.concatenate([pictures.bags[row] for row in range(len(task.y))]).reshape(-1, 5, 4)
    features[task.y > 0, 3:, 1:3] += factor  # windows 3 and 4 are apart from window 2, and alike to training
    bags = Bags(features.reshape(-1, 4), pictures.bags.offsets)
    refinement = replace(refinement, pictures=replace(pictures, bags=bags), reporter=Reporter(False))
    refined = refinement.fit(task)
    assert refined.result.get("things") == things
    assert [prior is not None for prior in refined.priors] == [things is not None] * 4
    assert ("refine: object: learned from 3.0 things of a picture on average." in capsys.readouterr().err) == (
        things is not None
    )
    if things:
        assert (refined.chains[0].windows[task.y > 0] >= 0).sum() == 36
        assert refined.chains[0].weights[2] > 0.1  # what windows 3 and 4 alone have


def test_a_chain_does_not_depend_on_the_labels_of_its_fold(planted):
    refinement, task = planted()
    fold = refinement.models["object"].fold
    before = refinement.fit(task).chains
    after = planted(np.where(fold == 1, -task.y, task.y))
    found = after[0].fit(after[1]).chains
    np.testing.assert_array_equal(found[1].weights, before[1].weights)
    for number in (0, 2, 3):
        assert not np.array_equal(found[number].weights, before[number].weights)


KNOWN = KnownBoxes(np.array([[10.0, 10, 30, 30]]), np.empty((0, 4)))


def taught(planted, *labels, count=6):
    """Return a refinement, and its result for a class with a number of reviewed pictures."""
    refinement, task = planted(*labels)
    rows = np.flatnonzero(task.y > 0)[:count].tolist()
    refinement = replace(refinement, reporter=Reporter(False))
    return refinement, refinement.fit(replace(task, reviews=Reviews(dict.fromkeys(rows, KNOWN))))


def test_reviewed_pictures_teach_a_class_beside_its_labels(planted, capsys):
    refinement, refined = taught(planted)
    assert (refined.result["C"], refined.result["reviewed"]) == (20.0, 6)
    assert refined.result["boxes_stayed"] + refined.result["boxes_moved"] == 6  # those without a verdict
    assert "refine: the objects of 6 reviewed pictures teach object beside its labels." in capsys.readouterr().err
    assert {row["role"] for row in refined.history} == {"round 2"}
    for chain in refined.chains:  # the window of the object, and not the one that training found
        assert (refinement.pictures.bags.best(chain.weights).index[::2] == 1).all()


def test_too_few_reviewed_pictures_are_known_boxes_and_no_teachers(planted):
    _, refined = taught(planted, count=4)
    assert (refined.result["C"], "reviewed" in refined.result) == (2.0, False)


def test_what_a_class_learned_before_changes_no_model(planted):
    """The models of labels are kept, unless labels change."""
    refinement, task = planted()
    rows = np.flatnonzero(task.y > 0).tolist()
    twelve = refinement.fit(replace(task, reviews=Reviews(dict.fromkeys(rows, KNOWN)))).chains
    assert refinement.prepare(task) is refinement.prepare(task)
    refinement.models["object"] = refinement.models["object"]._replace(y=-task.y)
    changed = replace(task, y=-task.y, reviews=Reviews(dict.fromkeys(np.flatnonzero(task.y < 0)[:8].tolist(), KNOWN)))
    again = refinement.fit(changed).chains
    alone, _ = planted(-task.y)
    for one, other in zip(again, alone.fit(changed).chains, strict=True):
        np.testing.assert_array_equal(one.weights, other.weights)
    assert not np.array_equal(twelve[0].weights, again[0].weights)


def test_a_taught_chain_does_not_depend_on_the_verdicts_of_its_fold(planted):
    refinement, task = planted()
    assert refinement.fit(replace(task, reviews=Reviews({0: KNOWN}))).priors == [None] * 4  # no small things are sought
    refinement = replace(refinement, settings=refinement.settings.with_values({"windows.method": "small"}))
    fold = refinement.models["object"].fold
    rows = np.flatnonzero(task.y > 0)
    other = KnownBoxes(np.array([[60.0, 5, 90, 35]]), np.empty((0, 4)))
    before, after = (
        refinement.fit(
            replace(task, reviews=Reviews({row: of_fold if fold[row] == 1 else KNOWN for row in rows.tolist()}))
        )
        for of_fold in (KNOWN, other)
    )
    np.testing.assert_array_equal(before.chains[1].weights, after.chains[1].weights)
    assert not np.array_equal(before.chains[0].weights, after.chains[0].weights)
    assert before.priors[1] == after.priors[1]
    assert before.priors[0] != after.priors[0]
    assert after.result["sizes"] == list(after.priors[0].sizes)
