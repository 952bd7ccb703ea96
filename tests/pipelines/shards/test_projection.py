"""Runs with projected features, limited windows, demotion and voting."""

import json
import re
import signal

import numpy as np
import pytest
from lapsvm.pipelines.products import projection
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.shards import forecast

from lapsvm.features import load_projection, open_shards
from lapsvm.features.projection import Moments

from ..calls import done

OPTIONS = ["--pca", "40", "--set=windows.max_area=0.8", "--set=detect.demotion=1", "--set=detect.box_voting=0.5"]


@pytest.fixture(scope="module")
def projected(digits, fast, tmp_path_factory):
    out = tmp_path_factory.mktemp("projected") / "RUN"
    done("run", "--data", "voc", "--root", digits, "--out", out, "--quiet", *fast, *OPTIONS)
    return out


def test_shards_hold_the_components_of_windows_below_the_limit(projected):
    for shard in open_shards(projected / "shards" / "trainval"):
        assert shard.features.shape[1] == 40
        for index, (height, width) in enumerate(shard.sizes):
            boxes = shard.boxes[shard.offsets[index] : shard.offsets[index + 1]].astype(float)
            areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
            assert (areas <= 0.8 * height * width).all()


def test_an_interrupted_fit_goes_on_where_it_was(
    projected, digits, fast_extraction, command, made, tmp_path, monkeypatch
):
    monkeypatch.setattr(forecast, "FEW", 1000)  # no picture is seen before
    seen, prepare = [], projection.prepare_record

    def interrupt(record, *rest):
        seen.append(record.id)
        if len(seen) == 35:
            signal.raise_signal(signal.SIGINT)
        return prepare(record, *rest)

    pca, max_area = OPTIONS[:2], OPTIONS[2:3]
    line = ["extract", "--data", "voc", "--root", digits, *fast_extraction, *pca, *max_area, "--jobs", "1"]
    run = tmp_path / "RUN"
    with monkeypatch.context() as patch:
        patch.setattr(projection, "prepare_record", interrupt)
        assert command(*line, "--out", run).status == 130
    assert [path.name for path in run.iterdir() if path.name[0] != "."] == ["projection-sums.safetensors"]
    del seen[:]
    monkeypatch.setattr(
        projection, "prepare_record", lambda record, *rest: seen.append(record.id) or prepare(record, *rest)
    )
    again = command(*line, "--out", run)
    assert again.status == 0
    assert "projection: goes on after 18 pictures" in again.err  # 18 x 60 windows are one batch
    assert len(seen) == 40 - 18
    patterns = ("projection.safetensors", "shards/*/*")
    assert made(run, *patterns) == made(projected, *patterns)
    assert not (run / "projection-sums.safetensors").exists()


@pytest.mark.parametrize(
    "damage", [lambda content: content[:-9], lambda content: content.replace(b'"seed": 0', b'"seed": 7')]
)
def test_sums_that_are_damaged_are_not_used(digits, fast_extraction, command, made, tmp_path, projected, damage):
    run = tmp_path / "RUN"
    RunFolder(run).files.claim([RunFolder(run).projection_sums])
    Moments.empty([2]).save(run / "projection-sums.safetensors", {"seed": 0})
    path = run / "projection-sums.safetensors"
    path.write_bytes(damage(path.read_bytes()))
    line = ["extract", "--data", "voc", "--root", digits, *fast_extraction, *OPTIONS[:3], "--out", run]
    assert command(*line).status == 0
    assert made(run, "projection.safetensors") == made(projected, "projection.safetensors")


def seconds(text):
    """Return the seconds of "12.3 s" or "1 min 02 s"."""
    minutes, rest = re.fullmatch(r"(?:(\d+) min )?([\d.]+) s", text).groups()
    return 60 * int(minutes or 0) + float(rest)


def test_times_of_all_stages_add_up(digits, fast, command, tmp_path):
    line = ["run", "--data", "voc", "--root", digits, "--out", tmp_path / "RUN", *fast, *OPTIONS[:3]]
    said = " ".join(command(*line).err.split())
    total, parts = re.search(r"time: ([\d. mins]+) in all: (.*)", said).groups()
    rows = {name: seconds(text) for name, text in re.findall(r"([a-z ]+?) (\d[\d. min]* s)", parts)}
    stages = ["projection", "extract trainval", "extract test", "train", "detect trainval", "detect test", "evaluate"]
    assert [name.strip() for name in rows] == [*stages, "report", "other"]
    assert sum(rows.values()) == pytest.approx(seconds(total), abs=3)  # of durations with whole seconds
    stored = json.loads((tmp_path / "RUN" / "timings.json").read_text())
    assert sum(entry["seconds"] for entry in stored.values()) == pytest.approx(seconds(total), abs=1)
    page = (tmp_path / "RUN" / "page" / "index.html").read_text()
    assert all(f'<th scope="row" class="name">{name}</th>' in page for name in [*stages, "other"])
    again = command(*line)
    assert "in all" not in again.err
    assert json.loads((tmp_path / "RUN" / "timings.json").read_text())["other"] == stored["other"]


def test_another_number_of_components_is_refused(projected, command):
    said = command("extract", "--out", projected, "--pca", "20")
    assert said.status == 2
    assert "was made with pca 40.0 instead of 20.0" in said.err


def test_prediction_needs_the_models_alone(projected, digits, command, tmp_path):
    """The projection is part of the weights: what detect found from shards, predict finds from pixels."""
    picture = sorted((digits / "JPEGImages").glob("*.jpg"))[-1]
    moved = tmp_path / "models"
    moved.mkdir()
    for path in (projected / "models").glob("*.safetensors"):
        (moved / path.name).write_bytes(path.read_bytes())
    options = ["--set=detect.demotion=1", "--set=detect.box_voting=0.5", "--max-detections", "100"]
    said = command("predict", "--model", moved, picture, "--extractor", "hog", "--threshold", "0", *options)
    found = {}
    for one in json.loads(said.out)[0]["detections"]:
        found.setdefault(one["class"], []).append([one["score"], *one["box"]])
    assert set(found) == {"six", "three"}
    for name, rows in found.items():
        stored = np.array(detections_of(projected, name, picture.stem))
        assert len(stored) > 3
        np.testing.assert_allclose(np.array(rows)[:3, 0], stored[:3, 0], atol=0.02)
        np.testing.assert_allclose(rows[0][1:], stored[0, 1:] - [1, 1, 0, 0], atol=0.5)


def detections_of(run, name, picture=None):
    """Return the lines of a picture, or of all, each score, xmin, ymin, xmax, ymax."""
    lines = (run / "detections" / "test" / f"comp3_det_test_{name}.txt").read_text().splitlines()
    return [[float(number) for number in line.split()[1:]] for line in lines if picture in (None, line.split()[0])]


def test_voted_boxes_lie_on_sixteenths_of_a_pixel_between_the_windows(projected):
    numbers = np.array([line[1:] for line in detections_of(projected, "three")])
    np.testing.assert_array_equal(numbers * 16, np.round(numbers * 16))
    assert (numbers != np.round(numbers)).any()


def test_prediction_in_a_run_folder_detects_as_the_run_did(projected, digits, command):
    picture = sorted((digits / "JPEGImages").glob("*.jpg"))[-1]
    said = [
        command("predict", "--model", projected / "models" / "six.safetensors", picture, "--threshold", "0", *options)
        for options in (
            [],
            ["--set=detect.demotion=1", "--set=detect.box_voting=0.5"],
            ["--set=detect.box_voting=0"],
            ["--nms", "0.9"],
        )
    ]
    found = [json.loads(one.out)[0]["detections"] for one in said]
    assert found[0] == found[1]
    assert [one["score"] for one in found[2]] == [one["score"] for one in found[0]]
    assert found[2] != found[0]
    assert found[3] != found[0]


def test_shards_from_brings_the_projection_along(projected, digits, fast_extraction, command, tmp_path):
    options = [*fast_extraction, *OPTIONS[:3], "--shards-from", projected, "--quiet"]
    said = command("extract", "--data", "voc", "--root", digits, "--out", tmp_path / "RUN", *options)
    assert said.status == 0
    one, other = (load_projection(run / "projection.safetensors") for run in (projected, tmp_path / "RUN"))
    assert one.fingerprint == other.fingerprint


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (["--set", "detect.box_voting=-1"], "setting detect.box_voting must be a finite number of at least 0, got -1."),
        (
            ["--set", "detect.box_voting=nan"],
            "setting detect.box_voting must be a finite number of at least 0, got nan.",
        ),
        (["--set", "detect.box_voting_iou=0"], "setting detect.box_voting_iou must be above 0 and at most 1, got 0."),
        (["--nms", "1.5"], "option --nms must be from 0 to 1, got 1.5."),
    ],
)
def test_settings_of_detection_outside_their_range_are_refused(projected, command, options, rule):
    said = command("detect", "--out", projected, *options)
    assert (said.status, said.err) == (2, f"lapsvm: {rule}\n")
