"""Every Python and console block of the tutorial and the how-to pages runs, in the order of the page."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from lapsvm.windows import METHODS

DOCS = Path(__file__).parents[2] / "docs"
TUTORIAL = [DOCS / "tutorial" / f"{name}.md" for name in ("first_run", "better_boxes", "review_boxes", "use_the_boxes")]
DEFECTS = DOCS / "tutorial" / "defects.md"  # a tutorial of its own, with pictures of its own
YOLO = DOCS / "howto" / "yolo_from_labels.md"  # from an empty folder
README, GATE = DOCS.parent / "README.md", DOCS.parent / ".ci" / "run"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
PROJECT = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def blocks(page):
    """Return (language, text) of the fenced blocks of a page."""
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def runs(page):
    """Whether a page has a block that is run."""
    return any(language in ("console", "python") for language, _ in blocks(page))


HOWTO = [page for page in sorted((DOCS / "howto").rglob("*.md")) if runs(page) and page != YOLO]


def run_command(words, lapsvm, more=()):
    """Run one command of a console block in the current folder; `more` are arguments that a script gets besides."""
    variables = dict(word.split("=", 1) for word in words if re.match(r"[A-Z]+=", word))
    name, *arguments = words[len(variables) :]
    if [name, *arguments[:1]] == ["pip", "install"]:  # not run: the tests' environment has every extra
        (wanted,) = re.findall(r"\[(\w+)\]", arguments[1])
        assert wanted in PROJECT["optional-dependencies"]
    elif name == "make":  # not run: the gate runs it
        assert " ".join(words) in GATE.read_text(encoding="utf-8").splitlines()
    elif variables:
        assert name == "lapsvm", words
        start = [sys.executable, "-m", "lapsvm.pipelines"]
        subprocess.run([*start, *arguments], env=os.environ | variables, check=True, capture_output=True)
    elif name == "lapsvm":
        lapsvm(*arguments)
    else:
        assert name == "python", words
        script = DOCS.parent / arguments[0]
        assert script.is_file(), words
        subprocess.run([sys.executable, script, *arguments[1:], *more], check=True, capture_output=True)


@pytest.fixture(autouse=True)
def _registered_methods():
    """Forget after a page what it registers, so that no other test sees it."""
    before = dict(METHODS)
    yield
    METHODS.clear()
    METHODS.update(before)


def run_page(page, lapsvm, more=(), names=()):
    """Run the blocks of a page in the current folder; a first line `# NAME` in a block names a file that it shows.

    `names` are (name, value) of what Python blocks take for given. Return all names that they have bound.
    """
    names = {"__name__": "__main__", **dict(names)}
    for language, text in blocks(page):
        if match := re.match(r"# ([\w.]+\.(?:py|toml))\n", text):
            Path(match[1]).write_text(text)
        elif language == "python":
            exec(compile(text, str(page), "exec"), names)  # noqa: S102 - our own text
        elif language == "console":
            lines = re.findall(r"^\$ (.*(?:\\\n.*)*)", text, flags=re.MULTILINE)
            assert lines, text
            for line in lines:
                run_command(shlex.split(line.replace("\\\n", " ")), lapsvm, more)
    return names


@pytest.mark.slow
def test_the_tutorial_runs(inputs, lapsvm, tmp_path, monkeypatch):
    shutil.copytree(inputs / "pictures", tmp_path / "pictures")
    shutil.copy(inputs / "photo.jpg", tmp_path)
    monkeypatch.chdir(tmp_path)
    for page in TUTORIAL:
        run_page(page, lapsvm)
    assert (tmp_path / "RUN/page/index.html").is_file()
    assert (tmp_path / "drawn").is_dir()
    assert (tmp_path / "yolo-data/data.yaml").is_file()


def test_the_tutorial_has_no_further_page():
    known = {"index.md", "install.md", DEFECTS.name, *(page.name for page in TUTORIAL)}
    assert {page.name for page in (DOCS / "tutorial").glob("*.md")} == known


@pytest.mark.slow
def test_the_page_on_defects_runs_with_fewer_pictures(lapsvm, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_page(DEFECTS, lapsvm, more=("--defects", "10"))
    said = capsys.readouterr().err
    assert "split: half of the pictures of each folder of test join training" in said
    assert "new/monday/0-good.png: " in said
    assert (tmp_path / "PRODUCT/models/threshold.json").is_file()
    assert (tmp_path / "drawn/monday/1-scratch.heatmap.png").is_file()
    assert (tmp_path / "new/tuesday/3-hole.png").is_file()
    assert (tmp_path / "detector.onnx").is_file()


@pytest.mark.slow
def test_the_readme_runs(inputs, lapsvm, tmp_path, monkeypatch, capsys):
    shutil.copytree(inputs / "pictures", tmp_path / "pictures")
    monkeypatch.chdir(tmp_path)
    draw = [sys.executable, DOCS.parent / "examples" / "draw_product.py", "product", "new", "--defects", "10"]
    subprocess.run(draw, check=True, capture_output=True)
    Path("product/test").rename("parts")
    bags = [np.full((3, 2), [number % 2, 1]) for number in range(8)]
    run_page(README, lapsvm, names={"bags": bags, "y": [2 * (number % 2) - 1 for number in range(8)]})
    assert "new/monday/0-good.png: " in capsys.readouterr().err
    assert Path("drawn/monday/1-scratch.heatmap.png").is_file()
    assert Path("yolo-data/data.yaml").is_file()


@pytest.mark.slow
def test_labels_become_yolo_files_from_an_empty_folder(lapsvm, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_page(YOLO, lapsvm)
    assert sum(names["boxes"].values()) == 36
    rows = [row.split() for path in Path("yolo-data/labels").rglob("*.txt") for row in path.read_text().splitlines()]
    assert len(rows) == 36
    assert {number for number, *_ in rows} == {"0", "1", "2"}
    assert all(0 < float(value) <= 1 for _, *box in rows for value in box)


@pytest.mark.slow
@pytest.mark.parametrize("page", HOWTO, ids=lambda page: page.stem)
def test_the_blocks_of_a_page_run(page, inputs, lapsvm, tmp_path, monkeypatch):
    shutil.copytree(inputs, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    run_page(page, lapsvm)


@pytest.mark.parametrize("page", [README, *TUTORIAL, DEFECTS, YOLO, *HOWTO], ids=lambda page: page.stem)
def test_commands_stand_in_console_blocks(page):
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    assert not re.search(r"^\s*\$ ", text, flags=re.MULTILINE)
