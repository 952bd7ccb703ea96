"""What training takes beside C and J: each option is the library's, and told where it does not fit."""

import numpy as np
import pytest
from lapsvm.pipelines.context import RunContext
from lapsvm.pipelines.fitting.fit import Constants, FitRequest, Trainer, problem
from lapsvm.pipelines.fitting.selection import choose_constants
from lapsvm.pipelines.fitting.training_bags import stored_bags
from lapsvm.pipelines.run.dataset import label_vector
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.run.progress import Reporter

from lapsvm.detection import Detector
from lapsvm.features import open_shards
from lapsvm.latent import fit_many, fit_paths

HINGE = ["--learner", "latent_svm", "--J", "2"]


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
        return context, *stored_bags(context.workspace, "trainval", shards), y

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
    choice = choose_constants(Trainer(settings, context.reporter, context.run, {}), bags, {"six": y})["six"]
    first, second = (row["folds"] for row in choice.candidates)
    assert first != second


def test_training_begins_where_the_setting_says(trained):
    context, bags, _, y = trained("--C", "1", "--init", "random", "--seed", 5)
    wanted = one(context, y, 1.0)
    assert (wanted.init, wanted.seed) == ("random", 5)
    assert_is(model(context), fit_many([wanted], bags)[0])


def test_the_trimmed_share_is_none_of_a_rank_learners_business(trained):
    context, _, _, _ = trained("--C", "1", "--trim", "0,0.5")
    assert "trim" not in model(context).provenance["result"] | model(context).provenance["training"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--trim", "1"], "--trim must be at least 0 and below 1, got 1"),
        (["--trim", "0.1,x"], "--trim must be numbers"),
        (["--init", "center"], "--init must be one of mean, whole_image, random, got 'center'."),
        (["--set=train.candidates=-1"], "setting train.candidates must be from 0 to 2147483647, got -1"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(extracted, refused, options, words):
    assert words in refused("train", "--out", extracted, "--C", "1", *options)
    assert not list((extracted / "models").iterdir())
