"""Training that begins from the central windows: the field's --init centre."""

import numpy as np
import pytest
from lapsvm.pipelines.fitting.fit import Constants, FitRequest, problem
from lapsvm.pipelines.fitting.starts import most_central, with_initial_weights
from lapsvm.pipelines.fitting.training_bags import stored_bags
from lapsvm.pipelines.run.context import RunContext
from lapsvm.pipelines.run.dataset import label_vector
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.run.progress import Reporter

from lapsvm.boxes import iou
from lapsvm.detection import Detector
from lapsvm.features import open_shards
from lapsvm.latent import LatentProblem, fit_many


@pytest.fixture
def context(finished):
    run = RunFolder(finished)
    return RunContext(run, run.settings().with_values({"train.init": "centre"}), 1, Reporter(True))


def test_the_most_central_window_overlaps_most_with_the_middle_half(context):
    shards = open_shards(context.run.shards("trainval"))
    central = iter(most_central(shards))
    for shard in shards:
        for i, (height, width) in enumerate(shard.sizes):
            share = (1 - np.sqrt(0.5)) / 2
            half = [[share * width, share * height, (1 - share) * width, (1 - share) * height]]
            overlaps = iou(shard.boxes[shard.offsets[i] : shard.offsets[i + 1]], half)[:, 0]
            assert overlaps[next(central)] == overlaps.max()


def test_training_begins_with_weights_learned_on_the_central_windows(context):
    shards = open_shards(context.run.shards("trainval"))
    bags, _ = stored_bags(context, shards)
    by_id = {record.id: record for record in context.data.records["trainval"]}
    y = label_vector([by_id[image] for image in shards.image_ids], "six")
    wanted = problem(context.settings, FitRequest(y, Constants(1.0)))
    first, values = with_initial_weights(context, [(wanted, [5.0, 1.0])], bags)[0]
    assert values == [5.0, 1.0]
    known = LatentProblem(y, C=5.0, tol=0.01, fixed_windows=most_central(shards))
    np.testing.assert_allclose(first.init, fit_many([known], bags)[0].coef, atol=1e-9)
    assert first.tol == context.settings.train.tol


def test_a_problem_that_begins_elsewhere_stays_as_it_is(finished):
    run = RunFolder(finished)
    starts = [(LatentProblem([1, -1]), [1.0])]
    assert with_initial_weights(RunContext(run, run.settings(), 1, Reporter(True)), starts, None) is starts


def test_the_command_trains_from_the_centre(command, digits, finished, tmp_path, fast):
    arguments = [
        "run",
        "--data",
        "voc",
        "--root",
        digits,
        "--out",
        tmp_path / "R",
        "--shards-from",
        finished,
        "--quiet",
    ]
    assert command(*arguments, *fast, "--init", "centre").status == 0
    one, other = (Detector.load(folder / "models" / "six.safetensors") for folder in (tmp_path / "R", finished))
    assert one.provenance["training"]["init"] == "centre"
    assert (one.coef != other.coef).any()
    assert one.provenance["result"]["duality_gap"] <= 1e-3


def test_an_unknown_beginning_is_refused_with_all_there_are(digits, refused, tmp_path):
    arguments = ["run", "--data", "voc", "--root", digits, "--out", tmp_path / "R", "--init", "center"]
    assert "--init must be one of mean, whole_image, centre, random, got 'center'." in refused(*arguments)


def test_the_centre_may_not_be_among_some_windows(digits, refused, tmp_path):
    arguments = ["run", "--data", "voc", "--root", digits, "--out", tmp_path / "R", "--init", "centre"]
    assert "--init centre needs all windows" in refused(*arguments, "--set=train.keep_windows=5")
