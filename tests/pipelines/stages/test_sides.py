"""Large pictures are seen larger where nobody says otherwise, and what is too small to be found is said."""

import numpy as np
import pytest
from lapsvm.pipelines.settings.recipes import BEST, resolved, sizes_are_open
from lapsvm.pipelines.settings.settings import Settings
from lapsvm.pipelines.stages.data_checks.sides import FINE, LARGE, fitted_to
from PIL import Image

from lapsvm.catalog import ImageRecord

BEST_SETTINGS = Settings().with_values(BEST | {"features.extractors": ("efficientnet_lite0",)})


@pytest.fixture
def pictures(tmp_path):
    """Return records of pictures with given longer sides."""

    def make(*sides):
        for number, side in enumerate(sides):
            Image.fromarray(np.zeros((4, side, 3), dtype=np.uint8)).save(tmp_path / f"{number}.png")
        return [ImageRecord(str(number), tmp_path / f"{number}.png") for number in range(len(sides))]

    return make


def test_the_median_decides(pictures):
    settings, sentence = fitted_to(pictures(640, 3000, 3000), BEST_SETTINGS, is_open=True)
    assert settings == BEST_SETTINGS.with_values(FINE)
    assert "3,000 pixels" in sentence
    assert "below about 23 pixels" in sentence
    assert "--sizes 640,960" in sentence
    assert fitted_to(pictures(640, 640, 3000), BEST_SETTINGS, is_open=True)[0] == BEST_SETTINGS


@pytest.mark.parametrize(("side", "is_open"), [(LARGE, True), (3000, False)])
def test_other_pictures_and_given_sizes_stay(pictures, side, is_open):
    settings, sentence = fitted_to(pictures(side), BEST_SETTINGS, is_open=is_open)
    assert settings == BEST_SETTINGS
    assert f"below about {round(16 * side / 640)} pixels" in sentence


def test_nothing_is_said_of_maps_that_nobody_knows(pictures):
    for values in ({"features.extractors": ("onnx:net.onnx",)}, {"features.sizes": ()}):
        settings = BEST_SETTINGS.with_values(values)
        assert fitted_to(pictures(3000), settings, is_open=True) == (settings, "")


def test_a_picture_that_does_not_open_does_not_count(pictures):
    records = pictures(3000, 640, 640)
    for record in records[1:]:
        record.path.write_bytes(b"no picture")
    assert fitted_to(records, BEST_SETTINGS, is_open=True)[0] == BEST_SETTINGS.with_values(FINE)


@pytest.mark.parametrize(
    ("given", "is_open"),
    [
        ({}, True),
        ({"features.sizes": BEST["features.sizes"]}, False),
        ({"windows.proposal_side": 512}, False),
        ({"windows.max_side": 1200}, False),
        ({"features.extractors": ("hog",)}, False),
    ],
)
def test_sizes_are_open_while_only_the_recipe_names_them(given, is_open):
    given = {"features.extractors": ("efficientnet_lite0",)} | given
    values, _ = resolved(None, "extract", given, None)
    assert sizes_are_open(given, values) == is_open


def test_a_run_on_large_pictures_records_the_sizes(tmp_path, command):
    pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(1)
    for name in ("cat", "dog"):
        (tmp_path / "data" / name).mkdir(parents=True)
        for number in range(3):
            pixels = rng.integers(0, 256, (24, 2000, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "data" / name / f"{number}.jpg")
    line = ["extract", "--data", "folder", "--root", tmp_path / "data", "--test-set", "none", "--max-windows", "5"]
    said = command(
        *line, "--windows", "grid", "--extractor", "efficientnet_lite0", "--pca", "4", "--out", tmp_path / "RUN"
    )
    assert said.status == 0, said.err
    assert "pictures: 2,000 pixels" in said.err
    stored = Settings.read(tmp_path / "RUN" / "run.toml")
    assert stored.features.sizes == FINE["features.sizes"]
    assert stored.windows.proposal_side == FINE["windows.proposal_side"]
