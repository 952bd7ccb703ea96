"""Prediction in Python: the boxes of the command, from paths or pixels, in many threads at once."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest
from PIL import ExifTags, Image

from lapsvm.catalog import read_image
from lapsvm.detection import AlarmThreshold, Predictor, Shown
from lapsvm.detection.prepared import propose_and_prepare
from lapsvm.errors import ImageError, InputError, MissingError, ShapeError
from lapsvm.features import Block, Concatenation
from lapsvm.features.extractors.maps.prepared import PreparedPixels


@pytest.fixture(scope="module")
def pictures(digits) -> list[Path]:
    return sorted((digits / "JPEGImages").iterdir())[:6]


@pytest.fixture(scope="module")
def predictor(finished):
    return Predictor.open(finished)


def check_equal(found, expected):
    assert list(found) == list(expected)
    for name, own in found.items():
        np.testing.assert_array_equal(own.boxes, expected[name].boxes)
        np.testing.assert_array_equal(own.scores, expected[name].scores)
        np.testing.assert_array_equal(own.probabilities, expected[name].probabilities)


@pytest.mark.parametrize("options", [{}, {"nms_threshold": 0.5, "box_voting": 0.7, "threshold": 0.2}])
def test_the_boxes_are_those_of_the_command(finished, pictures, command, options):
    flags = {"nms_threshold": "--nms=", "box_voting": "--set=detect.box_voting=", "threshold": "--threshold="}
    more = [f"{flags[name]}{value}" for name, value in options.items()]
    written = json.loads(command("predict", "--model", finished, *pictures[:2], *more).out)
    predictor = Predictor.open(finished, **options)
    assert [len(entry["detections"]) for entry in written] != [0, 0]
    for path, entry in zip(pictures, written, strict=False):
        for name, own in predictor(path).items():
            expected = [one for one in entry["detections"] if one["class"] == name]
            np.testing.assert_array_equal(own.boxes, np.reshape([one["box"] for one in expected], (-1, 4)))
            assert own.scores.tolist() == [one["score"] for one in expected]
            assert own.probabilities.tolist() == [one["probability"] for one in expected]


def test_a_class_has_boxes_scores_and_probabilities_best_first(predictor, pictures):
    found = predictor(str(pictures[0]))["six"]
    assert found.boxes.shape == (len(found.scores), 4)
    assert (np.diff(found.scores) <= 0).all()
    assert ((found.probabilities >= 0) & (found.probabilities <= 1)).all()


def test_its_repr_is_one_line(predictor):
    dim = predictor.extractor.dim
    assert repr(predictor) == f"Predictor(six, three: {dim:,} features of grid windows)"
    windows = predictor.scored(np.full((90, 120, 3), 128, np.uint8))
    assert repr(windows) == f"ScoredPicture(six, three: {len(windows.boxes):,} windows of 120 x 90 pixels)"
    alarm = AlarmThreshold(0.125, 0.05, {})
    many = replace(predictor, detectors=[*predictor.detectors] * 4, shown=Shown(alarm=alarm))
    classes = "six, three, six, three, six, 3 more"
    assert repr(many) == f"Predictor({classes}: {dim:,} features of grid windows, ok below 0.125)"


def test_pixels_and_paths_give_the_same_boxes(predictor, pictures):
    for path in pictures[:2]:
        check_equal(predictor(read_image(path)), predictor(path))


def test_pictures_of_pillow_are_taken_as_files_are(predictor, pictures, tmp_path):
    with Image.open(pictures[0]) as picture:
        check_equal(predictor(picture), predictor(pictures[0]))
        turned = tmp_path / "turned.png"
        exif = Image.Exif()
        exif[ExifTags.Base.Orientation] = 6
        picture.save(turned, exif=exif)
    for mode in ("RGB", "L", "RGBA", "P", "1", "CMYK"):
        with Image.open(turned) as picture:
            path = tmp_path / f"{mode}.tif"
            picture.convert(mode).save(path)
        with Image.open(path) as picture:
            check_equal(predictor(picture), predictor(path))
    with Image.open(turned) as picture:
        check_equal(predictor(picture), predictor(turned))
    check_equal(next(predictor.many([Image.fromarray(read_image(pictures[1]))])), predictor(pictures[1]))


def test_proposed_windows_are_those_that_a_call_scores(predictor, pictures):
    windows = predictor.propose(pictures[0])
    assert windows.dtype == np.float32
    check_equal(predictor.among(pictures[0], windows), predictor(pictures[0]))


@pytest.mark.parametrize("value", [None, 3, 2.5, b"abc", [[[1, 2, 3]]], {"a": 1}, object()])
def test_what_is_no_picture_is_an_error_of_input(predictor, value):
    for call in (predictor, predictor.scored, predictor.score_maps, lambda one: next(predictor.many([one]))):
        with pytest.raises(InputError, match="a picture must be a path, a picture of Pillow, or an array"):
            call(value)


def test_a_picture_of_pillow_that_cannot_be_read_is_an_error_of_pictures(predictor, pictures, tmp_path):
    (tmp_path / "cut.jpg").write_bytes(pictures[0].read_bytes()[:-200])
    with Image.open(tmp_path / "cut.jpg") as cut, pytest.raises(ImageError, match="cannot be read whole"):
        predictor(cut)
    with pytest.raises(ImageError, match="must have at least one pixel"):
        predictor(Image.new("RGB", (0, 5)))
    with pytest.raises(ImageError, match="32 bits"):
        predictor(Image.new("F", (30, 20)))


@pytest.mark.parametrize("models", [None, 3, b"RUN", [], [None], ["RUN", 3]])
def test_models_must_be_paths(models):
    with pytest.raises(InputError, match="models must be"):
        Predictor.open(models)


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, "2"])
def test_the_number_of_threads_is_one_or_more(predictor, pictures, threads):
    for call, given in ((predictor.many, pictures), (predictor.scored, pictures[0])):
        with pytest.raises(InputError, match="threads must be a whole number of 1 or more"):
            call(given, threads)


@pytest.mark.parametrize("value", ["photo.jpg", Path("photo.jpg"), None, 3])
def test_many_takes_several_pictures(predictor, value):
    with pytest.raises(InputError, match="pictures must be a sequence of pictures"):
        predictor.many(value)


def test_threads_change_nothing(predictor, pictures):
    alone = [predictor(path) for path in pictures]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(predictor, pictures * 4))
    for number, found in enumerate(together):
        check_equal(found, alone[number % len(pictures)])
    for found, expected in zip(predictor.many(pictures, threads=3), alone, strict=True):
        check_equal(found, expected)


def test_models_may_be_named_one_by_one(finished, predictor, pictures):
    files = [finished / "models" / f"{name}.safetensors" for name in ("three", "six")]
    found = Predictor.open([str(file) for file in files], extractor="hog")(pictures[0])
    assert list(found) == ["three", "six"]
    check_equal({name: found[name] for name in ("six", "three")}, predictor(pictures[0]))


@pytest.mark.parametrize(
    ("picture", "error"),
    [(np.zeros((40, 50), np.uint8), ShapeError), (np.zeros((40, 50, 3)), InputError), ("none.jpg", MissingError)],
)
def test_what_is_no_picture_is_refused(predictor, picture, error):
    with pytest.raises(error):
        predictor(picture)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": 1.5}, "threshold must be a probability from 0 to 1, got 1.5"),
        ({"nms_threshold": 2}, "must be between 0 and 1, got 2"),
        ({"extractor": "hog?size=96"}, "the extractor must give the"),
    ],
)
def test_an_argument_that_breaks_its_rule_is_named_when_a_predictor_is_opened(finished, options, message):
    with pytest.raises(InputError, match=message):
        Predictor.open(finished, **options)


def test_a_folder_that_is_no_run_is_named(tmp_path):
    with pytest.raises(MissingError, match="holds no model file"):
        Predictor.open(tmp_path)


# threads of one picture


class Met:
    """An extractor that goes on only when others are at work at the same time."""

    dim, blocks = 3, (Block(3),)

    def __init__(self, barrier):
        self.barrier = barrier

    def describe(self):
        return {"kind": "met"}

    def prepare(self, pixels):
        self.barrier.wait(timeout=60)
        return PreparedPixels(self, pixels)

    def __call__(self, pixels, boxes):
        return np.asarray(boxes, np.float32)[:, :3]


def test_windows_and_all_parts_of_the_features_are_made_at_once(pictures):
    barrier, pixels = Barrier(3), read_image(pictures[0])

    def propose():
        barrier.wait(timeout=60)
        return np.array([[0, 0, 5, 7], [2, 1, 9, 9]], np.float32)

    prepared = propose_and_prepare(pixels, propose, 1000, Concatenation([Met(barrier), Met(barrier)]), 3)
    np.testing.assert_array_equal(prepared.features(), [[0, 0, 5, 0, 0, 5], [2, 1, 9, 2, 1, 9]])


@pytest.mark.parametrize("sides", [1, 2])
def test_the_number_of_threads_changes_nothing(predictor, pictures, sides):
    smaller = replace(predictor, windows=replace(predictor.windows, max_side=predictor.windows.max_side // sides))
    expected = smaller.scored(pictures[0])
    for threads in (2, 3, 8):
        found = smaller.scored(pictures[0], threads)
        np.testing.assert_array_equal(found.scores, expected.scores)
        check_equal(found.detections(), expected.detections())


def test_an_error_of_the_windows_is_raised(pictures):
    def fail():
        raise InputError("no windows.")

    with pytest.raises(InputError, match="no windows"):
        propose_and_prepare(read_image(pictures[0]), fail, 1000, Met(Barrier(1)), 2)
