"""Refined runs in comparisons: figures are of the refined models, folds train as the runs' training did."""

import io
import json
import shutil
from contextlib import redirect_stdout

import pytest
from lapsvm.pipelines.run.folder import RunFolder

from lapsvm.detection import Detector

from ..calls import done

LEARNERS = {
    "AP": ["--C", "1,10", "--folds", "2"],
    "HINGE": ["--learner", "latent_svm", "--C", "0.01", "--J", "5", "--set", "train.trim=0.2"],
}
REFINEMENT = ["--refine", "1", "--set=refine.C=30"]


@pytest.fixture(scope="module", params=list(LEARNERS))
def runs(request, finished, digits, fast_extraction, tmp_path_factory):
    """A run of a learner, and the same run with refinement after it; not to be changed."""
    folder = tmp_path_factory.mktemp("refined")
    made = folder / request.param, folder / "REFINED"
    for out, more in zip(made, ([], REFINEMENT), strict=True):
        line = ["run", "--data", "voc", "--root", digits, "--out", out, "--shards-from", finished, "--quiet"]
        done(*line, *fast_extraction, *LEARNERS[request.param], *more)
    return made


@pytest.fixture(scope="module")
def compared(runs, tmp_path_factory):
    """Return the comparison of both, folds included, and what was printed."""
    out = tmp_path_factory.mktemp("compared") / "C"
    said = io.StringIO()
    with redirect_stdout(said):
        done("compare", "--out", out, *runs, "--folds", 2, "--draws", 50)
    return json.loads((out / "comparison.json").read_text()), said.getvalue(), out / "comparison.md"


def test_the_refined_models_are_others(runs):
    """Else nothing below could fail."""
    plain, refined = (Detector.load(run / "models" / "six.safetensors") for run in runs)
    assert plain.provenance["result"]["C"] != refined.provenance["result"]["C"] == 30
    assert not (plain.coef == refined.coef).all()


def test_folds_train_with_the_constants_of_training(compared):
    table, _, _ = compared
    for row in [*table["folds"]["classes"].values(), table["folds"]["mean"]]:
        first, second = row["values"]
        assert first == second


def test_figures_are_those_of_the_refined_models(compared, runs):
    table, _, _ = compared
    for name in ("six", "three"):
        values = table["measures"]["image_ap"]["classes"][name]["values"]
        for run, value in zip(runs, values, strict=True):
            sets = json.loads((run / "evaluation.json").read_text())["sets"]
            assert value == sets["test"]["classes"][name]["image_ap"]


def test_a_comparison_says_which_run_is_refined_and_what_folds_leave_out(compared):
    table, said, page = compared
    assert "refinement" not in table["runs"][0]
    assert table["runs"][1]["refinement"] == "1 round(s) of refinement"
    assert table["folds"]["without_refinement"] == ["REFINED"]
    for text in (said, page.read_text()):
        assert "REFINED without refinement" in " ".join(text.split())


def test_a_run_whose_first_models_are_gone_is_refused(runs, tmp_path, refused):
    broken = shutil.copytree(runs[1], tmp_path / "BROKEN")
    shutil.rmtree(broken / "first")
    line = refused("compare", "--out", tmp_path / "C", runs[0], broken, "--folds", 2)
    assert "compare --folds needs a model of 'six', but" in line
    assert "first/six.safetensors is not there; run lapsvm train first." in line


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"train.loss": "ndcg", "train.J": (7.0,)}, "instead of"),
        ({"refine.rounds": 0}, "was trained with training.first"),
        ({"train.C": (0.5,)}, "instead of [0.5]"),
    ],
)
def test_folds_are_refused_where_settings_are_not_those_of_the_models(runs, tmp_path, refused, values, words):
    changed = RunFolder(shutil.copytree(runs[1], tmp_path / "CHANGED"))
    changed.save_settings(changed.settings().with_values(values), ["lapsvm"])
    line = refused("compare", "--out", tmp_path / "C", runs[0], changed.path, "--folds", 2)
    assert "needs models by the run's settings, but" in line
    assert words in line
    assert not (tmp_path / "C").exists()
