"""Files of released versions hold settings under former names: one function gives the present ones."""

import json
from pathlib import Path

import pytest
from lapsvm.pipelines.settings.settings import Settings

from lapsvm.features import Block, open_shards
from lapsvm.features.extractors.blocks import block_record, recorded_blocks
from lapsvm.settings import NetworkSettings, current_names, former_name

OLD = Path(__file__).parent
FORMER = {"beside", "surroundings", "halves"}


def keys(value):
    """Yield the keys of tables at any depth."""
    if isinstance(value, dict):
        yield from value
        for inner in value.values():
            yield from keys(inner)


@pytest.mark.parametrize("version", ["0.1.0", "0.2.0"])
def test_files_of_released_versions_hold_present_names(version):
    settings = Settings.read(OLD / version / "run.toml")
    assert settings.refine.context_share == 0.8
    assert settings.features.store_context is False
    provenance = open_shards(OLD / version / "shards" / "trainval").provenance
    assert NetworkSettings.from_provenance(provenance["features"]["networks"]) == settings.features.networks
    assert not FORMER & set(keys(provenance))


def test_a_table_is_renamed_at_its_place():
    stored = {
        "training": {"refine": {"surroundings": 0.5, "C": 1}},
        "shards": {"features": {"networks": {"beside": True}, "extractor": {"blocks": [2], "halves": [True]}}},
    }
    renamed = {
        "training": {"refine": {"context_share": 0.5, "C": 1}},
        "shards": {
            "features": {"networks": {"store_context": True}, "extractor": {"blocks": [2], "has_context": [True]}}
        },
    }
    assert current_names(stored) == renamed
    assert current_names(renamed) == renamed
    assert list(recorded_blocks(renamed["shards"]["features"]["extractor"])) == [Block(2, has_context=True)]
    assert set(block_record([Block(2)])) == {"blocks", "has_context"}


def test_keys_of_others_stay():
    """An extractor of another package may describe itself by any words."""
    stored = {"features": {"extractor": {"kind": "own", "beside": 1, "surroundings": [2], "halves": 3}}}
    assert current_names(stored) == stored


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("onnx:a.onnx?surroundings=beside&size=64", "onnx:a.onnx?context=appended&size=64"),
        ("onnx:what?.onnx?size=64&surroundings=none", "onnx:what?.onnx?size=64&context=none"),
        ("onnx:surroundings=beside", "onnx:surroundings=beside"),
        ("hog", "hog"),
    ],
)
def test_texts_of_extractors_have_present_options(text, expected):
    assert current_names({"features": {"extractors": [text, 1]}}) == {"features": {"extractors": [expected, 1]}}


def test_a_recipe_of_a_released_version_is_read(tmp_path):
    recipe = tmp_path / "own.toml"
    recipe.write_text("[features]\nbeside = true\n[refine]\nsurroundings = 0.5\n", encoding="utf-8")
    assert Settings.values_in(recipe) == {"features.store_context": True, "refine.context_share": 0.5}


def test_what_is_written_has_present_names():
    assert not FORMER & set(keys(json.loads(json.dumps(Settings().flat()))))
    assert not FORMER & set(NetworkSettings().provenance())
    assert former_name("features.beside") == "features.store_context"
    assert former_name("features.pca") == ""
