"""The main job on real photographs, with a real network."""

import json

import pytest

from lapsvm.catalog import open_dataset

PER_SET = 24


@pytest.fixture(scope="module")
def some_cats(real_data, tmp_path_factory):
    """A few real pictures in the VOC layout, half of them with cats."""
    source, root = real_data / "voc2007_vehicles_cat", tmp_path_factory.mktemp("voc")
    lists = root / "ImageSets" / "Main"
    lists.mkdir(parents=True)
    (root / "JPEGImages").symlink_to(source / "JPEGImages")
    (root / "Annotations").symlink_to(source / "Annotations")
    dataset = open_dataset("voc", source, classes=("cat",))
    for set_name in ("trainval", "test"):
        records = dataset.records(set_name)
        chosen = [r for r in records if r.labels["cat"] > 0][: PER_SET // 2]
        chosen += [r for r in records if r.labels["cat"] < 0][: PER_SET // 2]
        lines = [f"{record.id} {record.labels['cat']}\n" for record in chosen]
        (lists / f"cat_{set_name}.txt").write_text("".join(lines))
        (lists / f"{set_name}.txt").write_text("".join(f"{record.id}\n" for record in chosen))
    return root


@pytest.mark.slow
def test_cats_are_told_from_vehicles_without_any_box(some_cats, real_data, tmp_path, command):
    pytest.importorskip("onnxruntime", reason="networks need the extra lapsvm[onnx]")
    network = real_data / "weights" / "mobilenet_v2_1.0_tf2_dequantised_fp32.onnx"
    out = tmp_path / "RUN"
    extractor = f"onnx:{network}?size=320"
    arguments = ["--data", "voc", "--root", some_cats, "--extractor", extractor, "--recipe", "plain"]
    arguments += ["--max-windows", 200, "--C", 10]
    result = command("run", *arguments, "--out", out)
    assert result.status == 0, result.err
    sets = json.loads((out / "evaluation.json").read_text())["sets"]
    assert sets["test"]["classes"]["cat"]["image_ap"] > 0.8  # half of the pictures are cats: chance is 0.5
    assert sets["test"]["classes"]["cat"]["npos"] > 10
    assert sets["trainval"]["classes"]["cat"]["corloc"] is not None

    picture = sorted((some_cats / "JPEGImages").iterdir())[0]
    found = json.loads(command("predict", "--model", out / "models" / "cat.safetensors", picture).out)
    assert found[0]["detections"]
    (out / "run.toml").unlink()
    refusal = command("predict", "--model", out / "models" / "cat.safetensors", picture)
    assert (refusal.status, "--extractor" in refusal.err) == (2, True)
    named = command("predict", "--model", out / "models" / "cat.safetensors", "--extractor", extractor, picture)
    assert json.loads(named.out) == found
