"""Large pictures are seen larger, and even ground may get windows of `small`, where nobody says otherwise."""

import json

import numpy as np
import pytest
from lapsvm.pipelines.context import RunContext
from lapsvm.pipelines.settings.recipes import BEST, resolved, sizes_are_open, windows_are_open
from lapsvm.pipelines.settings.settings import Settings
from lapsvm.pipelines.stages.data_checks.ground import EVEN, ground_of, unevenness
from lapsvm.pipelines.stages.data_checks.sides import FINE, LARGE, fitted_to
from lapsvm.pipelines.stages.window_choice import fitted_windows
from PIL import Image

from lapsvm.catalog import ImageRecord

from ...twins.networks import onnx_network

BEST_SETTINGS = Settings().with_values(BEST | {"features.extractors": ("efficientnet_lite0",)})
SIDE = 320


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


def board(rng, is_faulty):
    """Tracks, perhaps with gaps of six pixels, at which no region and no part of the picture ends alone."""
    scene = np.full((SIDE, SIDE), 60.0)
    for top in range(6, SIDE, 20):
        scene[top : top + 8] = 180
    for row in range(15) if is_faulty else ():
        top, left = 6 + 20 * row, rng.integers(30, SIDE - 42)
        scene[top : top + 8, left : left + 6] = 60
    return scene


def uneven_board(rng, is_faulty):
    """The same on ground whose parts differ."""
    return board(rng, is_faulty) / 2 + np.kron(rng.uniform(0, 125, (4, 4)), np.ones((SIDE // 4, SIDE // 4)))


def blemish(rng, is_faulty):
    """Plain ground, perhaps with a dark part of forty pixels."""
    scene = np.full((SIDE, SIDE), 150.0)
    if is_faulty:
        top, left = rng.integers(30, SIDE - 70, 2)
        scene[top : top + 40, left : left + 40] = 60
    return scene


@pytest.fixture
def network(tmp_path):
    """A file with the brightness, and its steps to the left and right, every four pixels."""
    step = np.array([-1.0, -1.0, 1.0, 1.0], dtype=np.float32)[None] * np.ones((4, 1), dtype=np.float32)
    level = np.full((4, 4), 1 / 48, dtype=np.float32)
    kernel = np.repeat(np.stack([level, step, -step])[:, None], 3, axis=1)
    path = tmp_path / "steps.onnx"
    nodes = [("Conv", "picture kernel", "steps", {"strides": [4, 4]}), ("Relu", "steps", "map", {})]
    shapes = {"picture": [1, 3, "h", "w"]}, {"map": [1, 3, "r", "c"]}
    path.write_bytes(onnx_network(nodes, *shapes, {"kernel": kernel}))
    return path


@pytest.fixture
def extract(command, network, tmp_path):
    """Write pictures by a drawing, extract them, and return what was said and the stored windows."""
    words = ["--data", "folder", "--extractor", f"onnx:{network}", "--sizes", str(SIDE), "--pca", "0"]
    words += ["--test-set", "none", "--objectness", "none"]

    def run(draw, *given, out="RUN", shuffled=False):
        root, rng = tmp_path / "pictures" / draw.__name__, np.random.default_rng(0)
        for number in range(0 if root.exists() else 24):
            folder = root / ("good", "fault")[rng.integers(2) if shuffled else number % 2]
            folder.mkdir(parents=True, exist_ok=True)
            pixels = draw(rng, number % 2)
            Image.fromarray(np.repeat(pixels.astype(np.uint8)[:, :, None], 3, axis=2)).save(folder / f"{number}.png")
        result = command("extract", "--root", root, *words, *given, "--out", tmp_path / out)
        assert result.status == 0, result.err
        return result.err, Settings.read(tmp_path / out / "run.toml").windows

    return run


@pytest.mark.parametrize(("draw", "method", "side"), [(board, "small", 768), (blemish, "mixed", 512)])
def test_small_windows_are_taken_where_others_lack_what_separates_the_classes(extract, tmp_path, draw, method, side):
    said, windows = extract(draw)
    assert (windows.method, windows.proposal_side) == (method, side)
    assert f"windows: {method}, because the ground is even" in said
    assert "of 12 places" in said
    assert json.loads((tmp_path / "RUN/timings.json").read_text())["choose windows"]["seconds"] > 0


def test_stored_windows_stay_without_a_trial(extract, tmp_path):
    extract(board)
    for given in (["--recipe", "best"], ["--out", tmp_path / "COPY", "--shards-from", tmp_path / "RUN"]):
        said, windows = extract(board, *given, out=given[1] if "--out" in given else "RUN")
        assert "choose windows" not in said
        assert "windows:" not in said
        assert windows.method == "small"


@pytest.mark.parametrize("given", ["option", "file", "uneven ground"])
def test_there_is_no_trial_where_windows_are_given_or_the_ground_is_not_even(extract, tmp_path, given):
    file = tmp_path / "mine.toml"
    file.write_text('[windows]\nmethod = "mixed"\nmax_windows = 1000\nmax_area = 0.9\n')
    words = {"option": ["--windows", "mixed"], "file": ["--recipe", file], "uneven ground": []}[given]
    said, windows = extract(uneven_board if given == "uneven ground" else board, *words)
    assert "windows:" not in said
    assert windows.method == "mixed"


def test_a_trial_of_labels_in_random_order_changes_nothing(extract):
    said, windows = extract(board, shuffled=True)
    assert "a quick trial tells no classes apart" in said
    assert windows.method == "mixed"


def test_a_trial_takes_the_pictures_that_memory_has_room_for(extract, tmp_path):
    extract(board, "--windows", "mixed")
    context = RunContext.opened(tmp_path / "RUN", "extract", quiet=True)
    context.memory = "50K"
    settings, sentence = fitted_windows(context.workspace, context.settings, context.data, context.open_extractor())
    assert settings == context.settings
    assert "a quick trial tells no classes apart" in sentence


@pytest.fixture
def records(tmp_path):
    def make(deviation, count=12):
        for number in range(count):
            Image.fromarray(surface(number, deviation)).save(tmp_path / f"{number}.png")
        return [ImageRecord(str(number), tmp_path / f"{number}.png") for number in range(count)]

    return make


def test_pictures_that_do_not_open_do_not_count(records):
    some = records(4)
    for record in some[3:]:
        record.path.write_bytes(b"no picture")
    assert ground_of(some) < EVEN
    for record in some:
        record.path.write_bytes(b"no picture")
    assert ground_of(some) is None


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
    assert windows_are_open(None, given, {**values, **given}) is is_open
