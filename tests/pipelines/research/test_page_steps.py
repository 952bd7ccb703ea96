"""The benchmark that counts next steps by how many boxes are right."""

import json
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "learning" / "page_steps.py"


@pytest.fixture(scope="module")
def page_steps():
    return SimpleNamespace(**runpy.run_path(str(SCRIPT)))


def test_steps_of_a_page_are_counted_by_how_many_boxes_are_right(page_steps):
    Shown = page_steps.Shown
    shown = [Shown("s", "a", 0.49, ("Few", "Weak")), Shown("s", "b", 0.5, ("Few",)), Shown("s", "c", 0.8, ())]
    assert list(page_steps.rows(shown)) == [
        ["classes", 1, 1, 1], ["Few", 1, 1, 0], ["Weak", 1, 0, 0], ["none", 0, 0, 1],
    ]  # fmt: skip


def test_steps_of_a_finished_run_are_those_of_its_page(page_steps, finished, tmp_path):
    out = tmp_path / "OUT"
    (out / "runs" / "digits").mkdir(parents=True)
    (out / "runs" / "digits" / "best").symlink_to(finished)
    line = {"set": "digits", "variant": "best", "on": "trainval", "classes": {"six": {"corloc": 0.7}}}
    (out / "results.jsonl").write_text(json.dumps(line))
    (shown,) = page_steps.shown_steps(out)
    assert shown[:3] == ("digits", "six", 0.7)
    assert "Too few pictures" in shown.steps  # forty in all
