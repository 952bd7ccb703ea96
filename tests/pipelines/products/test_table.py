"""The table of products names every file of a run; the page on the run folder has its rows."""

import runpy
from pathlib import Path

import pytest
from lapsvm.pipelines.products.table import KINDS, advice_for, kind_of, stored_files
from lapsvm.pipelines.run.folder import RunFolder

ROOT = Path(__file__).parents[3]


def test_the_page_on_the_run_folder_has_the_rows_of_the_table():
    script = runpy.run_path(str(ROOT / "docs" / "run_folder_table.py"))
    text = script["PAGE"].read_text(encoding="utf-8")
    assert script["page"](text) == text
    assert all(f"| `{kind.pattern}` |" in text for kind in KINDS)


def test_every_file_of_a_finished_run_is_of_one_kind(finished):
    run = RunFolder(finished)
    names = [path.relative_to(finished).as_posix() for path in finished.rglob("*") if path.is_file()]
    matching = {name: [kind for kind in KINDS if run.path / name in kind.files(run)] for name in names}
    assert {name: len(kinds) for name, kinds in matching.items() if name != ".lock"} == dict.fromkeys(
        {*names} - {".lock"}, 1
    )
    assert all(kind_of(run, run.path / name) is kinds[0] for name, kinds in matching.items() if kinds)


def test_every_file_with_a_checksum_is_read_and_every_damage_is_found(finished):
    run = RunFolder(finished)
    signed = dict(stored_files(run, is_signed=True))
    assert set(finished.rglob("*.safetensors")) <= signed.keys()
    for path, check in (*signed.items(), *stored_files(run, is_signed=False)):
        check(path)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.is_temporary], ids=lambda kind: kind.pattern)
def test_a_lost_file_of_each_kind_is_made_again_by_one_way(kind, tmp_path):
    """A stage makes it, a sentence says who does, or the next command begins it anew: one of the three."""
    run = RunFolder(tmp_path)
    path = run.path / kind.glob.replace("*", "one")
    ways = [bool(kind.maker), bool(advice_for(run, path)), kind.begins_anew]
    assert sum(ways) == 1
