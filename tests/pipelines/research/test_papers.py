"""The papers' commands: each of the page runs on small made data; claims, words, bounds and readers are right."""

import re
from itertools import product

import everything
import inference
import numpy as np
import pytest
import supervised
import thesis
from claims import ONE, OPPOSITE, REPRODUCED, TITLES, UNSURE, Mean, claim, times
from scipy import stats
from toppush_protocol import InfinitePush

from lapsvm.ranking import average_precision, most_violated_ranking

COMMANDS = list(everything.commands())
SLOW = [command for command in COMMANDS if "alexnet" in command]  # a network of 27 ms a window
NEEDS = {"layerwise": "torch", "alexnet": "torch", "scaling": "matplotlib", "--figure": "matplotlib"}
OF_CLAIMS = ("training", "supervised", "thesis", "toppush", "toppush_protocol", "layerwise")


def words(command, out):
    return everything.words_of(command, everything.values_of(out, quick=True))


@pytest.mark.parametrize("command", [pytest.param(one, marks=[pytest.mark.slow] * (one in SLOW)) for one in COMMANDS])
def test_a_command_runs_on_small_made_data(command, script, rows, tmp_path):
    """Its table has the form of its page's, where it takes --into."""
    for name, package in NEEDS.items():
        if name in command:
            pytest.importorskip(package, reason=f"{package} is not installed")
    path, *given = words(command, tmp_path)
    found = rows(script(path.removeprefix("benchmarks/")), *given, "--quick")
    assert len(found) > 1
    assert list(TITLES) in found.values() or not re.search(rf"papers/({'|'.join(OF_CLAIMS)})\.py", command)


def test_the_page_has_a_command_for_every_script_of_the_papers():
    folder = everything.PAGE.parent
    scripts = {path.name for path in folder.glob("*.py") if "__main__" in path.read_text()} - {"everything.py"}
    assert scripts == {name for one in COMMANDS for name in re.findall(r"papers/(\w+\.py)", one)} | {"solver.py"}
    assert any("passes/ten_million.py" in one for one in COMMANDS)


def test_data_that_are_not_there_are_named(tmp_path):
    command = "python benchmarks/a.py DATA/voc --root VOC2007_ROOT --out OUT/b --C 1"
    assert everything.missing(command, {"OUT": "o"}) == ["LAPSVM_TEST_DATA", "VOC2007_ROOT"]
    values = {"OUT": "o", "DATA": str(tmp_path), "VOC2007_ROOT": "v"}
    assert everything.missing(command, values) == ["DATA/voc"]
    (tmp_path / "voc").mkdir()
    assert everything.missing(command, values) == []
    assert everything.words_of(command, values) == (
        ["benchmarks/a.py", f"{tmp_path}/voc", "--root", "v", "--out", "o/b", "--C", "1"]
    )


def test_everything_says_what_is_left_out_and_what_failed(script, capsys, monkeypatch):
    module = script("papers/everything.py", commands=lambda: iter(["python DATA/none.py", "python OUT/none.py"]))
    monkeypatch.setattr(module, "values_of", lambda *_, **__: {"DATA": "nowhere", "OUT": "nowhere"})
    with pytest.raises(SystemExit) as ended:
        module.main([])
    assert ended.value.code == 1
    said = capsys.readouterr().out
    assert "Left out: DATA/none.py is not there." in said
    assert said.endswith("Failed:\npython OUT/none.py\n")


@pytest.mark.parametrize("overlap", [0.0, 0.25])
def test_the_interval_is_students(overlap):
    values = np.array([0.3, 0.1, 0.4, 0.15])
    error = values.std(ddof=1) * np.sqrt(1 / 4 + overlap)
    expected = stats.t.interval(0.95, 3, values.mean(), error)
    assert Mean.of(values, overlap)[1:] == pytest.approx(expected)
    assert Mean.of([0.2] * 3) == (pytest.approx(0.2),) * 3


@pytest.mark.parametrize(
    ("values", "word"),
    [([0.3, 0.2, 0.25], REPRODUCED), ([-0.3, -0.2], UNSURE), ([-0.3, -0.2, -0.25], OPPOSITE), ([0.4], ONE)],
)
def test_the_word_of_a_difference_is_that_of_its_interval(values, word):
    assert claim("ours less theirs", Mean.of(values), 0.1)[-1] == word


def test_ratios_have_a_geometric_mean():
    assert times("greedy over ours", [2.0, 8.0], [1.0, 1.0], 4.0)[1::3] == ["4.0", REPRODUCED]
    assert times("greedy over ours", [2.0, 8.0], [1.0, 1.0], 5.0)[-1] == "not: less"


def test_infinite_push_is_the_least_maximum_of_mean_hinges():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 2)), np.repeat([1, -1], [10, 20])
    X[:10, 0] += 2

    def objective(w):
        hinges = np.maximum(0, 1 + (X[10:] @ w)[:, None] - (X[:10] @ w)[None])
        return 0.05 * w @ w + hinges.mean(axis=1).max()

    w = InfinitePush(0.1).fit(X, y)._w
    grid = min(objective(w + 0.2 * np.array(step)) for step in product((-2, -1, 0, 1, 2), repeat=2))
    assert objective(w) < objective(np.zeros(2))
    assert objective(w) <= grid + 1e-3 * objective(w)


def test_exactness_notices_a_ranking_that_is_not_the_best(monkeypatch):
    assert max(inference.short(case, "ndcg", "optranks") for case in range(20)) < 1e-12
    ndcg = lambda scores, labels, *_: most_violated_ranking(scores, labels, "auc", "optranks")  # noqa: E731
    monkeypatch.setattr(inference, "most_violated_ranking", ndcg)
    assert max(inference.short(case, "ndcg", "optranks") for case in range(20)) > 1e-3


def test_bounds_of_the_ap_loss_are_bounds():
    bags, y = thesis.planted(3, 12)
    for seed in range(20):
        w = np.random.default_rng(seed).standard_normal(16)
        loss, ours, anyone, _ = thesis.bounds(bags, y, w, 0.5)
        assert loss == pytest.approx(1 - average_precision((bags @ w).max(axis=1), y))
        assert loss <= ours + 1e-12
        assert ours <= anyone + 1e-12


def test_whole_pictures_have_the_labels_of_both_lists(digits):
    problem = supervised.pictures(digits, "hog")
    names = sorted((digits / "ImageSets/Main/trainval.txt").read_text().split())
    names += (digits / "ImageSets/Main/test.txt").read_text().split()
    assert problem.X.shape == (len(names), 900)
    lines = [line for part in ("trainval", "test")
             for line in (digits / f"ImageSets/Main/six_{part}.txt").read_text().splitlines()]  # fmt: skip
    n_positive = sum(line.split()[1] == "1" for line in lines)
    assert ("six" in problem.classes) == (n_positive >= supervised.LEAST)
    monkeyed = supervised._frequent({"six": np.ones(supervised.LEAST, bool), "few": np.ones(3, bool)})
    assert list(monkeyed) == ["six"]


def test_letters_are_each_against_the_others(tmp_path, monkeypatch):
    rows = [f"{'AB'[k % 2]},{k % 7},{k % 5}" for k in range(200)]
    (tmp_path / "letters").write_text("\n".join(["letter,a,b", *rows]))
    problem = supervised.letters(tmp_path / "letters")
    assert {name: int(of.sum()) for name, of in problem.classes.items()} == {"A": 100, "B": 100}
    assert np.abs(problem.X.mean(axis=0)).max() < 1e-12
