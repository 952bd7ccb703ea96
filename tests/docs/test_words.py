"""Names say what a thing is: bindings of words that say nothing, and words that only we use, become fewer."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("lapsvm", "pipelines", "datasets")

VAGUE = {"one", "own", "found", "part", "place", "whole"}
# They may only fall. Who renames some enters what is left.
CEILINGS = {"lapsvm": 35, "pipelines": 223, "datasets": 1}

PRIVATE = re.compile(r"(?<![a-z])(told|ahead|elsewhere|anneal\w*|winners)(?![a-z])", re.IGNORECASE)
PRIVATE_CEILING = 17

RIDDLE = re.compile(r"^\w+ what\b|^(Return|Yield) (those|that) of\b|\bof no class\b|\bso many\b")
"""First lines of docstrings with a clause in place of a noun, or a noun that is not there."""


def modules(room):
    """Return the files of a room; the other rooms may be links inside of lapsvm."""
    paths = (ROOT / room).rglob("*.py")
    return [path for path in paths if room != "lapsvm" or path.relative_to(ROOT).parts[1] not in ROOMS]


def bindings(tree):
    """Yield every name that is bound: variables, parameters, functions and classes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def vague(paths):
    """Return how often each file binds a vague name."""
    counts = {path: sum(name in VAGUE for name in bindings(ast.parse(path.read_text("utf-8")))) for path in paths}
    return Counter({str(path.relative_to(ROOT)): count for path, count in counts.items() if count})


def test_bindings_are_of_every_kind():
    text = (
        "def part(one, *own, whole=1):\n found = [place for place in one]\n if (found := own): pass\nclass whole: pass"
    )
    names = Counter(name for name in bindings(ast.parse(text)) if name in VAGUE)
    assert names == {"part": 1, "one": 1, "own": 1, "whole": 2, "found": 2, "place": 1}
    assert list(bindings(ast.parse("print(one, own.found, f(part=place))"))) == []


@pytest.mark.parametrize("room", ROOMS)
def test_vague_names_only_become_fewer(room):
    counts = vague(modules(room))
    assert counts.total() <= CEILINGS[room], (
        f"the ceiling of {room} may only fall, got {counts.total()}; most are in {counts.most_common(5)}"
    )


def test_private_words_only_become_fewer():
    paths = [path for room in ROOMS for path in modules(room)]
    paths += [path for path in (ROOT / "cython_ext").iterdir() if path.suffix in (".pyx", ".h")]
    words = Counter(word.lower() for path in paths for word in PRIVATE.findall(path.read_text("utf-8")))
    assert words.total() <= PRIVATE_CEILING, f"the ceiling may only fall, got {dict(words)}"


def statements(node):
    """Yield a module and all statements in it; they are a tenth of its nodes."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield from statements(child)


def first_lines(path):
    """Yield (file, first line) of every docstring of a file."""
    for node in statements(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            text = ast.get_docstring(node)
            yield path.relative_to(ROOT).as_posix(), text.splitlines()[0] if text else ""


def test_a_first_line_names_its_result():
    folders = (*ROOMS, "tests", "benchmarks", "examples", "docs")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    assert [(path, line) for one in paths for path, line in first_lines(one) if RIDDLE.search(line)] == []
