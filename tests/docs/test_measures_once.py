"""Keys and titles of measures are typed in one place; code asks the table of measures, and the glossary repeats it."""

import ast
from pathlib import Path

from lapsvm.evaluation.measures import MEASURES

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs/reference/glossary.md"
OTHER_MEANINGS = {"objects", "Objects"}  # words of every data set, not only the title of a count
TYPED = {
    "lapsvm/evaluation/measures.py",  # the table
    "lapsvm/evaluation/tables.py",  # keys of the rows that functions below the table return
    "lapsvm/inspection/calibration.py",  # the reader of model files, which have errors of probabilities
}


def typed_measures(path):
    """Return the keys and titles of measures that a file types; names of parameters and functions are no such."""
    words = {word for one in MEASURES.values() for word in (one.key, one.title, one.heading)} - OTHER_MEANINGS
    tree = ast.parse(path.read_text(encoding="utf-8"))
    parameters = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    pieces = {id(piece) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for piece in node.values}
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in pieces}
    return texts & words - parameters


def test_three_files_type_a_measure():
    files = [path for room in ("lapsvm", "pipelines", "datasets") for path in (ROOT / room).rglob("*.py")]
    modules = [path for path in files if path.name != "__init__.py"]  # these list names of functions
    assert {path.relative_to(ROOT).as_posix() for path in modules if typed_measures(path)} == TYPED


def test_the_glossary_lists_the_measures_of_the_table():
    rows = GLOSSARY.read_text(encoding="utf-8").split("## Measures")[1].split("|---|---|---|---|\n")[1].splitlines()
    expected = [f"| {one.title} | `{one.key}` | {one.per} | {one.sentence} |" for one in MEASURES.values()]
    assert [row for row in rows if row] == expected
