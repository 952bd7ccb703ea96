"""`lapsvm export`: a finished run's detections leave the program."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from lapsvm.catalog import open_dataset, read_image
from lapsvm.detection import Detector
from lapsvm.evaluation import read_results

FORMATS = ["coco", "yolo", "voc", "label-studio", "cvat"]


@pytest.mark.parametrize("format_name", FORMATS)
def test_every_format_is_written_from_a_run(command, finished, tmp_path, format_name):
    result = command("export", "--out", finished, "--to", tmp_path / "out", "--format", format_name)
    assert result.status == 0, result.err
    assert list((tmp_path / "out").iterdir())
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def exported(command, run, folder, *options):
    """Return picture name -> [(class, score, box)] of an export as COCO results."""
    result = command("export", "--out", run, "--to", folder, "--format", "coco", "--quiet", *options)
    assert (result.status, result.err) == (0, "")
    truth = json.loads((folder / "annotations.json").read_text(encoding="utf-8"))
    files = {one["id"]: one["file_name"] for one in truth["images"]}
    names = {one["id"]: one["name"] for one in truth["categories"]}
    found = {name: [] for name in files.values()}
    for one in json.loads((folder / "results.json").read_text(encoding="utf-8")):
        x, y, w, h = one["bbox"]
        found[files[one["image_id"]]].append((names[one["category_id"]], one["score"], [x, y, x + w, y + h]))
    return found


@pytest.mark.parametrize("set_name", ["test", "trainval"])
def test_by_default_each_label_of_a_picture_gets_its_best_box(command, finished, digits, tmp_path, set_name):
    found = exported(command, finished, tmp_path / "out", "--set", set_name)
    results = read_results(finished / "detections" / set_name, set_name)
    records = open_dataset("voc", digits, classes=("six", "three")).records(set_name)
    assert len(found) == len(records)
    for record in records:
        rows = {label: (score, box) for label, score, box in found[f"JPEGImages/{record.path.name}"]}
        assert set(rows) == {name for name, flag in record.labels.items() if flag == 1}
        for name, (score, box) in rows.items():
            own = [row for row, image in enumerate(results[name].image_ids) if image == record.id]
            assert score == results[name].scores[own].max()
            assert box == results[name].boxes[own[0]].tolist()


def test_per_class_takes_unlabelled_classes_unless_told_otherwise(command, finished, tmp_path):
    every = exported(command, finished, tmp_path / "a", "--per-class", "2")
    labelled = exported(command, finished, tmp_path / "b", "--per-class", "2", "--labelled-only")
    assert all({label for label, _, _ in rows} == {"six", "three"} for rows in every.values())
    assert 0 < sum(map(len, labelled.values())) < sum(map(len, every.values()))
    assert all(set(map(str, labelled[name])) <= set(map(str, every[name])) for name in every)


def without_calibration(run):
    for path in (run / "models").glob("*.safetensors"):
        replace(Detector.load(path), calibration=None).save(path)


def of_another_model(run):
    path = run / "models" / "six.safetensors"
    detector = Detector.load(path)
    replace(detector, coef=2 * detector.coef).save(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (without_calibration, "this run's models have no probabilities for --threshold; use --per-class"),
        (of_another_model, "run lapsvm detect first."),
    ],
)
def test_without_probabilities_a_threshold_is_refused(refused, run_copy, tmp_path, change, words):
    change(run_copy)
    assert words in refused(
        "export", "--out", run_copy, "--to", tmp_path / "o", "--format", "coco", "--threshold", "0.5"
    )
    assert not (tmp_path / "o").exists()


def test_a_threshold_takes_the_boxes_of_at_least_that_probability(command, finished, tmp_path):
    every = exported(command, finished, tmp_path / "all", "--per-class", "1000")
    models = {name: Detector.load(finished / "models" / f"{name}.safetensors") for name in ("six", "three")}
    values = [models[name].probability([score])[0] for rows in every.values() for name, score, _ in rows]
    threshold = float(np.median(values))
    found = exported(command, finished, tmp_path / "some", "--threshold", str(threshold))
    for picture, rows in every.items():
        assert found[picture] == [row for row in rows if models[row[0]].probability([row[1]])[0] >= threshold]
    written = json.loads((tmp_path / "all" / "results.json").read_text(encoding="utf-8"))
    assert [one["probability"] for one in written] == values


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--format", "pascal"], "--format must be one of coco, yolo, voc, label-studio, cvat, onnx, got"),
        (["--format", "coco", "--copy"], "--copy goes with"),
        (["--format", "coco", "--set", "val"], "--set must be a set of the run (trainval, test), got 'val'"),
        (["--format", "coco", "--per-class", "0"], "whole number of 1 or more"),
        (["--format", "coco", "--per-class", "2", "--threshold", ".5"], "exclude each other"),
        (["--format", "coco", "--threshold", "2"], "between 0 and 1"),
    ],
)
def test_wrong_options_are_one_sentence(refused, finished, tmp_path, options, words):
    assert words in refused("export", "--out", finished, "--to", tmp_path / "out", *options)
    assert list(tmp_path.iterdir()) == []


def test_a_full_folder_no_run_and_no_detections_are_one_sentence(refused, finished, run_copy, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    common = ("--format", "coco", "--to")
    assert "must be empty or not exist" in refused("export", "--out", finished, *common, tmp_path / "full")
    assert "holds no run.toml; lapsvm run makes one" in refused("export", "--out", tmp_path, *common, tmp_path / "o")
    shutil.rmtree(run_copy / "detections")
    assert "run lapsvm detect first" in refused("export", "--out", run_copy, *common, tmp_path / "o")
    assert not (tmp_path / "o").exists()


def test_no_box_to_export_is_one_sentence(refused, run_copy, tmp_path, stamp_anew):
    for path in (run_copy / "detections/test").glob("*.txt"):
        path.write_text("".join(f"{line.split()[0]} 1 900 900 950 950\n" for line in path.read_text().splitlines()[:3]))
    stamp_anew(run_copy / "detections" / "test")
    line = refused("export", "--out", run_copy, "--to", tmp_path / "o", "--format", "yolo", "--per-class", "1")
    assert "there must be a box to export, but none of set 'test' has an area inside its picture" in line


def test_a_picture_that_has_gone_is_named(refused, digits, run_copy, tmp_path):
    moved = tmp_path / "moved"
    shutil.copytree(digits, moved)
    settings = run_copy / "run.toml"
    settings.write_text(settings.read_text().replace(str(digits), str(moved)))
    missing = (moved / "ImageSets/Main/test.txt").read_text().split()[3]
    (moved / "JPEGImages" / f"{missing}.jpg").unlink()
    line = refused("export", "--out", run_copy, "--to", tmp_path / "o", "--format", "yolo")
    assert f"{missing}.jpg is not there" in line
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("suffix", ["tif", "jpg", "png"])
def test_boxes_of_turned_pictures_are_those_of_their_pixels(command, tmp_path, suffix):
    rng, turned = np.random.default_rng(0), Image.Exif()
    turned[0x0112] = 6
    for number, name in enumerate(["disc", "background"] * 4):
        (tmp_path / "data" / name).mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 256, (64, 48, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "data" / name / f"{number}.{suffix}", exif=turned)
    quick = ["--extractor", "hog", "--windows", "grid", "--max-windows", "9", "--recipe", "plain", "--C", "1"]
    line = ["run", "--data", "folder", "--root", tmp_path / "data", "--out", tmp_path / "RUN", "--folds", "2", *quick]
    assert command(*line).status == 0
    assert all(read_image(path).shape == (48, 64, 3) for path in (tmp_path / "data").glob("*/*"))
    for format_name in ("coco", "voc"):
        options = ["--to", tmp_path / format_name, "--format", format_name, "--per-class", "9"]
        done = command("export", "--out", tmp_path / "RUN", *options)
        assert "8 pictures are rotated by their EXIF data" in " ".join(done.err.split())
    truth = json.loads((tmp_path / "coco" / "annotations.json").read_text())
    assert {(one["width"], one["height"]) for one in truth["images"]} == {(64, 48)}
    results = read_results(tmp_path / "RUN" / "detections" / "trainval", "trainval")["disc"]
    right = max(one["bbox"][0] + one["bbox"][2] for one in truth["annotations"])
    assert right == results.boxes[:, 2].max() > 48
    for path in (tmp_path / "voc" / "Annotations").iterdir():
        assert "<width>64</width>\n\t\t<height>48</height>" in path.read_text()
