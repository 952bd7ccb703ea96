"""What training takes beside C and J: each option is the library's, and told where it does not fit."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from lapsvm.pipelines.fitting.fit import Constants, FitRequest, problem
from lapsvm.pipelines.fitting.selection import choose_constants
from lapsvm.pipelines.fitting.training_bags import stored_bags
from lapsvm.pipelines.run.context import RunContext
from lapsvm.pipelines.run.dataset import label_vector
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.run.progress import Reporter

from lapsvm.detection import Detector
from lapsvm.errors import OptionError
from lapsvm.features import open_shards
from lapsvm.latent import fit_many, fit_multifold, fit_paths

HINGE = ["--learner", "latent_svm", "--J", "2"]


@pytest.fixture
def extracted(run_copy):
    """Return a run folder that has shards and no models."""
    for path in (run_copy / "models").iterdir():
        path.unlink()
    (run_copy / "history.csv").unlink()
    return run_copy


@pytest.fixture
def trained(extracted, command):
    """Train with some options; return what the command read: settings, bags, their scale, labels of a class."""

    def train(*options):
        result = command("train", "--out", extracted, "--quiet", *options)
        assert result.status == 0, result.err
        run = RunFolder(extracted)
        context = RunContext(run, run.settings(), 1, Reporter(quiet=True))
        shards = open_shards(run.shards("trainval"))
        records = {record.id: record for record in context.data.records["trainval"]}
        y = label_vector([records[image] for image in shards.image_ids], "six")
        return context, *stored_bags(context, shards), y

    return train


def model(context, name="six"):
    """Return the detector of a class."""
    return Detector.load(context.run.model(name))


def one(context, y, *constants):
    """Return the problem of one class."""
    return problem(context.settings, FitRequest(y, Constants(*constants)))


def assert_is(detector, found):
    """Check that a detector is a solution; rounding may differ where another number shared the passes."""
    np.testing.assert_allclose(detector.coef, found.coef, atol=1e-6)
    assert detector.intercept == pytest.approx(found.intercept, abs=1e-6)
    assert detector.provenance["result"]["objective"] == pytest.approx(found.objective)


def test_several_c_are_walked_from_the_largest_down_to_the_chosen_one(trained):
    context, bags, _, y = trained("--C", "1,10,0.1,3", "--folds", 2, "--set=train.path=true")
    detector = model(context)
    chosen = detector.provenance["result"]["C"]
    assert chosen < 10.0  # else there is no path to see
    values = [C for C in (10.0, 3.0, 1.0, 0.1) if chosen <= C]
    assert_is(detector, fit_paths([one(context, y, 1.0)], [values], bags)[0][-1])


def test_without_a_path_every_c_is_trained_alone(trained):
    context, bags, _, y = trained("--C", "0.1,1", "--folds", 2)
    detector = model(context)
    assert_is(detector, fit_many([one(context, y, detector.provenance["result"]["C"])], bags)[0])


def test_the_trimmed_share_is_chosen_for_latent_svm(trained):
    context, bags, _, y = trained(*HINGE, "--C", "1", "--trim", "0,0.5", "--folds", 2)
    detector = model(context)
    result = detector.provenance["result"]
    means = {row["trim"]: np.mean(row["folds"]) for row in result["held_out_image_ap"]}
    assert means.keys() == {0.0, 0.5}
    assert means[result["trim"]] == max(means.values())
    assert_is(detector, fit_many([one(context, y, 1.0, 2.0, result["trim"])], bags)[0])


def test_folds_of_a_trimmed_share_are_trained_with_it(trained):
    context, bags, _, y = trained(*HINGE, "--C", "1", "--trim", "0.9")
    settings = context.settings.with_values({"train.trim": (0.0, 0.9), "train.folds": 2})
    choice = choose_constants(replace(context, settings=settings), bags, {"six": y})["six"]
    first, second = (row["folds"] for row in choice.candidates)
    assert first != second


def test_the_trimmed_share_is_none_of_a_rank_learners_business(trained):
    context, _, _, _ = trained("--C", "1", "--trim", "0,0.5")
    assert "trim" not in model(context).provenance["result"] | model(context).provenance["training"]


def test_of_random_starts_the_lowest_objective_is_kept(trained):
    context, bags, _, y = trained("--C", "1", "--init", "random", "--set=train.n_init=3", "--seed", 5)
    starts = [replace(one(context, y, 1.0), seed=5 + i) for i in range(3)]
    found = fit_many(starts, bags)
    assert len({round(solution.objective, 9) for solution in found}) > 1
    assert_is(model(context), min(found, key=lambda solution: solution.objective))


def test_multifold_is_the_librarys(trained):
    context, bags, _, y = trained("--C", "1", "--set=train.multifold=3")
    assert_is(model(context), fit_multifold(one(context, y, 1.0), bags, 3))


@pytest.mark.slow
def test_constants_are_chosen_with_multifold(trained):
    context, bags, _, y = trained("--C", "1,10", "--folds", 2, "--set=train.multifold=2")
    chosen = model(context).provenance["result"]["C"]
    assert_is(model(context), fit_multifold(one(context, y, chosen), bags, 2))


def test_the_first_windows_are_kept(trained):
    context, bags, _, y = trained("--C", "1", "--set=train.keep_windows=20")
    assert_is(model(context), fit_many([one(context, y, 1.0)], bags.kept(20))[0])


def test_the_windows_that_another_runs_models_score_best_are_kept(trained, finished):
    context, bags, scale, y = trained("--C", "1", "--set=train.keep_windows=20", f"--set=train.keep_by={finished}")
    judge = Detector.load(finished / "models" / "six.safetensors")
    kept = bags.kept(20, judge.coef * judge.scale / scale)
    assert_is(model(context), fit_many([one(context, y, 1.0)], kept)[0])
    assert str(finished) not in str(model(context).provenance)


def test_another_judge_is_another_training(trained, finished, tmp_path, command, refused):
    other = shutil.copytree(finished, tmp_path / "OTHER")
    context, *_ = trained("--C", "1", "--set=train.keep_windows=20", f"--set=train.keep_by={finished}")
    more = ["--out", context.run.path, f"--set=train.keep_by={other}"]
    assert command("train", *more).status == 0  # the same models, wherever they lie
    assert command("train", "--out", other, "--C", "3", "--redo", "--quiet").status == 0
    assert "kept_by" in refused("train", *more)


def test_a_judge_of_other_windows_is_refused(extracted, digits, tmp_path, command, refused):
    other = tmp_path / "OTHER"
    line = [
        "--windows",
        "grid",
        "--max-windows",
        "30",
        "--classes",
        "six,three",
        "--C",
        "1",
        "--quiet",
        "--extractor",
        "hog",
    ]
    assert command("run", "--data", "voc", "--root", digits, "--out", other, *line).status == 0
    said = refused(
        "train", "--out", extracted, "--C", "1", "--set=train.keep_windows=5", f"--set=train.keep_by={other}"
    )
    assert "train.keep_by must be a run on the same windows" in said
    assert not list((extracted / "models").iterdir())


def test_folds_do_not_take_windows_that_were_kept_by_models_of_all_labels(
    trained, finished, tmp_path, command, refused
):
    context, *_ = trained("--C", "1", "--set=train.keep_windows=20", f"--set=train.keep_by={finished}")
    for verb in ("detect", "evaluate"):
        assert command(verb, "--out", context.run.path, "--quiet").status == 0
    line = ["compare", "--out", tmp_path / "C", finished, context.run.path, "--quiet"]
    assert "know the labels of all pictures (train.keep_by)" in refused(*line, "--folds", 2)
    assert command(*line).status == 0


def test_folds_take_windows_that_were_kept_in_the_order_of_proposals(trained, finished, tmp_path, command):
    context, *_ = trained("--C", "1", "--set=train.keep_windows=20")
    for verb in ("detect", "evaluate"):
        assert command(verb, "--out", context.run.path, "--quiet").status == 0
    result = command("compare", "--out", tmp_path / "C", finished, context.run.path, "--folds", 2, "--quiet")
    assert result.status == 0, result.err


@pytest.mark.parametrize("verb", ["run", "train", "tune"])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--C", "1,10"], "--C must be one value, got 1, 10"),
        ([*HINGE, "--C", "1", "--J", "1,2"], "--J must be one value, got 1, 2"),
        ([*HINGE, "--C", "1", "--trim", "0,0.5"], "--trim must be one value, got 0, 0.5"),
    ],
)
def test_constants_are_not_chosen_on_windows_that_were_kept_by_models_of_all_labels(
    extracted, finished, refused, verb, options, words
):
    before = (extracted / "run.toml").read_bytes()
    more = ["--folds", 2, "--set=train.keep_windows=20", f"--set=train.keep_by={finished}"]
    line = refused(verb, "--out", extracted, "--quiet", *options, *more)
    assert words in line
    assert "models that know the labels which cross-validation holds out" in line
    assert not list((extracted / "models").iterdir())
    assert (extracted / "run.toml").read_bytes() == before


def test_a_choice_on_such_windows_is_refused_without_the_command_line_too(trained, finished):
    context, bags, _, y = trained("--C", "1", "--set=train.keep_windows=20", f"--set=train.keep_by={finished}")
    settings = context.settings.with_values({"train.C": (1.0, 10.0), "train.folds": 2})
    with pytest.raises(OptionError, match=r"train\.keep_by keeps windows by models that know"):
        choose_constants(replace(context, settings=settings), bags.kept(20), {"six": y})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--trim", "1"], "--trim must be at least 0 and below 1, got 1"),
        (["--trim", "0.1,x"], "--trim must be numbers"),
        (["--set=train.n_init=3"], "setting train.n_init must be 1, or more with --init random, got 3"),
        (["--set=train.n_init=0", "--init", "random"], "setting train.n_init must be from 1 to 2147483647, got 0"),
        (["--set=train.multifold=2", "--set=train.path=true"], "setting train.path must not go with train.multifold"),
        (["--set=train.multifold=1"], "setting train.multifold must be 2 or more"),
        (["--set=train.keep_windows=-2"], "setting train.keep_windows must be from 0 to 2147483647, got -2"),
        (["--set=train.keep_by=x"], "train.keep_by needs train.keep_windows"),
        (
            ["--set=train.keep_windows=5", "--set=train.keep_by=x", "--init", "whole_image"],
            "another --init than whole_image",
        ),
        (["--set=train.keep_windows=5", "--set=train.keep_by=nowhere"], "nowhere"),
        (["--set=train.candidates=-1"], "setting train.candidates must be from 0 to 2147483647, got -1"),
        (["--set=train.multifold=99"], "folds must be from 2"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(extracted, refused, options, words):
    assert words in refused("train", "--out", extracted, "--C", "1", *options)
    assert not list((extracted / "models").iterdir())
