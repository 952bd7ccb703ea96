"""Runs on networks: what the settings ask of each, and surroundings stored beside windows."""

import json
import shutil

import numpy as np
import pytest
from lapsvm.pipelines.fitting.training_bags import ContextPairs
from lapsvm.pipelines.products.held_out import HeldOut
from lapsvm.pipelines.settings.settings import Settings
from lapsvm.pipelines.stages.data_checks.sides import check_sizes

from lapsvm.detection import Detector
from lapsvm.errors import OptionError
from lapsvm.features import Block, open_extractor, open_shards
from lapsvm.features.extractors.extractor import completed, open_sizes
from lapsvm.features.extractors.networks import RuntimeNetwork
from lapsvm.settings import NetworkSettings

from ...twins.networks import cells, onnx_network
from ..calls import done

pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """A network whose map is the colours of cells of 16 or 32 pixels, in six channels that are never negative."""
    folder = tmp_path_factory.mktemp("networks")

    def write(stride, height="h", width="w"):
        path = folder / f"stride{stride}_{height}.onnx"
        weights = cells(np.random.default_rng(0).normal(size=(6, 3)), stride)
        nodes = [("Conv", "picture w", "sums", {"strides": [stride] * 2}), ("Relu", "sums", "map", {})]
        taken, made = {"picture": [1, 3, height, width]}, {"map": [1, 6, "rows", "columns"]}
        path.write_bytes(onnx_network(nodes, taken, made, {"w": weights}))
        return path

    return {16: write(16), 32: write(32), "fixed": write(32, 96, 96)}


def test_every_network_is_completed_unless_its_text_says_otherwise(network):
    settings, text = NetworkSettings(contrast=0.5), f"onnx:{network[32]}"
    assert completed("hog?size=32", settings) == "hog?size=32"
    assert completed(text, settings) == f"{text}?contrast=0.5"
    assert completed(f"{text}?size=128", settings) == f"{text}?size=128&contrast=0.5"
    assert completed(f"{text}?contrast=0&size=128", settings) == f"{text}?contrast=0&size=128"
    assert completed(text, NetworkSettings(contrast=0.5, store_context=True)) == f"{text}?context=appended"
    assert completed(text, NetworkSettings()) == text
    assert completed("torch:a.b:c", settings) == "torch:a.b:c?contrast=0.5"


def test_a_coarse_network_sees_every_size_and_a_fine_one_the_first(network):
    settings = NetworkSettings(contrast=0.5, sizes=(64, 96))
    for stride, text, sizes in ((32, "", [64, 96]), (16, "", [64]), (32, "?size=128", [128])):
        parts = open_sizes(f"onnx:{network[stride]}{text}", settings)
        assert [part.describe()["size"] for part in parts] == sizes
        assert {part.describe()["contrast"] for part in parts} == {0.5}
        wanted = [open_extractor(f"onnx:{network[stride]}?size={size}&contrast=0.5") for size in sizes]
        assert [part.describe() for part in parts] == [extractor.describe() for extractor in wanted]
        pixels = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8)
        for part, extractor in zip(parts, wanted, strict=True):
            np.testing.assert_array_equal(part(pixels, [[3, 4, 50, 60]]), extractor(pixels, [[3, 4, 50, 60]]))


@pytest.mark.parametrize(("kind", "sizes"), [("fixed", (3000,)), (16, (640, 3000))])
def test_sizes_that_a_network_does_not_use_may_be_larger_than_pictures(network, kind, sizes):
    values = {"features.extractors": (f"onnx:{network[kind]}",), "features.sizes": sizes}
    check_sizes(Settings().with_values(values))
    with pytest.raises(OptionError, match=r"option --sizes must be at most windows\.max_side"):
        check_sizes(Settings().with_values(values | {"features.extractors": (f"onnx:{network[32]}",)}))


def test_a_network_of_several_sizes_is_opened_once(network, monkeypatch):
    opens = []
    real = RuntimeNetwork.__init__
    monkeypatch.setattr(RuntimeNetwork, "__init__", lambda self, *given: opens.append(given) or real(self, *given))
    assert len(open_sizes(f"onnx:{network[32]}", NetworkSettings(sizes=(64, 96, 128)))) == 3
    assert len(opens) == 1


def test_a_size_that_breaks_its_rule_is_named(network):
    with pytest.raises(OptionError, match="size must be a whole number from 32 to 8192, got 7"):
        open_sizes(f"onnx:{network[32]}", NetworkSettings(sizes=(7,)))


def test_a_models_provenance_brings_the_networks_settings_back():
    settings = NetworkSettings(contrast=0.5, sizes=(64, 96))
    assert NetworkSettings.from_provenance(json.loads(json.dumps(settings.provenance()))) == settings


def test_blocks_combine_as_a_contrast_and_weights_unfold():
    rng = np.random.default_rng(0)
    pairs = ContextPairs((Block(3), Block(4, True), Block(2, True)), 0.25)
    features = rng.normal(size=(600, 9))
    combined = pairs.combine(features)
    own = [features[:, :3], features[:, 3:5] - 0.25 * features[:, 5:7], features[:, 7:8] - 0.25 * features[:, 8:]]
    np.testing.assert_allclose(combined, np.hstack(own), atol=1e-6)
    weights, scale = rng.normal(size=6), rng.random(6)
    stored = pairs.unfold(weights) * pairs.unfold_scale(scale)
    np.testing.assert_allclose(features @ stored, combined @ (weights * scale), atol=1e-5)


@pytest.fixture(scope="module")
def beside(digits, fast_network, network, tmp_path_factory):
    out = tmp_path_factory.mktemp("beside") / "RUN"
    options = ["--extractor", f"onnx:{network[32]}", "--extractor", f"onnx:{network[16]}", "--sizes", "160,224"]
    more = ["--set=features.contrast=0.5", "--set=features.store_context=true", "--pca", "4", "--refine", "1"]
    done("run", "--data", "voc", "--root", digits, "--out", out, *fast_network, *options, *more, "--quiet")
    return out


def test_windows_and_context_are_stored_for_each_network_and_size(beside):
    shards = open_shards(beside / "shards" / "trainval")
    assert shards.dim == 3 * 2 * 4
    assert shards.provenance["features"]["extractor"]["has_context"] == [True] * 3


def test_the_first_models_take_the_surroundings_away_and_refined_ones_weigh_them(beside):
    first, last = (Detector.load(beside / folder / "six.safetensors") for folder in ("first", "models"))
    own, around = np.split((first.coef * first.scale).reshape(3, 8), 2, axis=1)
    np.testing.assert_allclose(around, -0.5 * own, rtol=1e-6)
    own, around = np.split((last.coef * last.scale).reshape(3, 8), 2, axis=1)
    assert not np.allclose(around, -0.5 * own, rtol=0.1)


def test_refined_models_keep_a_share_of_the_weights_of_surroundings(beside, tmp_path, command):
    found = []
    for share in ("1", "0.25"):  # without voting, which takes the share to choose windows
        out = shutil.copytree(beside, tmp_path / share)
        given = ["--set=refine.box_voting=false", f"--set=refine.context_share={share}"]
        assert command("refine", "--out", out, *given, "--redo", "--quiet").status == 0
        found.append(Detector.load(out / "models" / "six.safetensors"))
    whole, less = found
    factors = np.tile(np.repeat([1.0, 0.25], 4), 3)
    np.testing.assert_allclose(less.coef * less.scale, whole.coef * whole.scale * factors)
    assert less.provenance["training"]["refine"]["context_share"] == 0.25
    assert whole.provenance["result"]["duality_gap"] < 0.1
    assert less.provenance["result"]["certificate"] is None


def test_held_out_scores_are_those_of_models_that_keep_a_share(beside, tmp_path, command):
    out = tmp_path / "RUN"
    shutil.copytree(beside, out)
    whole = HeldOut.load(out / "heldout" / "six.safetensors")
    assert command("refine", "--out", out, "--set=refine.context_share=0.25", "--redo", "--quiet").status == 0
    less = HeldOut.load(out / "heldout" / "six.safetensors")
    for fold in (1, 2):  # models with all weights would have the same scores but for scale and mean
        np.testing.assert_array_equal(less.fold == fold, whole.fold == fold)
        assert np.corrcoef(less.score[less.fold == fold], whole.score[whole.fold == fold])[0, 1] < 1 - 1e-6


def test_prediction_builds_the_same_features(beside, digits, command):
    picture = sorted((digits / "JPEGImages").glob("*.jpg"))[-1]
    said = command("predict", "--model", beside / "models", picture, "--max-detections", "100", "--threshold", "0")
    found = [one["score"] for one in json.loads(said.out)[0]["detections"] if one["class"] == "six"]
    lines = (beside / "detections" / "test" / "comp3_det_test_six.txt").read_text().splitlines()
    stored = [float(line.split()[1]) for line in lines if line.split()[0] == picture.stem]
    assert len(stored) > 3
    assert found[:3] == pytest.approx(stored[:3], abs=0.02 * np.ptp(stored))
