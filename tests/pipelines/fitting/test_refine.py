"""The stage of refinement: after training, resumed like the others."""

import csv
import shutil
from dataclasses import asdict, replace
from types import SimpleNamespace

import numpy as np
import pytest
from lapsvm.pipelines.fitting.contrast_start import StoredContent
from lapsvm.pipelines.fitting.refinement_guard import RefinementGuard, held_out_scores, without_flipped
from lapsvm.pipelines.fitting.surroundings import with_less_surroundings
from lapsvm.pipelines.fitting.tasks import NEUTRAL, fit_tasks, training_difference
from lapsvm.pipelines.fitting.training_bags import Halves, training_bags
from lapsvm.pipelines.fitting.voted_windows import voted_windows
from lapsvm.pipelines.results.held_out import HeldOut
from lapsvm.pipelines.run.context import RunContext
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.run.progress import Reporter
from lapsvm.pipelines.run.settings import RefineSettings
from lapsvm.pipelines.stages import refine as refine_stage

from lapsvm.bags import Bags
from lapsvm.boxes import iou
from lapsvm.detection import Detector, box_voting, smooth_scores
from lapsvm.features import open_shards
from lapsvm.latent import LatentSolution, Refinement

REFINEMENT = ["--refine", "2", "--refine-C", "10", "--refine-folds", "2"]


@pytest.fixture(scope="module")
def refined(digits, fast, tmp_path_factory):
    from lapsvm.pipelines.commands.verbs import main

    out = tmp_path_factory.mktemp("refined") / "RUN"
    with pytest.raises(SystemExit) as exit_:
        main(["run", "--data", "voc", "--root", str(digits), "--out", str(out), "--quiet", *fast, *REFINEMENT])
    assert exit_.value.code == 0
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
    for name in ("mean_probe_image_ap", "held_out_image_ap"):  # the page warns by them
        assert provenance["result"][name] == first[name]
    assert provenance["result"]["duality_gap"] <= provenance["training"]["tol"]


def test_a_mean_of_models_claims_no_certificate(run_copy, command):
    said = command("refine", "--out", run_copy, *REFINEMENT, "--average")
    assert said.status == 0
    assert "six is the mean of 3 models: averaged, no certificate." in said.out + said.err
    result = Detector.load(run_copy / "models" / "six.safetensors").provenance["result"]
    assert (result["averaged_models"], result["certificate"]) == (3, None)
    assert not {"objective", "dual", "duality_gap"} & result.keys()
    assert result["before_averaging"]["duality_gap"] >= 0
    assert all(command(stage, "--out", run_copy).status == 0 for stage in ("detect", "evaluate", "report"))
    page = (run_copy / "page" / "index.html").read_text()
    assert page.count(">averaged<") == len(list((run_copy / "models").glob("*.safetensors")))
    assert "the detector is the mean of several models, which has no duality gap" in page


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


def test_a_rerun_has_nothing_to_do(refined, digits, fast, command, made):
    before, times = made(refined), (refined / "timings.json").read_text()
    said = command("run", "--data", "voc", "--root", digits, "--out", refined, "--quiet", *fast, *REFINEMENT)
    assert (said.status, made(refined)) == (0, before)
    assert '"refine"' in times


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
    said = command("refine", "--out", refined, "--refine-C", "20")
    assert said.status == 2
    assert "was trained with training.refine.C 10.0 instead of 20.0" in said.err


@pytest.fixture
def refined_before(refined, run_copy):
    """A refined run whose models lack the newest settings of refinement."""
    shutil.copytree(refined, run_copy, dirs_exist_ok=True)
    for path in (run_copy / "models").glob("*.safetensors"):
        detector = Detector.load(path)
        for name in NEUTRAL:
            del detector.provenance["training"]["refine"][name]
        detector.save(path)
    return run_copy


def test_settings_that_older_models_lack_count_as_neutral(refined_before, digits, fast, command, made):
    before = made(refined_before, "models/*")
    assert command("refine", "--out", refined_before, "--quiet").status == 0
    options = ("--data", "voc", "--root", digits, "--out", refined_before, "--quiet", *fast, *REFINEMENT)
    assert command("run", *options).status == 0
    assert made(refined_before, "models/*") == before


@pytest.mark.parametrize(
    ("option", "name"),
    [
        ("--neg-part-iou", "neg_part_iou"),
        ("--scene-part-iou", "scene_part_iou"),
        ("--refine-smoothing", "score_smoothing"),
        ("--refine-surroundings", "surroundings"),
    ],
)
def test_other_values_than_the_neutral_ones_are_refused_for_older_models(refined_before, command, option, name):
    said = command("refine", "--out", refined_before, option, "0.5")
    assert said.status == 2
    assert f"was trained with training.refine.{name} {NEUTRAL[name]} instead of 0.5" in said.err


@pytest.mark.parametrize(
    ("probe_ap", "parts", "scene", "expected"),
    [
        (1.0, 0.1, 0.25, 0.25),
        (0.999, 0.1, 0.25, 0.25),
        (1.0, 0.4, 0.25, 0.4),
        (0.99, 0.1, 0.25, 0.1),
        (None, 0.1, 0.25, 0.1),
        (1.0, 0.1, 0.0, 0.1),
    ],
)
def test_fewer_parts_are_spared_where_the_mean_of_windows_separates_the_pictures(
    monkeypatch, finished, probe_ap, parts, scene, expected
):
    found, run = [], RunFolder(finished)
    context = RunContext(run, run.settings(), 1, Reporter(True))
    monkeypatch.setattr(refine_stage, "refine", lambda *_, **options: found.append(options["neg_part_iou"]))
    settings = context.settings.with_values({"refine.neg_part_iou": parts, "refine.scene_part_iou": scene})
    shards = open_shards(context.run.shards("trainval"))
    (task, *_), bags = fit_tasks(context, shards), training_bags(context, shards)[0]
    detector = Detector.load(context.run.model(task.name))
    result = {**detector.provenance["result"], "mean_probe_image_ap": probe_ap}
    trained = replace(detector, provenance={**detector.provenance, "result": result})
    boxes = np.concatenate([shard.boxes for shard in shards])
    pictures = refine_stage._Pictures(bags, boxes, np.ones(bags.dim), shards.image_ids, None)
    start = refine_stage._First(trained, np.zeros(bags.dim), np.zeros(bags.n_bags, dtype=int))
    refine_stage._round(replace(context, settings=settings), task, pictures, start, "round")
    assert found == [expected]


def test_windows_that_were_voted_before_smoothing_are_not_taken_for_those_of_now():
    refinement = {**asdict(RefineSettings(box_voting=True)), "score_smoothing": 0.0}
    task = SimpleNamespace(
        provenance={"training": {"learner": "latent_rank_svm", "map_weights": "equal", "refine": refinement}}
    )
    stored = {"training": {"learner": "latent_rank_svm", "refine": dict(refinement)}}
    assert training_difference(stored, task, ("training",)) == ""
    del stored["training"]["refine"]["score_smoothing"]
    assert "score_smoothing" in training_difference(stored, task, ("training",))


def test_neutral_values_are_the_defaults():
    assert {name: getattr(RefineSettings(), name) for name in NEUTRAL} == NEUTRAL


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--refine", "-1"], "option --refine must be from 0 to 2147483647, got -1."),
        (["--candidates", "-2"], "option --candidates must be from 0 to 2147483647, got -2."),
        (["--refine-folds", "1"], "option --refine-folds must be from 2 to 2147483647, got 1."),
        (["--neg-iou", "0.8"], "must be 0 <= neg-min-iou < neg-iou <= pos-iou <= 1, got 0, 0.8, 0.7."),
        (["--neg-part-iou", "1.5"], "option --neg-part-iou must be from 0 to 1, got 1.5."),
        (["--refine-C", "0"], "refine-C must be a finite number greater than 0, got 0."),
    ],
)
def test_constants_that_break_their_rule_are_refused(refined, command, options, sentence):
    said = command("refine", "--out", refined, *options)
    assert (said.status, sentence in said.err) == (2, True)


def test_windows_inside_the_chosen_one_may_be_spared(run_copy, command):
    options = ("--refine", "1", "--refine-folds", "2", "--quiet", "--redo")
    weights = []
    for given in ("1", "0.3", "0"):  # an IoU of 0.3 is that below which a window is negative anyway
        assert command("refine", "--out", run_copy, *options, "--neg-part-iou", given).status == 0
        weights.append(Detector.load(run_copy / "models" / "six.safetensors").coef)
    np.testing.assert_array_equal(weights[0], weights[1])
    assert not np.array_equal(weights[1], weights[2])


def test_of_few_positives_each_is_a_fold(run_copy, command):
    assert command("refine", "--out", run_copy, "--quiet", "--refine", "1", "--refine-folds", "99").status == 0
    assert Detector.load(run_copy / "models" / "six.safetensors").coef.any()


def test_detection_says_which_stage_is_missing(run_copy, command):
    said = command("refine", "--out", run_copy, "--quiet", *REFINEMENT)
    (run_copy / "models" / "six.safetensors").unlink()
    said = command("detect", "--out", run_copy)
    assert said.status == 2
    assert "run lapsvm refine first." in said.err


def test_with_as_many_candidates_as_windows_nothing_changes(run_copy, refined, command, made):
    assert command("refine", "--out", run_copy, "--quiet", *REFINEMENT, "--candidates", "60").status == 0
    for path in (refined / "models").glob("*.safetensors"):
        found = Detector.load(run_copy / "models" / path.name)
        np.testing.assert_allclose(found.coef, Detector.load(path).coef, atol=1e-6)


def test_few_candidates_still_give_a_detector(run_copy, command):
    assert command("refine", "--out", run_copy, "--quiet", *REFINEMENT, "--candidates", "5").status == 0
    assert Detector.load(run_copy / "models" / "six.safetensors").coef.any()


@pytest.mark.parametrize("smoothing", [0.0, 0.5, 1.0])
def test_box_voting_moves_the_windows_of_the_named_pictures_only(smoothing):
    rng = np.random.default_rng(0)
    corner = rng.uniform(0, 20, (90, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(30, 50, (90, 2))], axis=1)
    bags = Bags(rng.normal(size=(90, 5)), np.array([0, 30, 60, 90]))
    weights = rng.normal(size=5)
    chosen = bags.best(weights).index
    moved = voted_windows(bags, boxes, weights, np.array([0, 2]), chosen, smoothing)
    assert moved[1] == chosen[1]
    for picture in (0, 2):
        own, scores = boxes[30 * picture : 30 * picture + 30], bags[picture] @ weights
        best = [smooth_scores(own, scores, smoothing).argmax()]
        assert smoothing or best == chosen[picture]
        voted = box_voting(own[best], own, scores, min_iou=0.45)
        assert moved[picture] == iou(own, voted)[:, 0].argmax()
    assert (moved != chosen).any()


def test_a_round_may_begin_with_voted_windows(refined, run_copy, command):
    shutil.copytree(refined, run_copy, dirs_exist_ok=True)
    assert command("refine", "--out", run_copy, *REFINEMENT, "--refine-voting", "--redo").status == 0
    voted = Detector.load(run_copy / "models" / "six.safetensors")
    assert voted.provenance["training"]["refine"]["box_voting"]
    assert not np.array_equal(voted.coef, Detector.load(refined / "models" / "six.safetensors").coef)


def stored_refinement(n_bags: int, dim: int, folds: int, rng) -> Refinement:
    """Return a round of random models."""
    windows = rng.integers(0, 5, n_bags)
    models = rng.normal(size=(dim, folds + 1))
    solution = LatentSolution(models[:, 0], 0.0, 1.0, 1.0, 0.0, windows, [], 1, 1, True)
    fold = np.arange(n_bags) % folds + 1
    return Refinement(solution, models.mean(axis=1), windows, fold, models[:, 1:])


def test_models_that_flipped_are_replaced_by_what_the_round_began_with():
    rng = np.random.default_rng(1)
    found, weights, before = stored_refinement(12, 4, 3, rng), rng.normal(size=4), np.full(12, 9)
    kept = without_flipped(found, [0, 2], weights, 0.5, before)
    np.testing.assert_array_equal(kept.solution.coef, weights)
    assert kept.solution.intercept == 0.5
    assert without_flipped(found, [2], weights, 0.5, before).solution.intercept == found.solution.intercept
    np.testing.assert_array_equal(kept.fold_coef[:, 1], weights)
    np.testing.assert_array_equal(kept.fold_coef[:, [0, 2]], found.fold_coef[:, [0, 2]])
    np.testing.assert_allclose(kept.mean_coef, (2 * weights + found.fold_coef[:, [0, 2]].sum(axis=1)) / 4)
    np.testing.assert_array_equal(kept.windows, np.where(found.fold == 2, 9, found.windows))


def test_the_guard_finds_the_models_whose_content_lost_its_evidence():
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(60, 6))
    rows[::5, 0] += 4  # the first window of every bag is the object
    content = StoredContent(Bags(rows, np.arange(0, 61, 5)), Halves((6,), (True,), 0.5))
    weights, positives, objects = np.array([1.0, 0, 0, -1, 0, 0]), np.arange(0, 12, 2), np.zeros(12, dtype=int)
    guard = RefinementGuard(content, positives, weights, objects)
    found = stored_refinement(12, 6, 3, rng)
    same, solution = np.tile(weights[:, None], 3), replace(found.solution, coef=weights, windows=objects)
    right = replace(found, solution=solution, fold_coef=same, windows=objects)
    assert guard.flipped(right) == []
    same[:, 1] *= -1
    assert guard.flipped(replace(right, fold_coef=same)) == [2]
    beside = np.where(found.fold == 3, 1, 0)
    assert guard.flipped(replace(right, fold_coef=np.tile(weights[:, None], 3), windows=beside)) == [3]


def test_scores_of_a_fold_whose_model_flipped_are_not_held_out():
    rng = np.random.default_rng(3)
    found, bags = stored_refinement(12, 4, 3, rng), Bags(rng.normal(size=(60, 4)), np.arange(0, 61, 5))
    best = bags.best(np.column_stack([found.solution.coef, found.fold_coef]))
    scores = held_out_scores(found, [1, 3], best, lambda weights, own: np.full(own.sum(), weights[0]))
    np.testing.assert_array_equal(scores.fold, np.array([1, 0, 2] * 4))
    np.testing.assert_array_equal(scores.score[2::3], best.score[2::3, 3] + found.fold_coef[0, 2])
    np.testing.assert_array_equal(scores.center, [best.score[2::3, 1].mean(), best.score[::3, 3].mean()])


def test_all_models_of_a_round_keep_the_same_share_of_the_surroundings():
    rng = np.random.default_rng(4)
    found, inside = stored_refinement(12, 4, 3, rng), np.array([True, False, True, False])
    kept, factors = with_less_surroundings(found, inside, 0.25), np.array([1.0, 0.25, 1.0, 0.25])
    np.testing.assert_allclose(kept.solution.coef, found.solution.coef * factors)
    np.testing.assert_allclose(kept.fold_coef, found.fold_coef * factors[:, None])
    np.testing.assert_allclose(kept.mean_coef, np.column_stack([kept.solution.coef, kept.fold_coef]).mean(axis=1))
    np.testing.assert_array_equal(kept.windows, found.windows)


@pytest.mark.parametrize("flipped", [[0], [2], [0, 1, 3]])
def test_models_that_flipped_keep_all_weights_of_the_surroundings(flipped):
    found, inside = stored_refinement(12, 4, 3, np.random.default_rng(5)), np.array([True, False, True, False])
    kept = with_less_surroundings(found, inside, 0.25, flipped)
    before, after = (np.column_stack([one.solution.coef, one.fold_coef]) for one in (found, kept))
    factors = np.array([1.0, 0.25, 1.0, 0.25])
    for number in range(4):
        expected = before[:, number] if number in flipped else before[:, number] * factors
        np.testing.assert_array_equal(after[:, number], expected)
    np.testing.assert_allclose(kept.mean_coef, after.mean(axis=1))


@pytest.mark.parametrize(("rounds", "share"), [(1, 1.0), (2, 0.5)])
def test_what_replaces_a_flipped_model_keeps_its_surroundings_in_the_first_round(rounds, share):
    found = stored_refinement(6, 4, 3, np.random.default_rng(0))
    halves = SimpleNamespace(inside=np.array([True, False, True, False]))
    pictures = SimpleNamespace(content=SimpleNamespace(halves=halves))
    settings = SimpleNamespace(refine=RefineSettings(rounds=rounds, surroundings=0.5))
    lowered = refine_stage._lowered(SimpleNamespace(settings=settings), pictures, refine_stage._Refined(found, [0]))
    np.testing.assert_allclose(lowered.refinement.solution.coef, found.solution.coef * [1, share, 1, share])
    np.testing.assert_allclose(lowered.refinement.fold_coef, found.fold_coef * np.array([[1], [0.5], [1], [0.5]]))


def test_features_without_surroundings_keep_all_weights_and_the_certificate(run_copy, refined, command):
    assert command("refine", "--out", run_copy, *REFINEMENT, "--refine-surroundings", "0.5", "--quiet").status == 0
    for path in (refined / "models").glob("*.safetensors"):
        found = Detector.load(run_copy / "models" / path.name)
        np.testing.assert_array_equal(found.coef, Detector.load(path).coef)
        assert found.provenance["result"]["duality_gap"] >= 0


class FlippedModels:
    """A guard to which the same models of every round have flipped."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = list(numbers)

    def flipped(self, refinement: Refinement) -> list[int]:
        return self.numbers


@pytest.fixture
def refined_with_flips(run_copy, command, monkeypatch):
    from lapsvm.pipelines.stages import refine

    def refined(*numbers, options=("--refine-folds", "3")):
        monkeypatch.setattr(refine, "_guard", lambda *_: FlippedModels(*numbers))
        said = command("refine", "--out", run_copy, "--refine", "2", *options)
        assert said.status == 0
        return Detector.load(run_copy / "models" / "six.safetensors"), said.err

    return refined


def test_a_round_may_begin_with_windows_of_smoothed_scores(refined, run_copy, command, monkeypatch):
    starts = {}

    def spy(context, task, pictures, start, title):
        starts.setdefault(context.settings.refine.score_smoothing, []).append(start.windows)
        return round_of(context, task, pictures, start, title)

    round_of = refine_stage._round
    monkeypatch.setattr(refine_stage, "_round", spy)
    shutil.copytree(refined, run_copy, dirs_exist_ok=True)
    for amount in ("0", "0.9"):
        options = ("--refine-voting", "--refine-smoothing", amount, "--redo")
        assert command("refine", "--out", run_copy, *REFINEMENT, *options).status == 0
    plain, smoothed = starts.values()
    assert any(not np.array_equal(one, other) for one, other in zip(plain, smoothed, strict=True))


@pytest.mark.parametrize(("share", "chosen"), [(1.0, 1), (0.8, 0)])
def test_voting_lowers_the_weights_of_surroundings(share, chosen):
    features = np.array([[1.0, 0.0], [0.0, 1.1]])  # the second column is of the surroundings
    boxes = np.array([[0.0, 0.0, 10.0, 10.0], [20.0, 20.0, 30.0, 30.0]])
    halves = SimpleNamespace(inside=np.array([True, False]))
    pictures = SimpleNamespace(
        bags=Bags(features, np.array([0, 2])), boxes=boxes, content=SimpleNamespace(halves=halves)
    )
    settings = SimpleNamespace(refine=RefineSettings(box_voting=True, surroundings=share))
    own, windows = np.array([0]), np.array([0])
    voted = refine_stage._voted(SimpleNamespace(settings=settings), pictures, np.ones(2), own, windows)
    assert voted.tolist() == [chosen]


def test_a_fold_whose_model_flipped_takes_no_part_in_calibration(refined_with_flips, run_copy):
    detector, _ = refined_with_flips(2)
    assert detector.calibration is not None
    held_out = HeldOut.load(run_copy / "heldout" / "six.safetensors")
    labels = Detector.load(run_copy / "first" / "six.safetensors").provenance["data"]
    assert len(held_out.ids) < labels["positives"] + labels["negatives"]
    assert set(held_out.fold) == {1, 2}


def test_one_fold_that_did_not_flip_gives_no_probabilities(refined_with_flips, run_copy):
    detector, said = refined_with_flips(1, 3)
    assert detector.calibration is None
    assert not (run_copy / "heldout" / "six.safetensors").exists()
    assert "scores of six have no probabilities, which need 2 folds whose models did not flip, got 1." in said


@pytest.mark.parametrize("options", [(), ("--average",)])
def test_a_model_that_flipped_leaves_no_certificate(refined_with_flips, run_copy, command, options):
    detector, _ = refined_with_flips(0, options=options)
    first = Detector.load(run_copy / "first" / "six.safetensors")
    result = detector.provenance["result"]
    assert result["certificate"] is None
    assert not {"objective", "dual", "duality_gap", "before_averaging"} & result.keys()
    if not options:
        assert detector.intercept == first.intercept
        np.testing.assert_allclose(detector.coef * detector.scale, first.coef * first.scale)
    with (run_copy / "history.csv").open() as file:
        roles = {row["role"] for row in csv.DictReader(file) if row["class"] == "six"}
    assert {role for role in roles if role.startswith("round")} == {"round 1, flipped", "round 2, flipped"}
    assert all(command(stage, "--out", run_copy).status == 0 for stage in ("detect", "evaluate", "report"))


def test_a_fold_whose_model_flipped_keeps_its_windows(refined_with_flips, run_copy, monkeypatch):
    owns = []
    monkeypatch.setattr(refine_stage, "voted_windows", lambda *given: owns.append(len(given[3])) or given[4])
    refined_with_flips(1, 2, options=("--refine-folds", "3", "--refine-voting"))
    n_classes = len(list((run_copy / "models").glob("*.safetensors")))
    assert len(owns) == 2 * n_classes  # of every class: all pictures before the first round, one fold after it
