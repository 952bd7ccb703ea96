"""The house stays small: no long file, no crowded folder, no function with a crowd of parameters."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINES, FILES = 400, 16
ROOMS = ("lapsvm", "pipelines", "datasets", "cython_ext", "tests", "benchmarks", "examples", "docs")
SUFFIXES = (".py", ".pyx", ".pxd", ".pyi", ".h", ".md", ".html")
FLAT = {"cython_ext", "lapsvm/_ext"}  # the build compiles one flat folder of kernels, each with its signature
LONG = {"docs/measurements/results.md"}  # to be split by topic


def sources(room):
    """Return the source files of a room."""
    return [path for path in (ROOT / room).rglob("*") if path.suffix in SUFFIXES and "__pycache__" not in path.parts]


@pytest.mark.parametrize("room", ROOMS)
def test_no_file_is_longer_than_400_lines(room):
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in sources(room)}
    long = {str(path.relative_to(ROOT)): length for path, length in lengths.items() if length > LINES}
    assert {name: length for name, length in long.items() if name not in LONG} == {}


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
ESTIMATORS = {  # parameters of what a user configures once, as scikit-learn's and torch's classes have them
    "LatentRankSVM", "LatentSVM", "LatentEstimator", "LatentStructSVM", "LayerwiseSVM", "DirectLoss",
    "LatentFineTuning", "PooledNetwork", "WarpedNetwork",
}  # fmt: skip
PUBLIC = {  # public names whose further parameters have names and defaults
    "Bags.open", "propose", "refine", "rank_hinge_loss", "rank_ramp_loss", "direct_loss", "cutting_plane", "top_push",
    "_rank_loss",  # torch's operator, which takes no objects
}  # fmt: skip


def crowded(tree, owner=""):
    """Yield the functions with too many parameters as Class.name."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            named = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            if sum(argument.arg not in ("self", "cls") for argument in named) > PARAMETERS:
                yield f"{owner}{node.name}"
        yield from crowded(node, f"{node.name}." if isinstance(node, ast.ClassDef) else owner)


def test_no_function_has_more_than_7_parameters():
    paths = [path for room in ("lapsvm", "pipelines", "datasets") for path in sources(room) if path.suffix == ".py"]
    found = {name for path in paths for name in crowded(ast.parse(path.read_text(encoding="utf-8")))}
    assert found == {f"{name}.__init__" for name in ESTIMATORS} | PUBLIC
