"""--map-weights: how much each map counts, and what is said where the cells of the maps are not known."""

import json
from types import SimpleNamespace

import pytest
from lapsvm.pipelines.fitting.map_weights import UNKNOWN, map_weights
from lapsvm.pipelines.fitting.tasks import NEUTRAL_TRAINING, _effective, training_difference, training_settings
from lapsvm.pipelines.run.recipes import recipe_values
from lapsvm.pipelines.run.settings import BASELINES, Settings, TrainSettings


def maps(*strides):
    """Return shards of one network with maps of these strides; without strides they are older than the record."""
    runtime = {"strides": list(strides)} if strides else {}
    pooled = {"kind": "pooled-network", "size": 640, "blocks": [8, 4], "runtime": runtime}
    return with_extractor(pooled)


def with_extractor(*descriptions):
    headers = [SimpleNamespace(provenance={"features": {"extractor": one}}) for one in descriptions]
    return SimpleNamespace(headers=headers)


OLD = maps().headers[0].provenance["features"]["extractor"]


@pytest.fixture
def weights():
    """Return the weights for a value of --map-weights, and what was said."""

    def found(value, shards, learner="latent_rank_svm"):
        said = []
        settings = Settings().with_values({"train.map_weights": value, "train.learner": learner})
        context = SimpleNamespace(settings=settings, reporter=SimpleNamespace(say=said.append))
        return map_weights(context, shards), said

    return found


def test_maps_count_as_their_cells_across_a_picture(weights):
    assert weights("resolution", maps(32, 16)) == ((20, 40), [])


def test_all_count_alike_by_default(weights):
    assert weights("equal", maps(32, 16)) == (None, [])


@pytest.mark.parametrize("shards", [maps(), maps(32), with_extractor({"kind": "numbers", "blocks": [3, 3]})])
def test_what_does_not_record_cells_counts_alike_and_is_reported(weights, shards):
    ways = "extract --redo records them, where networks with maps make all features."
    assert weights("resolution", shards) == (None, [f"{UNKNOWN}; {ways}"])


def test_one_shard_with_strides_is_enough(weights):
    new = maps(32, 16).headers[0].provenance["features"]["extractor"]
    assert weights("resolution", with_extractor(OLD, new)) == ((20, 40), [])


def test_one_part_needs_no_weight(weights):
    assert weights("resolution", with_extractor({"kind": "hog", "blocks": [900]})) == (None, [])


def test_baselines_count_all_alike(weights):
    assert weights("resolution", maps(32, 16), "wsddn") == (None, [])


def test_models_without_the_setting_count_as_the_default():
    assert {name: getattr(TrainSettings(), name) for name in NEUTRAL_TRAINING} == NEUTRAL_TRAINING


def test_best_weighs_maps_by_resolution():
    assert recipe_values("best")["train.map_weights"] == "resolution"
    assert recipe_values("plain")["train.map_weights"] == "equal"


@pytest.mark.parametrize("learner", [*BASELINES, "latent_svm", "latent_rank_svm"])
@pytest.mark.parametrize("shards", [maps(), maps(32, 16)])
def test_a_model_with_its_own_settings_differs_in_nothing(learner, shards):
    settings = Settings().with_values({"train.map_weights": "resolution", "train.learner": learner})
    training = _effective(
        training_settings(SimpleNamespace(settings=settings)), SimpleNamespace(settings=settings), shards
    )
    weighs = learner not in BASELINES and shards.headers[0].provenance["features"]["extractor"] != OLD
    assert training.get("map_weights", "equal") == ("resolution" if weighs else "equal")
    stored = json.loads(json.dumps({"training": training}))
    task = SimpleNamespace(provenance={"training": training})
    assert training_difference(stored, task, ("training",)) == ""


def test_lost_shards_do_not_change_the_weights_that_models_had(digits, fast, tmp_path, command, made):
    """HOG has one part, so its models count as equal whatever is asked for; a lost shard leaves that as it is."""
    out = tmp_path / "RUN"
    line = ("run", "--data", "voc", "--root", digits, "--out", out, "--quiet", *fast, "--map-weights", "resolution")
    assert command(*line, "--refine", "1").status == 0
    before = made(out, "models/*")
    for shard in (out / "shards" / "trainval").glob("*.safetensors"):
        shard.unlink()
    said = command(*line, "--refine", "1")
    assert said.status == 0, said.err
    assert made(out, "models/*") == before
