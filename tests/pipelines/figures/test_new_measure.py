"""A new measure is one row and one function: nothing else knows of it, and it stands wherever figures stand."""

import json
import re
import shutil

import numpy as np
import pytest

from lapsvm.evaluation.measures import MEASURES, ranked

KEY, TITLE, SENTENCE = "precision_at_5", "precision at 5", "share of the five first pictures that show the class"


def precision_at_5(scores, labels):
    """Return the share of positives among the five ranked pictures of the highest scores."""
    signs = np.asarray(labels)
    kept = np.flatnonzero(signs)
    return float((signs[kept[np.argsort(-np.asarray(scores)[kept], kind="stable")][:5]] > 0).mean())


@pytest.fixture
def row(monkeypatch):
    monkeypatch.setitem(MEASURES, KEY, ranked(KEY, TITLE, SENTENCE, precision_at_5))


@pytest.mark.usefixtures("row")
def test_a_row_and_a_function_are_all_that_a_new_measure_needs(run_copy, tmp_path, command):
    said = command("evaluate", "--out", run_copy)
    assert said.status == 0, said.err
    assert said.out.count(f" {TITLE} ") >= 3  # test set, held out, in-sample
    entry = json.loads((run_copy / "evaluation.json").read_text())["sets"]["test"]
    value, limits = entry["classes"]["six"][KEY], entry["intervals"]["classes"]["six"][KEY]
    assert 0 <= limits["low"] <= value <= limits["high"] <= 1
    assert KEY in entry["mean"]
    assert re.search(rf"of the means over pictures: .*{TITLE} \[", said.out)
    answer = json.loads(command("evaluate", "--out", run_copy, "--json").out)
    assert answer["figures"]["sets"]["test"]["classes"]["six"][KEY] == value

    assert command("report", "--out", run_copy, "--card").status == 0
    page, card = (run_copy / "page/index.html").read_text(), (run_copy / "card.md").read_text()
    assert f"{TITLE.capitalize()}: {SENTENCE}." in page
    assert f">{TITLE.capitalize()}</th>" in page
    assert f"| {TITLE} " in card or f" {TITLE} |" in card
    assert f"{value:.3f} [{limits['low']:.3f}, {limits['high']:.3f}]" in card

    other = shutil.copytree(run_copy, tmp_path / "OTHER")
    compared = command("compare", run_copy, other, "--out", tmp_path / "COMPARED")
    assert compared.status == 0, compared.err
    measures = json.loads((tmp_path / "COMPARED/comparison.json").read_text())["measures"]
    assert measures[KEY]["classes"]["six"]["values"] == [value, value]
    assert TITLE in compared.out
    assert f"## {TITLE}" in (tmp_path / "COMPARED/comparison.md").read_text()
