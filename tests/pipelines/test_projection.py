"""Runs with projected features, limited windows and demotion."""

import json

import pytest

from lapsvm.features import load_projection, open_shards

OPTIONS = ["--pca", "40", "--max-area", "0.8", "--demotion", "1"]


@pytest.fixture(scope="module")
def projected(digits, fast, tmp_path_factory):
    from lapsvm.pipelines.cli import main

    out = tmp_path_factory.mktemp("projected") / "RUN"
    with pytest.raises(SystemExit) as exit_:
        main(["run", "--data", "voc", "--root", str(digits), "--out", str(out), "--quiet", *fast, *OPTIONS])
    assert exit_.value.code == 0
    return out


def test_shards_hold_the_components_of_windows_below_the_limit(projected):
    for shard in open_shards(projected / "shards" / "trainval"):
        assert shard.features.shape[1] == 40
        for index, (height, width) in enumerate(shard.sizes):
            boxes = shard.boxes[shard.offsets[index] : shard.offsets[index + 1]].astype(float)
            areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
            assert (areas <= 0.8 * height * width).all()


def test_a_rerun_has_nothing_to_do(projected, digits, fast, command, made):
    before = made(projected)
    again = command("run", "--data", "voc", "--root", digits, "--out", projected, "--quiet", *fast, *OPTIONS)
    assert (again.status, made(projected)) == (0, before)


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
    said = command(
        "predict", "--model", moved, picture, "--extractor", "hog", "--demotion", "1", "--max-detections", "100"
    )
    found = {}
    for one in json.loads(said.out)[0]["detections"]:
        found.setdefault(one["class"], []).append(one["score"])
    assert set(found) == {"six", "three"}
    for name, scores in found.items():
        lines = (projected / "detections" / "test" / f"comp3_det_test_{name}.txt").read_text().splitlines()
        stored = [float(line.split()[1]) for line in lines if line.split()[0] == picture.stem]
        assert len(stored) > 3
        assert scores[:3] == pytest.approx(stored[:3], abs=0.02)


def test_shards_from_brings_the_projection_along(projected, digits, fast, command, tmp_path):
    options = [*fast, *OPTIONS, "--shards-from", projected, "--quiet"]
    said = command("run", "--data", "voc", "--root", digits, "--out", tmp_path / "RUN", *options)
    assert said.status == 0
    one, other = (load_projection(run / "projection.safetensors") for run in (projected, tmp_path / "RUN"))
    assert one.fingerprint == other.fingerprint
