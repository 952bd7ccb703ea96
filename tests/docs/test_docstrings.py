"""Names in backticks in docstrings exist: parameters, attributes, functions, classes, settings, modules, files.

A plain name is one that its function or class binds, or that is defined anywhere in the rooms or their kernels; a
parameter or variable of another function is none. A text in the code, such as the name of a loss, counts, too.
"""

import ast
import builtins
import re
from importlib import import_module
from pathlib import Path

import pytest
from lapsvm.pipelines.commands.verbs import app
from lapsvm.pipelines.settings.options import OPTIONS, SETTINGS

ROOT = Path(__file__).parents[2]
ROOMS = ("lapsvm", "pipelines", "datasets")
SPAN = re.compile(r"(?<![`\w])`([^`\n]+)`(?!`)")
NAME = re.compile(r"([A-Za-z_][\w.]*\w|[A-Za-z_])(?:\(.*\))?")
KERNEL = re.compile(r"\b(lapsvm_\w+)\(")
FLAG = re.compile(r"--[a-zA-Z][\w-]*")
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef
VERBS = set(app.commands)
FLAGS = {flag for option in OPTIONS for flag in option.flags.split("/")}


def sources():
    """Return the Python files and the stubs of kernels, each of one room once, though rooms are linked into lapsvm."""
    paths = [path for room in ROOMS for path in (ROOT / room).rglob("*.py*") if path.suffix in (".py", ".pyi")]
    return sorted(path for path in paths if not {"pipelines", "datasets"} & set(path.relative_to(ROOT).parts[1:2]))


def bound(node):
    """Return the names that a function or class binds: parameters, variables, fields, methods, attributes of self."""
    found = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.arg):
            found.add(inner.arg)
        elif isinstance(inner, ast.Name | ast.Attribute) and isinstance(inner.ctx, ast.Store):
            found.add(inner.id if isinstance(inner, ast.Name) else inner.attr)
        elif isinstance(inner, ast.FunctionDef | ast.ClassDef):
            found.add(inner.name)
    return found


def definitions(tree):
    """Yield the public names of a module: functions, classes, constants, imports, fields and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node.name
            yield from (name for inner in node.body for name in targets(inner))
        elif isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
    yield from (name for node in tree.body for name in targets(node))


def targets(node):
    """Yield the names that a statement assigns or imports."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
    for target in getattr(node, "targets", [getattr(node, "target", None)]):
        yield from (inner.id for inner in ast.walk(target) if isinstance(inner, ast.Name)) if target else ()


def texts(tree):
    """Yield the texts of a module that are no docstrings."""
    docstrings = {id(node.body[0].value) for node in ast.walk(tree) if docstring(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def docstring(node):
    return ast.get_docstring(node, clean=False) if isinstance(node, DOCUMENTED) else None


def spans(node, outer=()):
    """Yield the texts in backticks of the docstrings below a node, each with the nodes around it, innermost last."""
    around = (*outer, node) if isinstance(node, DOCUMENTED) else outer
    for span in SPAN.findall(docstring(node) or ""):
        yield span, around
    for inner in ast.iter_child_nodes(node):
        yield from spans(inner, around)


@pytest.fixture(scope="module")
def trees():
    return {path: ast.parse(path.read_text("utf-8")) for path in sources()}


@pytest.fixture(scope="module")
def known(trees):
    """Names that are defined anywhere, and whole texts of the code."""
    names = {name for tree in trees.values() for name in definitions(tree)}
    names |= {part for path in trees for part in (*path.relative_to(ROOT).with_suffix("").parts, path.name)}
    kernels = {path.stem for path in (ROOT / "cython_ext").iterdir()}
    kernels |= {name for path in (ROOT / "cython_ext").glob("*.h") for name in KERNEL.findall(path.read_text("utf-8"))}
    strings = {text for tree in trees.values() for text in texts(tree)}
    return names | kernels | strings | set(dir(builtins)) | VERBS | set(SETTINGS)


def exists(span, around, known):
    """Return whether a text in backticks, if it is a name or an option, is there."""
    if FLAG.match(span):
        return FLAG.match(span).group() in FLAGS
    match = NAME.fullmatch(span)
    if match is None or match[1] in known:
        return True
    own = set().union(*(bound(node) for node in around[1:])) if len(around) > 1 else set()
    return all(part in known or part in own for part in match[1].split(".")) or is_importable(match[1])


def is_importable(dotted):
    """Return whether a dotted name is that of a module of any package, or of what one holds."""
    module, _, name = dotted.rpartition(".")
    try:
        return hasattr(import_module(module), name) if module else False
    except ImportError:
        return False


def test_names_in_docstrings_exist(trees, known):
    missing = [
        f"{path.relative_to(ROOT)}: `{span}`"
        for path, tree in trees.items()
        for span, around in spans(tree)
        if not exists(span, around, known)
    ]
    assert missing == []


@pytest.mark.parametrize(
    ("span", "is_there"),
    [
        ("count", True), ("size", True), ("Bags.best", True), ("lapsvm.bags.Bags", True), ("train.candidates", True),
        ("scipy.optimize.linear_sum_assignment", True), ("--verdicts FILE", True), ("x > 0", True),
        ("counts", False), ("Bags.neerest", False), ("lapsvm.bag.Bags", False), ("train.candidate", False),
        ("--verdict FILE", False), ("other_way", False),
    ],
)  # fmt: skip
def test_a_name_is_found_where_it_is_bound_or_defined(known, span, is_there):
    function = ast.parse("class Box:\n  def f(self, count):\n    self.size = 1\n").body[0]
    assert exists(span, (ast.Module([], []), function, function.body[0]), known - {"size", "counts"}) == is_there
