"""Pictures on their way to features: each read once, large ones reduced, boxes in their own pixels."""

import json
from collections import Counter

import cv2
import numpy as np
import pytest
from lapsvm.pipelines.products import projection
from lapsvm.pipelines.settings.settings import WindowSettings
from lapsvm.pipelines.shards import extraction
from lapsvm.pipelines.shards.windows import window_boxes
from PIL import Image

from lapsvm.boxes import iou
from lapsvm.detection.prepared import prepare_windows
from lapsvm.features import HOG
from lapsvm.windows import propose
from lapsvm.windows.proposals import enlarged_boxes, reduced

LARGE, SIDE = (1500, 2000), 400
OBJECT = np.array([[903, 411, 1297, 1008]])


@pytest.fixture(scope="module")
def large():
    """A picture with one bright object on a dark, noisy ground."""
    noise = np.random.default_rng(0).integers(0, 60, (*LARGE, 3), dtype=np.uint8)
    x1, y1, x2, y2 = OBJECT[0]
    noise[y1:y2, x1:x2] += 180
    return noise


def prepared(pixels, settings):
    return prepare_windows(pixels, window_boxes(pixels, settings, 0), settings.max_side, HOG())


def settings(**changes):
    return WindowSettings(max_windows=200, **{"max_side": SIDE, "proposal_side": SIDE} | changes)


def test_boxes_of_a_reduced_picture_lie_on_the_object_in_its_own_pixels(large):
    picture = prepared(large, settings())
    assert picture.size == LARGE
    assert picture.boxes.dtype == np.float32
    np.testing.assert_array_equal(picture.boxes, np.rint(picture.boxes))
    assert picture.boxes[0].tolist() == [0, 0, 2000, 1500]
    assert (picture.boxes[:, 2:] > picture.boxes[:, :2]).all()
    assert (picture.boxes <= [2000, 1500, 2000, 1500]).all()
    assert iou(picture.boxes, OBJECT).max() > 0.95
    assert picture.features().shape == (len(picture.boxes), HOG().dim)


def test_features_of_a_reduced_picture_are_those_of_the_same_windows_in_it(large):
    picture, small = prepared(large, settings()), reduced(large, SIDE)
    assert small.shape == (300, 400, 3)
    np.testing.assert_array_equal(picture.features(), HOG()(small, picture.boxes / 5))


def test_a_picture_of_the_limit_is_left_as_it_is(large):
    assert reduced(large, 2000) is large
    whole = settings(method="grid", max_side=2000, proposal_side=2000)
    np.testing.assert_array_equal(window_boxes(large, whole, 0), propose(large, "grid", max_windows=200))
    assert prepared(large, whole).seen.pixels is large


@pytest.mark.parametrize(
    ("size", "expected"), [((40, 2000), (8, 400)), ((2000, 1), (400, 1)), ((401, 300), (400, 299))]
)
def test_sides_keep_their_proportions(size, expected):
    assert reduced(np.zeros((*size, 3), np.uint8), 400).shape[:2] == expected


def test_enlarged_boxes_are_whole_pixels_of_the_picture_and_none_vanishes():
    columns = np.arange(20.0)
    boxes = np.stack([columns, columns, columns + 1, columns + 1], axis=1)
    found = enlarged_boxes(boxes, np.empty((30, 21, 3)), np.empty((20, 20, 3)))
    assert found.dtype == np.float32
    assert found.max(axis=0).tolist() == [20, 29, 21, 30]
    assert (found[:, 2:] - found[:, :2] >= 1).all()
    np.testing.assert_allclose(found, boxes * [1.05, 1.5, 1.05, 1.5], atol=0.5)


@pytest.fixture
def extract(digits, tmp_path, command, made):
    """Extract with projected features; return what was made, by name."""

    def run(name, *options):
        line = ["extract", "--data", "voc", "--root", digits, "--out", tmp_path / name, "--extractor", "hog"]
        line += ["--pca", "30"]
        line += ["--windows", "grid", "--max-windows", "60", "--classes", "six", "--quiet", *options]
        assert command(*line).status == 0
        return made(tmp_path / name, "shards/*/*.safetensors", "projection.safetensors")

    return run


def test_pictures_of_the_projection_are_read_once_and_change_nothing(extract, monkeypatch):
    read, original = Counter(), extraction.pixels_unless_bad
    monkeypatch.setattr(projection, "PICTURES", 10)

    def counted(record, skip_bad):
        read[record.id] += 1
        return original(record, skip_bad)

    monkeypatch.setattr(extraction, "pixels_unless_bad", counted)
    kept = extract("kept", "--jobs", "3")
    assert set(read.values()) == {1}
    assert len(read) == 60
    monkeypatch.setattr(projection, "KEPT_BYTES", 200_000)
    assert extract("some", "--jobs", "1") == kept
    assert Counter(read.values())[3] in range(1, 10)
    monkeypatch.setattr(projection, "KEPT_BYTES", 0)
    assert extract("none", "--jobs", "2") == kept


def test_predict_gives_boxes_of_a_large_picture_in_its_own_pixels(digits, tmp_path, command):
    options = ["--windows", "grid", "--max-windows", "150", "--classes", "six", "--C", "1", "--folds", "2", "--quiet"]
    line = ["--data", "voc", "--root", digits, "--out", tmp_path / "RUN", "--extractor", "hog"]
    line += ["--set=windows.max_side=256", "--set=windows.proposal_side=200"]
    for verb in (["extract", *line, *options[:6]], ["train", "--out", tmp_path / "RUN", *options[6:]]):
        assert command(*verb).status == 0
    picture = sorted((digits / "JPEGImages").glob("*.jpg"))[0]
    pixels = np.array(Image.open(picture).convert("RGB"))
    times = 9
    enlarged = cv2.resize(pixels, None, fx=times, fy=times, interpolation=cv2.INTER_CUBIC)
    Image.fromarray(enlarged).save(tmp_path / "large.png")
    said = command(
        "predict", "--model", tmp_path / "RUN" / "models", picture, tmp_path / "large.png", "--draw", tmp_path / "drawn"
    )
    small, large = json.loads(said.out)
    assert [large["width"], large["height"]] == [times * small["width"], times * small["height"]]
    boxes = [np.array([one["box"] for one in found["detections"][:3]]) for found in (small, large)]
    assert iou(times * boxes[0], boxes[1]).max() > 0.8
    with Image.open(tmp_path / "drawn" / "large.png") as drawn:
        assert drawn.size == (large["width"], large["height"])
