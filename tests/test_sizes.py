"""The house stays small: no long file, no crowded folder."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINES, FILES = 400, 16
ROOMS = ("lapsvm", "pipelines", "datasets", "cython_ext", "tests", "benchmarks", "examples", "docs")
SUFFIXES = (".py", ".pyx", ".pxd", ".pyi", ".h", ".md", ".html")
FLAT = {"cython_ext", "lapsvm/_ext"}  # the build compiles one flat folder of kernels, each with its signature
LOGS = "docs/measurements"  # pages that grow with what is measured


def sources(room):
    """Return the source files of a room."""
    return [path for path in (ROOT / room).rglob("*") if path.suffix in SUFFIXES and "__pycache__" not in path.parts]


@pytest.mark.parametrize("room", ROOMS)
def test_no_file_is_longer_than_400_lines(room):
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in sources(room)}
    long = {str(path.relative_to(ROOT)): length for path, length in lengths.items() if length > LINES}
    assert {name: length for name, length in long.items() if not name.startswith(LOGS)} == {}


@pytest.mark.parametrize("room", ROOMS)
def test_no_folder_holds_more_than_16_files(room):
    folders = {path.parent for path in sources(room)}
    crowded = {
        str(folder.relative_to(ROOT)): count
        for folder in folders
        if (count := sum(path.parent == folder for path in sources(room))) > FILES
    }
    assert {name: count for name, count in crowded.items() if name not in FLAT} == {}
