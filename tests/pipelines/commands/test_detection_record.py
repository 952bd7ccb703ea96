"""A model's file says how it detects: copied out of its run, it detects as it did there."""

import json
import shutil
from dataclasses import asdict, replace

import pytest
from lapsvm.pipelines.settings.settings import DetectSettings

from lapsvm.detection import Detector

CHANGED = ["--set=detect.box_voting=8", "--set=detect.demotion=0.5", "--set=detect.score_smoothing=0.7", "--nms", "0.4"]
UNDONE = ["--set=detect.box_voting=0", "--set=detect.demotion=0", "--set=detect.score_smoothing=0", "--nms", "0.3"]


def found(command, model, picture, *more):
    """Return the detections that predict writes."""
    result = command("predict", "--model", model, "--extractor", "hog", picture, *more)
    assert result.status == 0, result.err
    return json.loads(result.out)[0]["detections"], result.err


@pytest.fixture
def picture(digits):
    return sorted((digits / "JPEGImages").iterdir())[-1]


def test_a_trained_model_records_the_settings_of_detection(finished):
    provenance = Detector.load(finished / "models" / "six.safetensors").provenance
    assert provenance["detection"] == asdict(DetectSettings())


def test_a_model_detects_outside_of_its_run_as_inside(run_copy, tmp_path, picture, command):
    plain, _ = found(command, run_copy / "models" / "six.safetensors", picture)
    assert command("detect", "--out", run_copy, "--quiet", *CHANGED).status == 0
    inside, _ = found(command, run_copy / "models" / "six.safetensors", picture)
    copied = shutil.copy(run_copy / "models" / "six.safetensors", tmp_path / "copied.safetensors")
    assert found(command, copied, picture) == (inside, "")
    assert inside != plain
    assert found(command, copied, picture, *UNDONE)[0] == plain


def test_a_model_copied_into_another_run_keeps_its_detection(run_copy, finished, tmp_path, picture, command):
    other = shutil.copytree(finished, tmp_path / "OTHER")
    assert command("detect", "--out", run_copy, "--quiet", *CHANGED).status == 0
    inside, _ = found(command, run_copy / "models" / "six.safetensors", picture)
    shutil.copy(run_copy / "models" / "six.safetensors", other / "models" / "six.safetensors")
    assert found(command, other / "models" / "six.safetensors", picture)[0] == inside


def test_detection_settings_given_later_or_first_end_in_the_same_bytes(run_copy, digits, tmp_path, command, fast, made):
    line = ["run", "--data", "voc", "--root", digits, "--out", tmp_path / "FIRST", "--quiet", *fast, *CHANGED]
    assert command(*line).status == 0
    coefficients = Detector.load(run_copy / "models" / "six.safetensors").coef
    assert command("detect", "--out", run_copy, "--quiet", *CHANGED).status == 0
    assert command("evaluate", "--out", run_copy, "--quiet").status == 0
    assert made(run_copy) == made(tmp_path / "FIRST")
    assert (Detector.load(run_copy / "models" / "six.safetensors").coef == coefficients).all()
    assert command("run", "--data", "voc", "--root", digits, "--out", run_copy, "--quiet", *fast).status == 0


@pytest.mark.parametrize(
    "record", [{"box_voting": -1.0}, {"nosuch": 1}, {"box_voting": "x"}, [1], {"max_detections": 0}, None]
)
def test_a_record_that_breaks_a_rule_is_refused(finished, tmp_path, picture, refused, record):
    detector = Detector.load(finished / "models" / "six.safetensors")
    path = tmp_path / "six.safetensors"
    replace(detector, provenance={**detector.provenance, "detection": record}).save(path)
    assert f"model {path} must record valid detection settings" in refused(
        "predict", "--model", path, "--extractor", "hog", picture
    )


def test_settings_of_detection_leave_the_probability_of_the_best_box(run_copy, picture, command):
    def best(*more):
        by_class = {one["class"]: one for one in reversed(found(command, run_copy, picture, *more)[0])}
        return {name: (one["score"], one["probability"]) for name, one in by_class.items()}

    before = best()
    assert sorted(before) == ["six", "three"]
    assert best(*CHANGED) == before
    assert command("detect", "--out", run_copy, "--quiet", *CHANGED).status == 0
    assert best() == before
