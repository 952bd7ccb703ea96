"""Large pictures are seen larger where nobody says otherwise, and even ground gets advice on windows."""

import numpy as np
import pytest
from lapsvm.pipelines.settings.recipes import BEST, resolved, sizes_are_open, windows_are_open
from lapsvm.pipelines.settings.settings import Settings
from lapsvm.pipelines.stages.data_checks.ground import EVEN, advice, unevenness
from lapsvm.pipelines.stages.data_checks.sides import FINE, LARGE, fitted_to
from PIL import Image

from lapsvm.catalog import ImageRecord

from ...twins.networks import onnx_network

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


def surface(seed, deviation):
    """A picture whose sixteen parts differ by a deviation of grey levels, with a small dark spot."""
    rng = np.random.default_rng(seed)
    pixels = np.kron(rng.normal(128, deviation, (4, 4)), np.ones((16, 16))) + rng.normal(0, 3, (64, 64))
    pixels[20:24, 30:34] -= 60
    return np.repeat(np.clip(pixels, 0, 255).astype(np.uint8)[:, :, None], 3, axis=2)


@pytest.fixture
def records(tmp_path):
    def make(deviation, count=12):
        for number in range(count):
            Image.fromarray(surface(number, deviation)).save(tmp_path / f"{number}.png")
        return [ImageRecord(str(number), tmp_path / f"{number}.png") for number in range(count)]

    return make


def test_a_run_on_even_ground_gets_advice_unless_windows_are_given(command, tmp_path):
    kernel = np.random.default_rng(0).normal(size=(4, 3, 16, 16)).astype(np.float32) / 50
    network, root = tmp_path / "tiny.onnx", tmp_path / "pictures"
    nodes = [("Conv", "picture kernel", "map", {"strides": [16, 16]})]
    network.write_bytes(
        onnx_network(nodes, {"picture": [1, 3, "h", "w"]}, {"map": [1, 4, "r", "c"]}, {"kernel": kernel})
    )
    for number in range(12):
        path = root / ("good", "spot")[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(surface(number, 4)).save(path)
    words = ["--data", "folder", "--root", root, "--extractor", f"onnx:{network}", "--recipe", "best"]
    words += ["--sizes", "64", "--pca", "0", "--objectness", "none"]
    for given, is_advised in (([], True), (["--windows", "mixed"], False)):
        run = tmp_path / str(is_advised)
        result = command("extract", *words, *given, "--out", run)
        assert result.status == 0, result.err
        assert ("windows: the ground is even" in result.err) is is_advised
        assert Settings.read(run / "run.toml").windows.method == "mixed"


def test_uneven_pictures_given_windows_and_features_of_no_network_get_none(records):
    assert "take --windows small" in advice(records(4), BEST_SETTINGS, is_open=True)
    assert advice(records(4), BEST_SETTINGS, is_open=False) == ""
    hog = BEST_SETTINGS.with_values({"features.extractors": ("hog",)})
    assert advice(records(4), hog, is_open=True) == ""
    assert advice(records(40), BEST_SETTINGS, is_open=True) == ""


def test_pictures_that_do_not_open_do_not_count(records):
    some = records(4)
    for record in some[3:]:
        record.path.write_bytes(b"no picture")
    assert advice(some, BEST_SETTINGS, is_open=True)
    for record in some:
        record.path.write_bytes(b"no picture")
    assert advice(some, BEST_SETTINGS, is_open=True) == ""


def test_light_that_falls_alike_on_all_pictures_does_not_count():
    light = np.linspace(-60, 60, 64)[:, None, None]
    lit = [np.clip(surface(seed, 4) + light, 0, 255).astype(np.uint8) for seed in range(20)]
    assert unevenness(lit) < EVEN / 2
    assert unevenness(lit[:1]) > EVEN
    assert unevenness([]) is None


@pytest.mark.parametrize(("deviation", "count"), [(10, 2), (10, 33), (30, 33)])
def test_unevenness_is_the_deviation_of_parts_for_few_pictures_and_many(deviation, count):
    draws = [unevenness([surface(100 * seed + one, deviation) for one in range(count)]) for seed in range(30)]
    assert np.mean(draws) == pytest.approx(deviation, rel=0.15)


@pytest.mark.parametrize(
    ("given", "values", "is_open"),
    [
        ({}, BEST, True),
        ({"windows.method": "mixed"}, BEST, False),
        ({"windows.max_windows": 1000}, BEST, False),
        ({"windows.proposal_side": 512}, BEST, False),
        ({}, BEST | {"windows.max_windows": 500}, False),
        ({}, {}, False),
    ],
)
def test_given_windows_are_not_open(given, values, is_open):
    assert windows_are_open(given, {**values, **given}) is is_open
