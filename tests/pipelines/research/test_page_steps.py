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
    Shown, columns = page_steps.Shown, slice(1, None)
    shown = [Shown("s", "a", 0.49, ("Few", "Weak")), Shown("s", "b", 0.5, ("Few",)), Shown("s", "c", 0.8, ())]
    rows = [line.strip("| ").split("|") for line in page_steps.table(shown).splitlines()]
    cells = {row[0].strip(): [cell.strip() for cell in row[columns]] for row in rows}
    assert cells["step"] == ["below .5 (1)", "from .5 to .8 (1)", ".8 and above (1)"]
    assert [cells[name] for name in ("Few", "Weak", "none")] == [["1", "1", "0"], ["1", "0", "0"], ["0", "0", "1"]]


def test_steps_of_a_finished_run_are_those_of_its_page(page_steps, finished, tmp_path):
    out = tmp_path / "OUT"
    (out / "runs" / "digits").mkdir(parents=True)
    (out / "runs" / "digits" / "best").symlink_to(finished)
    line = {"set": "digits", "variant": "best", "on": "trainval", "classes": {"six": {"corloc": 0.7}}}
    (out / "results.jsonl").write_text(json.dumps(line))
    (shown,) = page_steps.shown_steps(out)
    assert shown[:3] == ("digits", "six", 0.7)
    assert "Too few pictures" in shown.steps  # forty in all
