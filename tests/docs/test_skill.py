"""SKILL.md: an agent that follows it gets the answers that it names."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from lapsvm.pipelines.commands.verbs import app

SKILL = Path(__file__).parents[2] / "SKILL.md"
COMMAND = re.compile(r"^\$ lapsvm (.*)", flags=re.MULTILINE)
OF_A_PERSON = {"figures.address", "figures.new", "figures.verified"}
"""What `review` answers while it serves or merges, and `evaluate` after that; tests of the review check these."""


def text():
    return SKILL.read_text(encoding="utf-8")


def has(answer, name):
    """Whether an answer has a dotted name."""
    for key in name.split("."):
        if not isinstance(answer, dict) or key not in answer:
            return False
        answer = answer[key]
    return True


def test_it_says_what_it_is_for():
    head = re.match(r"---\nname: ([a-z-]+)\ndescription: (.+)\n---\n", text())
    assert head[1] == "lapsvm"
    assert len(head[2]) <= 1024


def test_every_command_asks_for_an_answer():
    lines = COMMAND.findall(text())
    assert {line.split()[0] for line in lines} == {"run", "review", "threshold", "export", "predict", "report"}
    assert {line.split()[0] for line in lines} <= set(app.commands)
    assert all(line.endswith(" --json") for line in lines)


@pytest.mark.slow
def test_followed_by_next_alone_products_come_to_a_threshold(lapsvm, tmp_path, monkeypatch, capsys):
    """The commands of the section on products, on drawn ones, with settings that take seconds."""
    monkeypatch.chdir(tmp_path)
    draw = [sys.executable, SKILL.parent / "examples" / "draw_product.py", "product", "new", "--defects", "8"]
    subprocess.run(draw, check=True)
    line = shlex.split(next(line for line in COMMAND.findall(text()) if line.startswith("run ")))
    line[line.index("folder")], line[line.index("pictures")] = "mvtec", "product"
    small = ["--extractor", "hog", "--windows", "grid", "--max-windows", "200", "--C", "10"]
    lapsvm(*line, *small)
    run = json.loads(capsys.readouterr().out)
    assert run["figures"]["training"].keys() == {"chip", "scratch", "stain"}
    assert all({"C", "duality_gap"} <= of_class.keys() for of_class in run["figures"]["training"].values())
    assert has(run, "figures.sets.trainval.held_out.any_class.image_auroc")
    program, *words = shlex.split(run["next"])
    assert (program, words[0]) == ("lapsvm", "threshold")
    lapsvm(*words, "--json")
    chosen = json.loads(capsys.readouterr().out)
    assert 0 <= chosen["figures"]["probability"] <= 1
    page = Path(run["made"]["page"])
    page = page / "index.html" if page.is_dir() else page
    assert "raises an alarm from" in page.read_text()
    lapsvm("report", "--out", "RUN", "--json")
    assert json.loads(capsys.readouterr().out)["next"].split()[1] == "review"


def test_nothing_is_said_to_come_from_an_index_that_lacks_it():
    """No index has the package, so every page installs it from the folder of the source."""
    pages = [SKILL, SKILL.parent / "README.md", *(SKILL.parent / "docs").rglob("*.md")]
    pattern = re.compile(r"(pip|pipx|uv tool) install [\"']?lapsvm(?!/)\b")
    assert [page.name for page in pages if pattern.search(page.read_text(encoding="utf-8"))] == []


@pytest.mark.slow
def test_its_commands_print_what_it_says(inputs, lapsvm, tmp_path, monkeypatch, capsys):
    shutil.copytree(inputs / "pictures", tmp_path / "pictures")
    shutil.copy(inputs / "photo.jpg", tmp_path)
    monkeypatch.chdir(tmp_path)
    answers = []
    for line in COMMAND.findall(text()):
        capsys.readouterr()
        lapsvm(*shlex.split(line.replace("0.05", "0.25")))  # the four pictures of no class promise no share below .2
        answers.append(json.loads(capsys.readouterr().out))
        assert answers[-1]["verb"] == line.split()[0]
        assert all(Path(path).exists() for path in answers[-1]["made"].values())
    lapsvm("verify", "--out", "RUN", "--json")
    answers.append(json.loads(capsys.readouterr().out))
    (trained, *_) = answers[0]["figures"]["training"].values()
    assert "C" in trained
    named = set(re.findall(r"`((?:made|figures)\.[\w.]+)`", text())) - OF_A_PERSON
    assert {name for name in named if not any(has(answer, name) for answer in answers)} == set()
    listed = re.findall(r"`made`: ([^.]+)\.", text())[0]
    assert set(re.findall(r"\w+", listed)) <= answers[0]["made"].keys()
    shape = re.search(r'\[\{("class".*?)\}\]\}', text())[1]
    pictures = next(answer["figures"]["pictures"] for answer in answers if answer["verb"] == "predict")
    found = pictures[0]["detections"][0]
    assert set(re.findall(r'"(\w+)"', shape)) == found.keys() | {"probability"}
