"""Comparing runs whose data have good pictures."""

import json

import pytest

OPTIONS = ["--extractor", "hog", "--windows", "grid", "--max-windows", "200", "--C", "0.1", "--folds", "3"]


def test_image_auroc_is_compared_for_the_classes_of_both(inspected, product, command, tmp_path):
    line = ("run", "--data", "mvtec", "--root", product, "--out", tmp_path / "BAR", "--classes", "bar", *OPTIONS)
    assert command(*line, "--shards-from", inspected).status == 0
    result = command("compare", "--out", tmp_path / "TABLE", inspected, tmp_path / "BAR", "--draws", 200)
    assert result.status == 0, result.err
    table = json.loads((tmp_path / "TABLE/comparison.json").read_text())
    found = table["measures"]["image_auroc"]["classes"]
    runs = [json.loads((run / "evaluation.json").read_text())["sets"]["test"] for run in (inspected, tmp_path / "BAR")]
    assert [*found] == ["bar"]
    assert found["bar"]["values"] == pytest.approx([run["classes"]["bar"]["image_auroc"] for run in runs])
    (difference,) = found["bar"]["differences"]
    assert difference["low"] <= difference["difference"] <= difference["high"]
    assert "image AUROC" in (tmp_path / "TABLE/comparison.md").read_text()
