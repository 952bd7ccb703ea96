"""Prediction: which models and pictures, probabilities and thresholds, what is written where."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from lapsvm.pipelines.commands.drawing import boxes
from lapsvm.pipelines.commands.drawing.files import PictureFile, picture_files
from PIL import Image

from lapsvm.detection import Calibration, Detector
from lapsvm.detection.model_sources import model_files
from lapsvm.errors import WriteError
from lapsvm.windows.proposals import WINDOWS_VERSION

SLOPE, OFFSET = 3.0, -1.0


@pytest.fixture
def picture(digits):
    return sorted((digits / "JPEGImages").iterdir())[0]


@pytest.fixture
def models(finished, tmp_path):
    """Copies of two models, that of the class six with a calibration and that of three without."""
    folder = tmp_path / "models"
    folder.mkdir()
    for name, calibration in (("six", Calibration(SLOPE, OFFSET)), ("three", None)):
        detector = Detector.load(finished / "models" / f"{name}.safetensors")
        replace(detector, calibration=calibration).save(folder / f"{name}.safetensors")
    return folder


def found(command, *arguments):
    """Return the output of predict, and the class -> detections of its first picture."""
    result = command("predict", "--extractor", "hog", *arguments)
    assert result.status == 0, result.err
    entries = json.loads(result.out)
    classes = {}
    for detection in entries[0]["detections"]:
        classes.setdefault(detection["class"], []).append(detection)
    return result, classes


# models


def test_models_are_files_folders_and_runs_each_once(finished):
    six, three = (finished / "models" / f"{name}.safetensors" for name in ("six", "three"))
    assert model_files([three, six]) == [three, six]
    assert model_files([six, finished]) == [six, three]
    assert len(model_files([finished / "models" / ".." / "models", finished])) == 2


def test_two_models_of_one_class_are_refused(finished, models, picture, refused):
    other = models / "six.safetensors"
    said = refused("predict", "--model", finished, "--model", other, picture)
    own = finished / "models" / "six.safetensors"
    assert f"models must be of different classes, got {own} and {other} for 'six'." in said


def test_a_run_without_models_is_one_sentence(tmp_path, picture, refused):
    (tmp_path / "RUN" / "models").mkdir(parents=True)
    said = refused("predict", "--model", tmp_path / "RUN", picture)
    assert f"folder {tmp_path / 'RUN' / 'models'} holds no model file (*.safetensors)." in said


def test_a_run_that_is_not_trained_is_one_sentence(finished, tmp_path, picture, refused):
    shutil.copytree(finished, tmp_path / "RUN", ignore=shutil.ignore_patterns("models"))
    (tmp_path / "RUN" / "projection.safetensors").write_bytes(b"")
    said = refused("predict", "--model", tmp_path / "RUN", picture)
    assert f"run {tmp_path / 'RUN'} has no models yet; run lapsvm train first, or" in said


@pytest.mark.parametrize(
    ("method", "version", "is_told"),
    [("selective_search", 1, True), ("mixed", WINDOWS_VERSION, False), ("grid", 1, False)],
)
def test_windows_of_another_version_are_told(models, picture, command, method, version, is_told):
    for path in models.iterdir():
        detector = Detector.load(path)
        windows = detector.provenance["shards"]["windows"] | {"method": method, "mode": "fast", "version": version}
        shards = {**detector.provenance["shards"], "windows": windows}
        replace(detector, provenance={**detector.provenance, "shards": shards}).save(path)
    result, _ = found(command, "--model", models, picture, "--quiet")
    assert (f"version 1 of {method}" in result.err) is is_told
    assert ("was trained on windows of version" in result.err) is is_told


# pictures


def test_a_folder_reports_what_it_left_out(models, picture, tmp_path, command):
    folder = tmp_path / "mixed"
    (folder / "inner").mkdir(parents=True)
    for name in ("a.jpg", "b.JPG", ".c.jpg"):
        shutil.copy(picture, folder / name)
    for name in ("a.txt", "b.txt", "moving.gif", "README"):
        (folder / name).write_text("")
    result, _ = found(command, "--model", models, folder)
    assert [entry["image"] for entry in json.loads(result.out)] == [str(folder / "a.jpg"), str(folder / "b.JPG")]
    line = f"folder {folder}: 2 pictures; left out: 5 others\n"
    assert line in result.err
    result, _ = found(command, "--model", models, folder, "--quiet")
    assert result.err == ""


def test_a_folder_of_pictures_alone_says_nothing(picture, tmp_path):
    shutil.copy(picture, tmp_path)
    said = []
    assert picture_files([tmp_path], said.append) == [PictureFile(tmp_path / picture.name, Path(picture.name))]
    assert said == []


def touch(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def test_pictures_lie_at_any_depth_and_keep_their_places(tmp_path):
    touch(tmp_path, "b/1.png", "a/deep/2.jpg", "a/1.png", "c.png", "a/notes.txt", "__MACOSX/c.png", ".cache/c.png")
    said = []
    found = picture_files([tmp_path, tmp_path / "c.png"], said.append)
    places = ["a/1.png", "a/deep/2.jpg", "b/1.png", "c.png", "c.png"]
    assert [one.place.as_posix() for one in found] == places
    assert [one.path for one in found] == [tmp_path / place for place in places]
    assert said == [f"folder {tmp_path}: 4 pictures; left out: 3 others"]


def test_folders_behind_links_are_searched_once_and_circles_end(tmp_path):
    touch(tmp_path, "line/a/1.png", "store/2.png")
    (tmp_path / "line/a/back").symlink_to(tmp_path / "line")
    (tmp_path / "line/linked").symlink_to(tmp_path / "store")
    (tmp_path / "line/again").symlink_to(tmp_path / "store")
    found = picture_files([tmp_path / "line"], print)
    assert [one.place.as_posix() for one in found] == ["a/1.png", "again/2.png"]


def test_the_folder_of_drawings_is_no_folder_of_pictures(models, picture, tmp_path, command):
    folder = tmp_path / "pictures"
    for place in ("one", "two/deep"):
        (folder / place).mkdir(parents=True)
        shutil.copy(picture, folder / place / "x.jpg")
    drawn = folder / "drawn"
    for _ in range(2):
        result, _ = found(command, "--model", models, folder, "--draw", drawn, "--heatmap")
        images = [entry["image"] for entry in json.loads(result.out)]
        assert images == [str(folder / "one/x.jpg"), str(folder / "two/deep/x.jpg")]
        files = sorted(file.relative_to(drawn).as_posix() for file in drawn.rglob("*.png"))
        assert files == ["one/x.heatmap.png", "one/x.png", "two/deep/x.heatmap.png", "two/deep/x.png"]


def test_a_folder_without_pictures_is_one_sentence(models, tmp_path, refused):
    touch(tmp_path, "empty/deep/notes.txt")
    said = refused("predict", "--extractor", "hog", "--model", models, tmp_path / "empty")
    assert f"folder {tmp_path / 'empty'} holds no picture (" in said
    assert said.endswith("nor do folders in it.\n")


def test_unreadable_pictures_are_named_and_left_out_on_demand(models, picture, tmp_path, command, refused):
    folder = tmp_path / "pictures"
    folder.mkdir()
    shutil.copy(picture, folder / "good.jpg")
    (folder / "bad.jpg").write_bytes(picture.read_bytes()[:200])
    said = refused("predict", "--extractor", "hog", "--model", models, folder, "--quiet")
    assert str(folder / "bad.jpg") in said
    assert said.endswith("; --skip-bad leaves such pictures out.\n")
    result, _ = found(command, "--model", models, folder, "--skip-bad")
    assert [entry["image"] for entry in json.loads(result.out)] == [str(folder / "good.jpg")]
    assert f"left out: picture {folder / 'bad.jpg'}" in result.err
    assert "left out 1 of 2 pictures, which cannot be read\n" in result.err
    result, _ = found(command, "--model", models, folder, "--skip-bad", "--quiet")
    assert "left out 1 of 2 pictures, which cannot be read\n" in result.err
    line = ["predict", "--extractor", "hog", "--model", models, folder, "--skip-bad", "--quiet", "--json"]
    told = json.loads(command(*line).out)["figures"]["left_out"]
    assert list(told) == [str(folder / "bad.jpg")]
    assert f"picture {folder / 'bad.jpg'} cannot be read whole" in told[str(folder / "bad.jpg")]


# probabilities


def test_detections_have_a_probability_where_the_model_has(models, picture, command):
    _, classes = found(command, "--model", models, picture)
    assert all("probability" not in detection for detection in classes["three"])
    for detection in classes["six"]:
        expected = 1 / (1 + np.exp(-SLOPE * detection["score"] - OFFSET))
        assert detection["probability"] == pytest.approx(expected)
        assert list(detection) == ["class", "score", "probability", "box"]


def test_a_threshold_leaves_out_less_probable_boxes(models, picture, command):
    _, everything = found(command, "--model", models / "six.safetensors", "--threshold", 0, picture)
    values = [detection["probability"] for detection in everything["six"]]
    assert len(set(values)) > 2
    for threshold in (0, values[1], 1):
        result, some = found(command, "--model", models / "six.safetensors", picture, "--threshold", threshold)
        expected = [detection for detection in everything["six"] if detection["probability"] >= threshold]
        assert some.get("six", []) == expected
        assert len(json.loads(result.out)) == 1


def test_a_threshold_needs_probabilities(models, picture, refused):
    said = refused("predict", "--extractor", "hog", "--model", models, picture, "--threshold", 0.5)
    path = models / "three.safetensors"
    assert (
        said
        == f"lapsvm: model {path} has no probabilities for a threshold; train it again, or leave the threshold out.\n"
    )


@pytest.mark.parametrize("value", ["-0.1", "1.1", "nan", "50%"])
def test_a_threshold_is_a_share(models, picture, refused, value):
    assert "--threshold" in refused("predict", "--model", models, picture, "--threshold", value)


# drawings and output


def test_what_is_drawn_is_said(models, picture, tmp_path, command):
    drawn = tmp_path / "drawn"
    result, classes = found(command, "--model", models / "six.safetensors", picture, "--draw", drawn)
    count = sum(detection["probability"] >= 0.5 for detection in classes["six"])
    shown = int(count > 0)
    line = f"drawn into {drawn}: {count} boxes in {shown} of 1 pictures, with a probability of at least 0.5\n"
    assert line in result.err
    result, _ = found(command, "--model", models / "three.safetensors", picture, "--draw", drawn)
    assert "with at least half the best score of the picture\n" in result.err
    result, _ = found(command, "--model", models, picture, "--draw", drawn)
    assert "with a probability of at least 0.5 or at least half the best score of the picture\n" in result.err


def test_without_a_box_above_the_threshold_the_drawing_is_the_picture(models, picture, tmp_path, command):
    line = ["--model", models / "six.safetensors", picture, "--draw", tmp_path / "drawn", "--threshold", 1]
    result, classes = found(command, *line)
    assert classes == {}
    assert "0 boxes in 0 of 1 pictures" in result.err
    drawing = np.array(Image.open(tmp_path / "drawn" / f"{picture.stem}.png"))
    np.testing.assert_array_equal(drawing, np.array(Image.open(picture).convert("RGB")))


def run_lapsvm(*arguments, stdout):
    """Start the command line in a process of its own."""
    words = [sys.executable, "-P", "-m", "lapsvm.pipelines", *map(str, arguments)]
    return subprocess.Popen(words, stdout=stdout, stderr=subprocess.PIPE, text=True)


def test_a_reader_that_ends_early_ends_prediction_quietly(models, picture):
    """As in `lapsvm predict ... | head`."""
    line = ["predict", "--model", models, "--extractor", "hog", picture, "--quiet"]
    with run_lapsvm(*line, stdout=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 120


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_behind_standard_output_is_one_sentence(models, picture):
    line = ["predict", "--model", models, "--extractor", "hog", picture, "--quiet"]
    with Path("/dev/full").open("w") as full, run_lapsvm(*line, stdout=full) as process:
        said = process.stderr.read()
    assert said == "lapsvm: standard output cannot be written: No space left on device.\n"
    assert process.returncode == 2


# what is imported

UNUSED = ("dask", "jinja2", "lapsvm.bags", "lapsvm.evaluation", "lapsvm.objectness", "lapsvm.report", "onnx", "rich",
          "scipy", "sklearn", "torch")  # fmt: skip
PRINT_IMPORTED = """
import json, sys
from lapsvm.pipelines.commands.verbs import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    assert end.code == 0, end.code
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def imported(*arguments):
    """Return the modules that a new interpreter has imported by the end of a command."""
    line = [sys.executable, "-P", "-c", PRINT_IMPORTED, *map(str, arguments)]
    done = subprocess.run(line, check=True, capture_output=True, text=True)
    return json.loads(done.stderr.splitlines()[-1])


def test_a_prediction_imports_what_it_needs_alone(finished, picture):
    modules = imported("predict", "--model", finished, picture)
    assert {"numpy", "lapsvm.detection.predictor"} <= set(modules)
    assert [name for name in UNUSED if name in modules] == []


# drawings that cannot be written


@pytest.fixture
def pictures(picture, tmp_path):
    """Five pictures, one with the longest name that a file may have, and two that differ in case alone."""
    folder = tmp_path / "new"
    folder.mkdir()
    for name in ("a", "A", "con", "n" * 251, "z"):
        shutil.copy(picture, folder / f"{name}.jpg")
    return folder


def test_drawings_have_names_that_every_system_takes(models, pictures, tmp_path, command):
    result = command("predict", "--extractor", "hog", "--model", models, pictures, "--draw", tmp_path / "drawn")
    assert result.status == 0, result.err
    assert len(json.loads(result.out)) == 5
    names = sorted(path.name for path in (tmp_path / "drawn").iterdir())
    assert names == ["A.png", "_con.png", "a-2.png", "n" * 251 + ".png", "z.png"]


@pytest.mark.parametrize(("fault", "as_json"), [("full", False), ("folder", True)])
def test_what_was_found_is_printed_although_drawings_fail(
    models, pictures, tmp_path, command, monkeypatch, fault, as_json
):
    drawn = tmp_path / "drawn"
    if fault == "folder":  # a file where a folder is needed, so that none can be made
        (tmp_path / "taken").touch()
        drawn = tmp_path / "taken" / "drawn"
    else:
        write = boxes.write_atomically

        def failing(path, *content):
            if path.name == "z.png":
                raise WriteError(f"file {path} could not be written: No space left on device.")
            write(path, *content)

        monkeypatch.setattr(boxes, "write_atomically", failing)
    line = ["predict", "--extractor", "hog", "--model", models, pictures, "--draw", drawn, *["--json"] * as_json]
    result = command(*line)
    assert result.status == 2
    found = json.loads(result.out)
    assert len(found["figures"]["pictures"] if as_json else found) == 5
    count, reason = ("1", "No space left on device") if fault == "full" else ("5", "Not a directory")
    last = result.err.splitlines()[-1]
    assert f"lapsvm: {count} of 5 pictures could not be drawn, the first because" in last
    assert last.endswith(f"{reason}.")
