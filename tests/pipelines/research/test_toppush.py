"""TopPush's protocol on generated files: the table, its tests, going on where it was stopped, bad files."""

import json

import numpy as np
import pytest
import toppush_protocol as toppush
from lapsvm.pipelines.run.ownership import table_files
from libsvm_sets import read_official_split, read_set, scaled
from scipy import sparse
from scipy.io import savemat
from sklearn.datasets import dump_svmlight_file

from lapsvm.errors import DataError, LapsvmError
from lapsvm.evaluation import paired_t_test
from lapsvm.ranking import average_precision, positives_at_top

from ..calls import status_of

LEARNERS = ["toppush", "logistic_regression"]


def samples(n=90, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 3 == 0, 1, -1)
    return rng.normal(size=(n, 3)) * [1, 10, 100] + 3 * (y > 0)[:, None], y


@pytest.fixture
def root(tmp_path):
    X, y = samples()
    (tmp_path / "data").mkdir()
    dump_svmlight_file(X, y, str(tmp_path / "data" / "made"), zero_based=False)
    return tmp_path / "data"


def test_the_table_is_of_the_splits_and_their_paired_tests(root, tmp_path):
    table = toppush.run(root, tmp_path / "out", ["made"], 2, LEARNERS)
    assert json.loads((tmp_path / "out" / "toppush.json").read_text()) == table
    splits, found = table["splits"]["made"], table["summary"]["made"]["random"]
    aps = {name: [splits[seed][name]["ap"] for seed in "01"] for name in LEARNERS}
    for name in LEARNERS:
        assert found[name]["ap"]["mean"] == pytest.approx(np.mean(aps[name]))
        assert found[name]["ap"]["sd"] == pytest.approx(np.std(aps[name], ddof=1))
        assert found[name]["splits"] == 2
    expected = paired_t_test(aps["toppush"], aps["logistic_regression"], overlap=0.5).p_value
    assert found["logistic_regression"]["ap"]["p_value"] == pytest.approx(expected)
    assert table["summary"]["made"]["size"] == [60, 30, 3]
    text = (tmp_path / "out" / "toppush.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    assert ["2 random splits", "Pos@Top", "AP", "NDCG", "AUC", "CPU s"] in rows
    (top_push,) = (row for row in rows if row[0] == "TopPush")
    assert top_push[1].startswith(f"{found['toppush']['pos_at_top']['mean']:.3f} ± ")


def test_a_row_is_the_measures_of_the_learner_fitted_with_what_was_chosen(root, tmp_path):
    row = toppush.run(root, tmp_path / "out", ["made"], 1, ["toppush"])["splits"]["made"]["0"]["toppush"]
    split = next(toppush.splits_of(root, "made", 1))()
    scores = toppush.TopPush(row["parameter"]).fit(*split.training).decision_function(split.test.X)
    assert row["ap"] == pytest.approx(average_precision(scores, split.test.y), abs=1e-12)
    assert row["pos_at_top"] == pytest.approx(positives_at_top(scores, split.test.y), abs=1e-12)


def test_a_run_goes_on_where_it_was_stopped(root, tmp_path):
    first = toppush.run(root, tmp_path / "out", ["made"], 1, ["toppush"])["splits"]["made"]["0"]["toppush"]
    more = toppush.run(root, tmp_path / "out", ["made"], 2, LEARNERS)["splits"]["made"]
    assert more["0"]["toppush"] == first  # the time included: it was not run again
    assert set(more) == {"0", "1"}
    assert set(more["0"]) == {"size", *LEARNERS}


def test_the_official_split_is_a_row_of_its_own(root, tmp_path):
    X, y = samples()
    np.savetxt(root / "spambase.data", np.c_[X, y > 0], delimiter=",")
    parts = {
        "Xtr": sparse.csc_matrix(X[:60]),
        "ytr": y[:60, None],
        "Xte": sparse.csc_matrix(X[60:]),
        "yte": y[60:, None],
    }
    savemat(root / "spambase_toppush_official_split.mat", parts)
    training, test = read_official_split(root, "spambase")
    np.testing.assert_array_equal(training.X, X[:60])
    np.testing.assert_array_equal(test.y, y[60:])
    np.testing.assert_array_equal(read_set(root, "spambase").y, y)
    table = toppush.run(root, tmp_path / "out", ["spambase"], 0, ["logistic_regression"])
    assert set(table["splits"]["spambase"]) == {"official"}
    assert "| the official split " in (tmp_path / "out" / "toppush.md").read_text(encoding="utf-8")


def test_dense_features_are_scaled_by_the_training_part_alone():
    training, test = scaled(np.array([[0.0, 5.0], [4.0, 5.0]]), np.array([[8.0, 6.0]]))
    np.testing.assert_array_equal(training, [[0, 0], [1, 0]])
    np.testing.assert_array_equal(test, [[2, 1]])


def test_a_test_file_beside_a_set_is_taken_in(root):
    X, y = samples(seed=1)
    dump_svmlight_file(X, y, str(root / "made.t"), zero_based=False)
    read = read_set(root, "made")
    np.testing.assert_allclose(read.X[90:], X)
    assert len(read.y) == 180


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "is not there"),
        ("1 nonsense\n", "must be in the LIBSVM format"),
        ("1 1:2\n" * 40, "must hold two classes, got 1"),
        ("1 1:2\n" * 40 + "0 1:1\n" * 3, "must hold 10 samples of each class or more"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_clear_sentence(tmp_path, text, sentence):
    if text is not None:
        (tmp_path / "made").write_text(text)
    with pytest.raises(LapsvmError, match=sentence):
        toppush.run(tmp_path, tmp_path / "out", ["made"], 1, LEARNERS)


def test_results_of_other_settings_are_refused(root, tmp_path):
    table_files(tmp_path, "toppush")
    (tmp_path / "toppush.json").write_text('{"settings": {}, "splits": {}}')
    with pytest.raises(LapsvmError, match="must have been made with the settings"):
        toppush.run(root, tmp_path, ["made"], 1, LEARNERS)


def test_the_command_says_what_is_wrong_in_one_line(tmp_path, capsys):
    line = ["--root", tmp_path, "--out", tmp_path / "out", "--learners", "boosting"]
    assert status_of(toppush.main, *line) == 2
    said = capsys.readouterr().err
    assert said.startswith("lapsvm: option --learners must name some of toppush, ")
    assert said.count("\n") == 1


def test_a_missing_label_is_no_class(tmp_path):
    (tmp_path / "spambase.data").write_text("1,0,1\n0,1,nan\n")
    with pytest.raises(DataError, match="must have finite labels, got nan"):
        read_set(tmp_path, "spambase")
