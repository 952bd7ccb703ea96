"""Heat maps: score maps of a predictor, and their pictures beside the drawn ones."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from lapsvm.pipelines.commands.drawing.files import HEATMAP, OBJECTNESS, PictureFile, drawing_files
from lapsvm.pipelines.commands.drawing.heatmap import draw_heatmap
from PIL import Image

from lapsvm.catalog import read_image
from lapsvm.detection import Calibration, Detector, Predictor

GREY = np.full((300, 400, 3), 128, np.uint8)
RAMP = np.tile(np.linspace(0, 1, 400), (300, 1))


@pytest.fixture(scope="module")
def predictor(finished):
    return Predictor.open(finished)


@pytest.fixture(scope="module")
def pictures(digits):
    return sorted((digits / "JPEGImages").iterdir())[:4]


# score maps of a predictor


def test_a_map_covers_the_picture_and_reaches_the_probability_of_the_best_box(predictor, pictures):
    for path in pictures:
        maps, found = predictor.score_maps(path), predictor(path)
        assert list(maps) == list(found) == ["six", "three"]
        for name, own in maps.items():
            assert own.values.shape == read_image(path).shape[:2]
            assert own.is_probability
            assert own.values.max() == pytest.approx(found[name].probabilities[0], abs=1e-6)
            assert own.values.min() < own.values.max()


def test_pixels_paths_and_threads_give_the_same_maps(predictor, pictures):
    alone = [predictor.score_maps(read_image(path)) for path in pictures]
    with ThreadPoolExecutor(4) as pool:
        for number, maps in enumerate(pool.map(predictor.score_maps, pictures * 3)):
            for name, own in maps.items():
                np.testing.assert_array_equal(own.values, alone[number % len(pictures)][name].values)


# pictures


def heatmap(tmp_path, values, title="cat: probability", pixels=GREY, **options):
    """Return the drawn picture and the strip below it."""
    draw_heatmap(pixels, values, title, tmp_path / "drawn" / "one.png", **options)
    drawn = np.array(Image.open(tmp_path / "drawn" / "one.png"))
    assert drawn.shape[1:] == pixels.shape[1:]
    return drawn[: len(pixels)], drawn[len(pixels) :]


def lightness(pixels):
    return np.array(Image.fromarray(pixels).convert("L")).astype(int)


def test_larger_values_are_lighter(tmp_path):
    picture, _ = heatmap(tmp_path, RAMP)
    light = lightness(picture)[150]
    assert (np.diff(light) >= -1).all()  # rounded to whole levels
    assert light[-1] - light[0] > 100


def test_the_colours_of_a_value_are_the_same_in_all_pictures(tmp_path):
    low, _ = heatmap(tmp_path, np.where(RAMP < 0.5, 0.1, 0.2))
    high, _ = heatmap(tmp_path, np.where(RAMP < 0.5, 0.2, 0.9))
    np.testing.assert_array_equal(low[0, -1], high[0, 0])
    assert len({tuple(low[0, 0]), tuple(low[0, -1]), tuple(high[0, -1])}) == 3


def test_values_beyond_the_scale_have_its_last_colours(tmp_path):
    picture, _ = heatmap(tmp_path, np.where(RAMP < 0.5, -7.0, 9.0), scale=(-1.0, 2.0))
    limits, _ = heatmap(tmp_path, np.where(RAMP < 0.5, -1.0, 2.0), scale=(-1.0, 2.0))
    np.testing.assert_array_equal(picture, limits)


def test_a_scale_of_one_value_is_drawn(tmp_path):
    picture, _ = heatmap(tmp_path, np.full((300, 400), 0.25), scale=(0.25, 0.25))
    assert (picture == picture[0, 0]).all()


def test_the_picture_shows_through(tmp_path):
    pixels = np.zeros_like(GREY)
    pixels[:, 200:] = 255
    for values in (np.zeros((3, 4)), np.ones((3, 4))):
        picture, _ = heatmap(tmp_path, values, pixels=pixels)
        assert (lightness(picture)[:, 300] - lightness(picture)[:, 100] > 60).all()


@pytest.mark.parametrize("resolution", [(3, 4), (320, 320), (900, 1200), (1, 1)])
def test_a_map_of_any_resolution_covers_the_picture(tmp_path, resolution):
    values = np.zeros(resolution)
    values[:, resolution[1] // 2 :] = 1
    picture, _ = heatmap(tmp_path, values)
    light = lightness(picture)
    assert (light[:, -20:] > 150).all()
    assert resolution == (1, 1) or (light[:, :20] < 80).all()


def test_without_a_map_the_picture_is_grey_and_the_strip_has_no_scale(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, GREY.shape, dtype=np.uint8)
    picture, strip = heatmap(tmp_path, None, "saliency: none", pixels)
    assert (np.ptp(picture.astype(int), axis=2) == 0).all()
    np.testing.assert_allclose(lightness(picture), lightness(pixels), atol=1)
    assert (np.ptp(strip.astype(int), axis=2) == 0).all()
    assert strip.max() > 200  # the title


def test_the_strip_shows_all_colours_in_order_and_the_title(tmp_path):
    _, strip = heatmap(tmp_path, RAMP)
    coloured = np.ptp(strip.astype(int), axis=2).max(axis=0) > 30
    columns = np.flatnonzero(coloured)
    bar = strip[len(strip) // 2, columns.min() : columns.max() + 1]
    assert len(bar) > 80
    assert (np.diff(lightness(bar[None])[0]) >= -1).all()
    text = strip[:, columns.max() + 1 :]
    assert (text > 200).any()
    _, other = heatmap(tmp_path, RAMP, "dog: probability")
    assert not np.array_equal(strip, other)
    _, scores = heatmap(tmp_path, RAMP, scale=(0.0, 0.5))
    assert not np.array_equal(strip, scores)


@pytest.mark.parametrize("size", [(1, 1), (32, 32), (60, 400), (2000, 90)])
def test_pictures_of_any_size_are_drawn(tmp_path, size):
    width, height = size
    pixels = np.zeros((height, width, 3), np.uint8)
    picture, strip = heatmap(tmp_path, np.ones((height, width)), "an aeroplane with a very long name", pixels)
    assert picture.shape == pixels.shape
    assert 10 < len(strip) < 200


# the command


@pytest.fixture
def models(finished, tmp_path):
    """Return a function that copies the two models with calibrations of ours."""

    def copies(**calibrations):
        folder = tmp_path / "models"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name, calibration in calibrations.items():
            detector = Detector.load(finished / "models" / f"{name}.safetensors")
            replace(detector, calibration=calibration).save(folder / f"{name}.safetensors")
        return folder

    return copies


def test_the_map_of_the_most_probable_class_is_written_beside_the_drawing(models, pictures, tmp_path, command):
    folder, drawn = models(six=Calibration(1.0, -9.0), three=Calibration(1.0, 0.0)), tmp_path / "drawn"
    line = ["predict", "--extractor", "hog", "--model", folder, *pictures, "--draw", drawn]
    plain = command(*line).out
    boxes = {path.name: path.read_bytes() for path in drawn.iterdir()}
    result = command(*line, "--heatmap")
    assert result.status == 0
    assert result.out == plain
    assert "; NAME.heatmap.png: where the most probable class scores\n" in result.err
    names = {path.stem for path in pictures}
    assert {path.name for path in drawn.iterdir()} == {*boxes, *(f"{name}.heatmap.png" for name in names)}
    assert boxes == {name: (drawn / name).read_bytes() for name in boxes}
    predictor = Predictor.open(folder, extractor="hog")
    for path in pictures:
        values = predictor.score_maps(path)["three"].values
        draw_heatmap(read_image(path), values, "three: probability", tmp_path / "own.png")
        assert (drawn / f"{path.stem}.heatmap.png").read_bytes() == (tmp_path / "own.png").read_bytes()


def test_scores_without_calibration_take_all_colours(models, pictures, tmp_path, command):
    folder, drawn = models(six=None), tmp_path / "drawn"
    command("predict", "--extractor", "hog", "--model", folder, pictures[0], "--draw", drawn, "--heatmap")
    values = Predictor.open(folder, extractor="hog").score_maps(pictures[0])["six"].values
    scale = float(values.min()), float(values.max())
    draw_heatmap(read_image(pictures[0]), values, "six: score", tmp_path / "own.png", scale)
    assert (drawn / f"{pictures[0].stem}.heatmap.png").read_bytes() == (tmp_path / "own.png").read_bytes()


def test_a_threshold_leaves_boxes_out_and_no_heat(models, pictures, tmp_path, command):
    folder, drawn = models(six=Calibration(1.0, 0.0)), tmp_path / "drawn"
    line = ["predict", "--extractor", "hog", "--model", folder, pictures[0], "--draw", drawn, "--heatmap"]
    command(*line)
    before = (drawn / f"{pictures[0].stem}.heatmap.png").read_bytes()
    result = command(*line, "--threshold", 1)
    assert json.loads(result.out)[0]["detections"] == []
    assert (drawn / f"{pictures[0].stem}.heatmap.png").read_bytes() == before


def test_heat_maps_need_a_folder(finished, pictures, refused):
    said = refused("predict", "--model", finished, pictures[0], "--heatmap")
    assert said == "lapsvm: option --heatmap needs --draw DIR, the folder for drawn pictures.\n"


def test_no_heat_map_has_the_name_of_a_drawing(tmp_path):
    for names in (["a.jpg", "a.heatmap.jpg"], ["a.heatmap.jpg", "a.jpg"], ["a.jpg", "a.png", "a-2.heatmap.jpg"]):
        pictures = [PictureFile(tmp_path / name, Path(name)) for name in names]
        drawings = drawing_files(pictures, tmp_path / "drawn", [HEATMAP, OBJECTNESS])
        files = [file.name for drawing in drawings for file in drawing.files]
        assert len(set(files)) == 3 * len(names)
        for drawing in drawings:
            assert drawing.heatmap.name == drawing.boxes.stem + ".heatmap.png"
