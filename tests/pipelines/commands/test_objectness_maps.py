"""Maps of what stands out beside heat maps: where models record what measured it, and it can be opened."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from lapsvm.pipelines.commands.drawing.heatmap import draw_heatmap
from lapsvm.pipelines.figures.maps import objectness_maps

from lapsvm.catalog import read_image
from lapsvm.detection import Detector
from lapsvm.errors import SettingsError
from lapsvm.objectness import open_objectness, saliency_installed


class Brightness:
    """What is bright stands out; it remembers how it was opened."""

    def __init__(self, level=0):
        self.level, self.opened = level, []

    def describe(self):
        return {"kind": "brightness", "level": self.level}

    def map(self, pixels):
        return (pixels[::4, ::4].mean(axis=2) / 255).astype(np.float32)


@pytest.fixture(scope="module")
def pictures(digits):
    return sorted((digits / "JPEGImages").iterdir())[:2]


@pytest.fixture
def record(run_copy):
    """Let models of a run record descriptions of sources, and its run.toml a text."""

    def change(text="brightness", **sources):
        for name, source in sources.items():
            path = run_copy / "models" / f"{name}.safetensors"
            detector = Detector.load(path)
            used = {"source": source, "weight": 2.0, "classes": []}
            training = {**detector.provenance["training"], "objectness": used}
            replace(detector, provenance={**detector.provenance, "training": training}).save(path)
        settings = run_copy / "run.toml"
        settings.write_text(settings.read_text().replace('source = "none"', f'source = "{text}"'))
        return run_copy

    return change


@pytest.fixture
def brightness(monkeypatch):
    """A source that is opened by any description and text."""
    source = Brightness()

    def open_described(description, text, *, device):
        source.opened.append((description, text, device))
        return source

    monkeypatch.setattr(objectness_maps, "open_described", open_described)
    return source


@pytest.fixture
def drawn(pictures, tmp_path, command):
    """Predict with heat maps, and return what was said and the names of the files."""

    def call(model, *more):
        result = command("predict", "--model", model, *pictures, "--draw", tmp_path / "drawn", "--heatmap", *more)
        assert result.status == 0, result.err
        return result.err, {path.name for path in (tmp_path / "drawn").iterdir()}

    return call


def names_of(pictures, *kinds):
    return {f"{path.stem}{kind}.png" for path in pictures for kind in ("", ".heatmap", *kinds)}


def test_the_map_is_drawn_beside_the_heat_map(record, brightness, drawn, pictures, tmp_path):
    run = record(six=brightness.describe(), three=brightness.describe())
    said, names = drawn(run, "--device", "cpu")
    assert names == names_of(pictures, ".objectness")
    assert said.endswith(
        "NAME.heatmap.png: where the most probable class scores; NAME.objectness.png: what stands out\n"
    )
    assert brightness.opened == [(brightness.describe(), "brightness", "cpu")]
    for path in pictures:
        pixels = read_image(path)
        draw_heatmap(pixels, brightness.map(pixels), "what stands out", tmp_path / "own.png")
        own = (tmp_path / "drawn" / f"{path.stem}.objectness.png").read_bytes()
        assert own == (tmp_path / "own.png").read_bytes()


def test_the_model_that_records_a_source_names_it(record, brightness, drawn, pictures):
    run = record(three=brightness.describe())
    _, names = drawn(run)
    assert names == names_of(pictures, ".objectness")
    alone = shutil.copy(run / "models" / "three.safetensors", run.parent / "three.safetensors")
    drawn(alone, "--extractor", "hog")
    assert [text for _, text, _ in brightness.opened] == ["brightness", None]


@pytest.mark.parametrize("source", [None, {"kind": "imported"}, "u2netp"])
def test_models_without_a_source_that_can_be_opened_say_nothing(record, drawn, pictures, source):
    said, names = drawn(record(six=source))
    assert names == names_of(pictures)
    assert "stands out" not in said


def test_a_source_that_cannot_be_opened_is_named_in_one_line(record, drawn, pictures):
    said, names = drawn(record(six={"kind": "brightness"}))
    assert names == names_of(pictures)
    assert said.count("what stands out is not drawn: objectness 'brightness' is not known; choose from none, ") == 1
    assert said.count("\n") == 2  # and what was drawn


def test_models_of_different_sources_have_no_maps(record, brightness, drawn, pictures):
    said, names = drawn(record(six=Brightness(1).describe(), three=Brightness(2).describe()))
    assert names == names_of(pictures)
    assert "what stands out is not drawn: the models record different sources.\n" in said


def test_a_source_without_maps_is_said(record, brightness, drawn, pictures, monkeypatch):
    monkeypatch.setattr(objectness_maps, "open_described", lambda *_, **__: object())
    said, names = drawn(record(six=brightness.describe()))
    assert names == names_of(pictures)
    assert "what stands out is not drawn: its source has regions, and no map.\n" in said


def test_damaged_settings_of_the_run_are_said(record, drawn, pictures):
    run = record(six={"kind": "brightness"})
    alone = shutil.copytree(run / "models", run.parent / "COPY" / "models")
    (alone.parent / "run.toml").write_text("objectness = 3")
    said, names = drawn(alone / "six.safetensors", "--extractor", "hog")
    assert names == names_of(pictures)
    assert "what stands out is not drawn: setting 'objectness'" in said


def test_without_heat_maps_no_source_is_opened(record, pictures, tmp_path, command, monkeypatch):
    def refuse(*_, **__):
        raise SettingsError("opened")

    monkeypatch.setattr(objectness_maps, "open_described", refuse)
    result = command("predict", "--model", record(six={"kind": "x"}), pictures[0], "--draw", tmp_path / "drawn")
    assert result.status == 0
    assert "stands out" not in result.err


def test_u2netp_is_opened_by_a_model_alone(record, drawn, pictures):
    if not saliency_installed():
        pytest.skip("the package with u2netp is not installed")
    run = record(six=open_objectness("u2netp").describe())
    alone = shutil.copy(run / "models" / "six.safetensors", run.parent / "six.safetensors")
    _, names = drawn(alone, "--extractor", "hog")
    assert names == names_of(pictures, ".objectness")
