"""What --extractor, --recipe and --objectness auto become, what run.toml records, and models without a run folder."""

import json
import shutil
import sys

import numpy as np
import pytest
from lapsvm.pipelines.settings import recipes
from lapsvm.pipelines.settings.recipes import BEST, NO_PACKAGE, PLAIN, WITHOUT_NETWORK, WITHOUT_SALIENCY, resolved
from lapsvm.pipelines.settings.settings import Settings

from lapsvm.features.extractors.efficientnet import photos_installed

from ..calls import done

NETWORK = "efficientnet_lite0"


SALIENCY, NOTHING = {"objectness.source": "u2netp"}, {"objectness.source": "none"}


@pytest.fixture
def photos(monkeypatch):
    """Say whether the extra photos is installed, and whether its saliency network is."""

    def install(there, saliency=None):
        monkeypatch.setattr(recipes, "photos_installed", lambda: there)
        monkeypatch.setattr(recipes, "saliency_installed", lambda: there if saliency is None else saliency)

    install(True)
    return install


def resolve(out, stage="extract", recipe=None, **given):
    settings = {
        f"features.{name}" if "_" not in name else name.replace("_", ".", 1): one for name, one in given.items()
    }
    return resolved(recipe, stage, settings, Settings.read(out / "run.toml") if (out / "run.toml").exists() else None)


@pytest.mark.parametrize(("there", "extractor", "recipe"), [(True, NETWORK, BEST), (False, "hog", PLAIN)])
def test_a_run_that_begins_takes_the_network_if_it_is_installed(tmp_path, photos, there, extractor, recipe):
    photos(there)
    objectness = SALIENCY if there else NOTHING
    wanted = (recipe | {"features.extractors": (extractor,)} | objectness, "" if there else WITHOUT_NETWORK)
    assert resolve(tmp_path) == wanted
    assert resolve(tmp_path, recipe="auto", extractors=("auto",)) == wanted


@pytest.mark.parametrize(
    ("extractors", "recipe"),
    [
        (("hog",), PLAIN),
        (("hog?size=32",), PLAIN),
        (("onnx:net.onnx?size=320",), BEST),
        (("torch:a.b:c?weights=a.pth",), BEST),
        (("hog", "efficientnet_lite0"), BEST),
    ],
)
def test_the_recipe_goes_by_the_extractor(tmp_path, photos, extractors, recipe):
    objectness = SALIENCY if recipe is BEST else NOTHING
    assert resolve(tmp_path, extractors=extractors) == (recipe | {"features.extractors": extractors} | objectness, "")


def test_options_win_over_what_a_recipe_became(tmp_path, photos):
    photos(True)
    values, _ = resolve(tmp_path, pca=30.0)
    assert values == BEST | SALIENCY | {"features.extractors": (NETWORK,), "features.pca": 30.0}
    values, _ = resolve(tmp_path, recipe="plain")
    assert values == PLAIN | NOTHING | {"features.extractors": (NETWORK,)}


@pytest.mark.parametrize(
    ("given", "objectness"),
    [
        ({"refine_rounds": 0}, NOTHING),
        ({"recipe": "plain", "refine_rounds": 1}, SALIENCY),
        ({"extractors": ("hog",), "recipe": "best"}, NOTHING),
        ({"objectness_source": "none"}, NOTHING),
        ({"objectness_source": "auto"}, SALIENCY),
        ({"objectness_source": "onnx:mine.onnx"}, {"objectness.source": "onnx:mine.onnx"}),
        ({"extractors": ("hog",), "objectness_source": "mine"}, {"objectness.source": "mine"}),
    ],
)
def test_objectness_goes_by_refinement_and_the_network(tmp_path, photos, given, objectness):
    values, line = resolve(tmp_path, **given)
    assert ({"objectness.source": values["objectness.source"]}, line) == (objectness, "")


@pytest.mark.parametrize(
    ("python", "line"), [((3, 11), WITHOUT_SALIENCY), ((3, 12), WITHOUT_SALIENCY), ((3, 13), NO_PACKAGE)]
)
def test_a_line_says_what_is_missing_for_objectness(tmp_path, photos, monkeypatch, python, line):
    photos(True, saliency=False)
    monkeypatch.setattr(sys, "version_info", (*python, 1, "final", 0))
    for wanted in ({}, {"objectness_source": "auto"}):
        values, said = resolve(tmp_path, **wanted)
        assert (values, said) == (BEST | NOTHING | {"features.extractors": (NETWORK,)}, line)
    assert ("photos" in line, "--objectness onnx:FILE" in line) == (python < (3, 13), python >= (3, 13))
    for silent in ({"objectness_source": "none"}, {"refine_rounds": 0}, {"extractors": ("hog",)}):
        assert resolve(tmp_path, **silent)[1] == ""


def test_one_missing_extra_is_one_line(tmp_path, photos):
    photos(False)
    assert resolve(tmp_path)[1] == resolve(tmp_path, recipe="best")[1] == WITHOUT_NETWORK
    assert resolve(tmp_path, extractors=("onnx:a.onnx", "auto"))[1] == WITHOUT_NETWORK
    assert resolve(tmp_path, extractors=("onnx:a.onnx",))[1] == WITHOUT_SALIENCY


def test_auto_stands_beside_others(tmp_path, photos):
    photos(True)
    assert resolve(tmp_path, extractors=("hog", "auto"))[0]["features.extractors"] == ("hog", NETWORK)


def test_a_recipe_of_ones_own_may_name_the_extractor(tmp_path, photos):
    photos(False)
    recipe = tmp_path / "mine.toml"
    recipe.write_text('[features]\nextractors = ["hog?size=32"]\n')
    assert resolve(tmp_path, recipe=str(recipe)) == (NOTHING | {"features.extractors": ["hog?size=32"]}, "")
    recipe.write_text("[features]\npca = 7\n")
    assert resolve(tmp_path, recipe=str(recipe))[0] == NOTHING | {"features.extractors": ("hog",), "features.pca": 7}
    recipe.write_text('[objectness]\nsource = "mine"\n')
    assert resolve(tmp_path, recipe=str(recipe))[0] == {"features.extractors": ("hog",), "objectness.source": "mine"}


def test_a_run_that_is_there_keeps_what_it_recorded(tmp_path, photos):
    photos(True)
    (tmp_path / "run.toml").write_text('[features]\nextractors = ["hog"]\n')
    assert resolve(tmp_path) == ({}, "")
    assert resolve(tmp_path, "train") == ({}, "")
    assert resolve(tmp_path, "train", recipe="auto") == (PLAIN, "")
    (tmp_path / "run.toml").write_text('[features]\nextractors = ["efficientnet_lite0"]\n')
    assert resolve(tmp_path, "detect", recipe="auto") == (BEST, "")
    assert Settings.read(tmp_path / "run.toml").objectness.source == "none"
    (tmp_path / "run.toml").write_text('[features]\nextractors = ["efficientnet_lite0"]\n[refine]\nrounds = 2\n')
    assert resolve(tmp_path, objectness_source="auto") == (SALIENCY, "")


def test_an_import_is_no_matter_of_networks(tmp_path, photos):
    photos(True)
    assert resolve(tmp_path, "import", extractors=("imported",)) == ({"features.extractors": ("imported",)}, "")


def test_without_the_network_one_line_says_what_to_install(digits, tmp_path, command, refused, photos):
    photos(False)
    line = ["extract", "--data", "voc", "--root", digits, "--windows", "grid", "--max-windows", "10"]
    said = command(*line, "--out", tmp_path / "RUN")
    assert said.status == 0
    assert [text for text in said.err.splitlines() if "install" in text] == [WITHOUT_NETWORK]
    assert WITHOUT_NETWORK.endswith('pip install ".[photos]" in the folder of the source')
    assert Settings.read(tmp_path / "RUN" / "run.toml").features.extractors == ("hog",)
    assert command(*line, "--out", tmp_path / "QUIET", "--quiet").err == ""
    assert "nowhere" in refused("run", "--data", "voc", "--root", tmp_path / "nowhere", "--out", tmp_path / "NO")


def test_the_demo_keeps_its_own_settings(photos):
    photos(True)
    from lapsvm.pipelines.commands.stages import DEMO

    values, line = resolved(None, "extract", DEMO, None)
    assert (values, line) == (PLAIN | DEMO | NOTHING, "")


@pytest.fixture(scope="module")
def photo_run(digits, tmp_path_factory):
    """A run on the network, whose extractor and recipe are the default ones but for what makes it fast."""
    if not photos_installed():
        pytest.skip("the extra photos is not installed")
    out = tmp_path_factory.mktemp("photos") / "RUN"
    fast = ["--windows", "grid", "--max-windows", "30", "--classes", "six", "--sizes", "96,128", "--pca", "20"]
    fast += ["--C", "1", "--refine", "0", "--set=detect.box_voting=0", "--set=detect.demotion=0", "--quiet"]
    done("run", "--data", "voc", "--root", digits, "--out", out, *fast)
    return out


def test_run_toml_records_what_they_became(photo_run):
    settings = Settings.read(photo_run / "run.toml")
    assert settings.features.extractors == (NETWORK,)
    assert (settings.train.top, settings.windows.max_area, settings.features.store_context) == (20.0, 0.9, True)


def test_the_coarse_map_is_seen_at_both_sizes(photo_run):
    from lapsvm.features import open_shards

    described = open_shards(photo_run / "shards" / "trainval").provenance["features"]["extractor"]["of"]
    assert described["blocks"] == [2 * 1280, 2 * 112, 2 * 40, 2 * 1280]
    assert [part["size"] for part in described["parts"].values()] == [96, 128]


@pytest.mark.parametrize("extractor", [[], ["--extractor", "auto"]])
def test_a_model_predicts_wherever_it_lies(photo_run, digits, tmp_path, command, extractor):
    model = shutil.copy(photo_run / "models" / "six.safetensors", tmp_path / "anywhere.safetensors")
    picture = sorted((digits / "JPEGImages").glob("*.jpg"))[-1]
    moved, own = (
        json.loads(command("predict", "--model", path, picture, *extractor).out)
        for path in (model, photo_run / "models" / "six.safetensors")
    )
    assert moved == own
    assert moved[0]["detections"]


def test_a_model_on_hog_predicts_wherever_it_lies(finished, digits, tmp_path, command):
    model = shutil.copy(finished / "models" / "six.safetensors", tmp_path / "anywhere.safetensors")
    picture = sorted((digits / "JPEGImages").glob("*.jpg"))[-1]
    found = json.loads(command("predict", "--model", model, picture, "--threshold", "0").out)[0]["detections"]
    lines = (finished / "detections" / "test" / "comp3_det_test_six.txt").read_text().splitlines()
    stored = [float(line.split()[1]) for line in lines if line.split()[0] == picture.stem]
    np.testing.assert_allclose([one["score"] for one in found][:3], stored[:3], atol=0.02)
