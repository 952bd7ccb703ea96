"""The house stays small: a code budget per room, no crowded folder, no crowd of parameters, no circle of imports."""

import ast
from graphlib import TopologicalSorter

import pytest

from .code_budget import ROOMS, ROOT, code_lines, count, following, read

FILES = 16
SUFFIXES = (".py", ".pyx", ".pxd", ".pyi", ".h", ".md", ".html", ".js")
FLAT = {"cython_ext", "lapsvm/_ext"}  # the build compiles one flat folder of kernels, each with its signature


def sources(room):
    """Return the source files of a room."""
    return [path for path in (ROOT / room).rglob("*") if path.suffix in SUFFIXES and "__pycache__" not in path.parts]


def test_no_room_has_more_code_than_its_budget_and_the_budget_follows_downwards():
    lines, budget = count(), read()
    assert {
        room: f"{own} lines, budget {budget.get(room)}" for room, own in lines.items() if own > budget.get(room, 0)
    } == {}
    assert following(lines, budget) == budget, "`python -m tests.code_budget` lowers the budget of rooms that shrank"


def test_a_budget_only_falls():
    budget = {"same": 100, "a little less": 100, "less": 100, "more": 100, "gone": 100}
    lines = {"same": 100, "a little less": 95, "less": 94, "more": 101, "new": 7}
    assert following(lines, budget) == {"same": 100, "a little less": 100, "less": 94, "more": 100, "new": 7}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"""A module.\n\nOf nothing.\n"""\n\n# a comment\nx = 1  # and one more\n', 1),
        ('def f():\n    """Do."""\n    return """a\n\n# no comment\n"""\n', 5),
        ("x = (\n    # a comment\n    1,\n\n)\n", 3),
    ],
)
def test_comments_docstrings_and_blank_lines_are_no_code(tmp_path, text, expected):
    (tmp_path / "one.py").write_text(text, encoding="utf-8")
    assert code_lines(tmp_path / "one.py") == expected


@pytest.mark.parametrize("room", ROOMS)
def test_no_folder_holds_more_than_16_files(room):
    folders = {path.parent for path in sources(room)}
    crowded = {
        str(folder.relative_to(ROOT)): count
        for folder in folders
        if (count := sum(path.parent == folder for path in sources(room))) > FILES
    }
    assert {name: count for name, count in crowded.items() if name not in FLAT} == {}


PARAMETERS = 7
CONFIGURED = {"DirectLoss", "PooledNetwork"}  # what a user configures once
PUBLIC = {"Bags.open", "propose", "refine", "rank_hinge_loss", "cutting_plane", "top_push"}
"""Public names whose further parameters have names and defaults."""


def is_kernel(node):
    """Return whether a function is compiled by Triton: it takes no objects either."""
    return any("triton.jit" in ast.unparse(one) for one in node.decorator_list)


def crowded(tree, owner=""):
    """Yield the functions with too many parameters as Class.name."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef) and not is_kernel(node):
            named = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            if sum(argument.arg not in ("self", "cls") for argument in named) > PARAMETERS:
                yield f"{owner}{node.name}"
        yield from crowded(node, f"{node.name}." if isinstance(node, ast.ClassDef) else owner)


def test_no_function_has_more_than_7_parameters():
    paths = [path for room in ("lapsvm", "pipelines", "datasets") for path in sources(room) if path.suffix == ".py"]
    found = {name for path in paths for name in crowded(ast.parse(path.read_text(encoding="utf-8")))}
    assert found == {f"{name}.__init__" for name in CONFIGURED} | PUBLIC


def modules():
    """Return the dotted name of every module of the package -> its file."""
    paths = [path for room in ("lapsvm", "datasets", "pipelines") for path in sources(room) if path.suffix == ".py"]
    named = {path: path.relative_to(ROOT).with_suffix("").parts for path in paths}
    inside = {path: parts if parts[0] == "lapsvm" else ("lapsvm", *parts) for path, parts in named.items()}
    return {".".join(parts[:-1] if parts[-1] == "__init__" else parts): path for path, parts in inside.items()}


def imported(name, path, known):
    """Yield the modules that a module imports, for its types as well, but not inside of its functions."""
    todo = [ast.parse(path.read_text(encoding="utf-8"))]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.ImportFrom):
            parts = name.split(".") + ([] if path.stem != "__init__" else [""])
            base = ".".join(parts[: len(parts) - node.level]) + "." if node.level else ""
            source = (base + (node.module or "")).rstrip(".")
            for alias in node.names:
                inner = f"{source}.{alias.name}"
                yield inner if inner in known else source
        elif not isinstance(node, ast.FunctionDef):
            todo += ast.iter_child_nodes(node)


def test_imports_run_in_no_circle():
    """A folder's own `__init__` is left out: its files may name the files beside them."""
    known = modules()
    graph = {name: {one for one in imported(name, path, known) if one in known} for name, path in known.items()}
    doors = {name for name, path in known.items() if path.stem == "__init__"}
    assert list(TopologicalSorter({name: graph[name] - doors for name in graph if name not in doors}).static_order())
