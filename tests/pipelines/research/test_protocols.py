"""The papers' protocols: shares of oracle windows, recomputed cells, tests of differences, refusals."""

import json
import re
import tomllib
from itertools import pairwise
from pathlib import Path

import characters
import lapsvm.pipelines
import learners
import numpy as np
import pytest
import supervision
from cell_figures import image_ap
from cell_tables import markdown, t_table
from lapsvm.pipelines.context import RunContext
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.settings.checks import check_settings
from methods import METHODS, Grids, Start
from oracle_windows import oracle_share, oracle_windows
from pictures import load_pictures
from scipy import stats
from sklearn.metrics import average_precision_score
from sklearn.svm import LinearSVC

from lapsvm.boxes import iou
from lapsvm.evaluation import holm
from lapsvm.latent import StructuralProblem, fit_many

from ..calls import done, status_of

FIRST = 16
SMALL = ["--first", FIRST, "--folds", 2, "--C", "1,10", "--hinge-C", "0.1", "--J", "0.3,1", "--draws", 20, "--quiet"]
SWAPPED = ["--swap", "--shares", "0,50,100", *SMALL]


@pytest.fixture(scope="module")
def supervised(finished, tmp_path_factory):
    """The folder of a finished supervision protocol; not to be changed."""
    out = tmp_path_factory.mktemp("protocols") / "OUT"
    done("--shards-from", finished, "--out", out, *SWAPPED, command=supervision.main)
    return out


@pytest.fixture(scope="module")
def found(supervised):
    return json.loads((supervised / "supervision.json").read_text())


@pytest.fixture(scope="module")
def sets(finished):
    """The pictures of the training set and of the test set."""
    folder = RunFolder(finished)
    context = RunContext(folder, check_settings(folder.settings()), 1, None)
    train, scale = load_pictures(context, "trainval", FIRST)
    return train, load_pictures(context, "test", FIRST, scale=scale)[0]


def test_only_the_first_windows_of_a_picture_are_used(sets):
    for pictures in sets:
        assert np.diff(pictures.bags.offsets).max() == FIRST
        assert [len(boxes) for boxes in pictures.boxes] == np.diff(pictures.bags.offsets).tolist()


def test_the_oracle_window_overlaps_an_object_most(sets):
    train, _ = sets
    for name in train.labels:
        oracle = oracle_windows(train, name)
        assert (oracle >= 0).any()
        for place, image in enumerate(train.ids):
            objects = train.truth[name][image]
            easy = np.asarray(objects.boxes)[~np.asarray(objects.difficult, dtype=bool)]
            overlaps = iou(train.boxes[place], easy).max(axis=1) if len(easy) else np.zeros(1)
            reaches = train.labels[name][place] > 0 and overlaps.max() >= 0.5
            assert oracle[place] == (overlaps.argmax() if reaches else -1)


def test_a_larger_share_of_oracle_windows_contains_every_smaller_one():
    right = np.array([3, -1, 0, 7, -1, 2, 5])
    shares = [oracle_share(right, percent, (4, 0)) for percent in (0, 25, 50, 75, 100)]
    assert [int((known >= 0).sum()) for known in shares] == [0, 1, 2, 4, 5]
    assert shares[-1].tolist() == right.tolist()
    for smaller, larger in pairwise(shares):
        given = smaller >= 0
        assert (larger[given] == smaller[given]).all()


def test_the_table_counts_the_given_windows(found, sets):
    train, _ = sets
    for part in found["shares"]:
        for name, counted in part["given"][0].items():
            right = oracle_windows(train, name)
            assert counted["positives"] == (train.labels[name] > 0).sum()
            assert counted["with_oracle_window"] == (right >= 0).sum()
            if isinstance(part["share"], float):
                assert counted["given"] == round((right >= 0).sum() * part["share"] / 100)


def test_no_stage_of_a_run_uses_given_windows():
    assert "fixed_windows" in (Path(supervision.__file__).parent / "methods.py").read_text()
    folder = Path(lapsvm.pipelines.__path__[0])
    assert [path for path in folder.rglob("*.py") if "fixed_windows" in path.read_text()] == []


@pytest.mark.parametrize("share", [0.0, 100.0])
@pytest.mark.parametrize("method", ["latent_ap", "latent_svm"])
def test_a_cell_is_what_training_its_problems_gives(supervised, found, sets, method, share):
    train, test = sets
    (path,) = (supervised / "seed0" / "cells").glob(f"{method}-S{share:g}-*.json")
    cell = json.loads(path.read_text())
    part = next(one for one in found["shares"] if one["share"] == share)
    for place, name in enumerate(train.labels):
        entry, y = cell["classes"][name], train.labels[name]
        chosen = entry["grid"][entry["chosen"]]
        assert np.mean(chosen["folds"]) == max(np.mean(one["folds"]) for one in entry["grid"])
        known = oracle_share(oracle_windows(train, name), share, (0, place))
        options = Start().options(0)[0]
        (solution,) = fit_many([METHODS[method].problem(y, chosen["constants"], known, options)], train.bags)
        scores, labels = test.bags.best(solution.coef).score, test.labels[name]
        used = labels != 0
        expected = average_precision_score(labels[used] > 0, scores[used])
        assert chosen["test_image_ap"] == pytest.approx(expected, abs=1e-9)
        assert part["classes"][name][method]["image_ap"] == pytest.approx(expected, abs=1e-9)
        if share == 100:
            given = known >= 0
            assert (solution.windows[given] == known[given]).all()


def test_windows_are_swapped_for_those_that_the_other_learner_chose(supervised, sets):
    train, _ = sets

    def entry(pattern, name):
        (path,) = (supervised / "seed0" / "cells").glob(pattern)
        return json.loads(path.read_text())["classes"][name]

    for name, y in train.labels.items():
        windows = np.array(entry("latent_svm-S0-*", name)["windows"])
        assert ((windows >= 0) == (y > 0)).all()
        swapped = entry("latent_ap-on-latent_svm-*", name)
        chosen = swapped["grid"][swapped["chosen"]]
        (solution,) = fit_many(
            [METHODS["latent_ap"].problem(y, chosen["constants"], windows, Start().options(0)[0])], train.bags
        )
        assert (solution.windows[y > 0] == windows[y > 0]).all()
        assert solution.objective == pytest.approx(chosen["objective"], rel=1e-2)


def test_finished_cells_are_kept_and_a_lost_one_is_made_again(supervised, finished, tmp_path):
    cells = supervised / "seed0" / "cells"
    before = {path.name: path.stat().st_mtime_ns for path in cells.iterdir()}
    table = json.loads((supervised / "supervision.json").read_text())
    lost = next(cells.glob("latent_ap-S50-*.json"))
    kept = json.loads(lost.read_text())
    lost.unlink()
    done("--shards-from", finished, "--out", supervised, *SWAPPED, command=supervision.main)
    after = {path.name: path.stat().st_mtime_ns for path in cells.iterdir()}
    assert before.keys() == after.keys()
    assert {name for name in before if before[name] != after[name]} == {lost.name}
    assert json.loads(lost.read_text())["classes"] == kept["classes"]
    again = json.loads((supervised / "supervision.json").read_text())
    assert [part["classes"] for part in again["shares"]] == [part["classes"] for part in table["shares"]]


def test_the_settings_name_the_command(supervised):
    line = tomllib.loads((supervised / "seed0" / "run.toml").read_text())["command"]["line"]
    assert line.startswith("python benchmarks/protocols/supervision.py")


def test_the_table_has_every_learner_and_its_tests(finished, tmp_path):
    names = "latent_ap,latent_ndcg,latent_auc,latent_svm,mean_svm"
    assert status_of(learners.main, "--shards-from", finished, "--out", tmp_path, "--classes", "six,three", *SMALL) == 0
    table = json.loads((tmp_path / "learners.json").read_text())
    assert ",".join(table["methods"]) == names
    (part,) = table["shares"]
    assert {len(one["differences"]) for one in part["differences"]["image_ap"]["classes"].values()} == {4}
    text = (tmp_path / "learners.md").read_text()
    assert text == markdown(table)
    assert all(title in text for title in table["methods"].values())


def test_differences_are_paired_t_tests_corrected_by_holm():
    values = np.random.default_rng(0).normal(size=(2, 3, 5))
    table = t_table(values, ["a", "b", "c"])
    expected = [stats.ttest_rel(values[1, place], values[0, place]) for place in range(3)]
    rows = [table["classes"][name]["differences"][0] for name in "abc"]
    assert [row["p_value"] for row in rows] == pytest.approx([one.pvalue for one in expected])
    assert [row["p_holm"] for row in rows] == pytest.approx(holm([one.pvalue for one in expected]).tolist())
    intervals = [one.confidence_interval() for one in expected]
    assert [row["low"] for row in rows] == pytest.approx([one.low for one in intervals])
    assert [row["high"] for row in rows] == pytest.approx([one.high for one in intervals])


def test_the_svm_on_means_is_liblinears(sets):
    train, _ = sets
    y, none = train.labels["six"], np.full(len(train.ids), -1)
    problem = METHODS["mean_svm"].problem(y, {"C": 1.0, "J": 3.0, "c": 0.0}, none, {"tol": 1e-6})
    (solution,) = fit_many([problem], train.means)
    used = y != 0
    X = np.stack([train.means[i][0] for i in np.flatnonzero(used)])
    other = LinearSVC(C=1.0, loss="hinge", class_weight={1: 3.0}, tol=1e-8, max_iter=1_000_000, random_state=0)
    other.fit(X, y[used])
    slack = np.maximum(0, 1 - y[used] * other.decision_function(X))
    weights = np.where(y[used] > 0, 3.0, 1.0)
    objective = (other.coef_**2).sum() / 2 + other.intercept_[0] ** 2 / 2 + (weights * slack).sum()
    assert solution.objective == pytest.approx(objective, rel=1e-4)


def test_the_structural_svm_ignores_the_option_top():
    y = np.array([1, -1])
    problem = METHODS["latent_struct"].problem(y, {"C": 2.0}, np.array([-1, -1]), Start(2, 0.5).options(3)[1])
    assert isinstance(problem, StructuralProblem)
    assert (problem.C, problem.init, problem.seed) == (2.0, "random", 7)


def test_the_grid_of_j_is_relative_to_the_share_of_positives():
    y = np.array([1, 1, -1, -1, -1, -1, -1, -1, 0])
    grid = Grids((1.0,), (0.1, 1.0), (0.5, 1.0), (0.0, 0.2)).hinge(y)
    assert len(grid) == 2 * 2 * 2
    assert {one["J"] for one in grid} == {0.5 * 8 / 2, 1.0 * 8 / 2}


def test_nothing_to_rank_is_an_ap_of_0():
    assert image_ap(np.array([1.0, 2.0]), [-1, 0]) == 0.0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--methods", "svm"], "option --methods must name some of latent_ap, .*, got 'svm'."),
        (["--methods", "latent_ap,latent_ap"], "option --methods must name each learner once"),
        (["--shares", "0,120"], "option --shares must be between 0 and 100, got '0,120'."),
        (["--C", "one"], "option --C must be numbers separated by commas, got 'one'."),
        (["--C", "0"], "C must be a finite number greater than 0, got 0"),
        (["--swap", "--shares", "50"], "option --swap needs 0 among --shares, got '50'."),
        (["--seeds", "2"], "option --seeds needs --data digits without --root"),
        (["--folds", "30"], "must have 30 positive and 30 negative pictures for 30 folds"),
    ],
)
def test_bad_options_are_one_sentence(finished, tmp_path, capsys, options, sentence):
    line = ["--shards-from", finished, "--out", tmp_path, "--first", 5, "--quiet", *options]
    assert status_of(supervision.main, *line) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("lapsvm: ")
    assert re.search(sentence, said)


@pytest.mark.slow
def test_every_seed_draws_other_characters(tmp_path):
    small = ["--first", 10, "--pictures", 60, "--starts", 1, "--folds", 2, "--C", "10", "--hinge-C", "0.1", "--J", 1]
    small += ["--windows", "grid", "--max-windows", 30]
    small += ["--draws", 5, "--quiet"]
    done("--out", tmp_path, "--seeds", 2, "--seed", 3, *small, command=characters.main)
    table = json.loads((tmp_path / "characters.json").read_text())
    assert table["seeds"] == [3, 4]
    runs = [RunFolder(tmp_path / f"seed{seed}") for seed in table["seeds"]]
    assert [folder.settings().seed for folder in runs] == [3, 4]
    again = tmp_path / "again"
    line = ["--data", "digits", "--shards-from", tmp_path, "--out", again, "--seeds", 2, "--seed", 3, "--shares", 50]
    assert status_of(supervision.main, *line, *small) == 0
    first, second = ((folder / "seed4" / "shards" / "test" / "0000003.safetensors") for folder in (tmp_path, again))
    assert first.samefile(second)
    (part,) = table["shares"]
    cells = [json.loads(next((folder.path / "cells").glob("latent_svm-*")).read_text()) for folder in runs]
    for name, row in part["classes"].items():
        values = [cell["classes"][name]["figures"]["image_ap"]["value"] for cell in cells]
        assert values[0] != values[1]
        assert row["latent_svm"]["image_ap"] == pytest.approx(np.mean(values))
