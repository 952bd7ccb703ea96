"""`lapsvm report --card`: the hashes, the figures with intervals, and commands that make the same models again."""

import json
import re
import shlex
import tomllib
from shutil import copytree

import pytest
from lapsvm.pipelines.run.folder import RunFolder


def table_below(card, heading):
    """Return the rows of the table below a heading, as lists of cells, the titles first."""
    lines = card.split(f"## {heading}\n\n")[1].split("\n\n")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [rows[0], *rows[2:]]


@pytest.fixture
def card(run_copy, command):
    result = command("report", "--out", run_copy, "--card")
    assert result.status == 0, result.err
    assert str(run_copy / "card.md") in result.err
    return (run_copy / "card.md").read_text()


def test_a_report_alone_writes_no_card(run_copy, command):
    assert command("report", "--out", run_copy).status == 0
    assert not (run_copy / "card.md").exists()


def test_figures_stand_with_their_intervals(card, run_copy):
    entry = json.loads((run_copy / "evaluation.json").read_text())["sets"]["test"]
    titles, *rows = table_below(card, "Figures: test set")
    assert [row[0] for row in rows] == ["six", "three", "mean"]
    column = titles.index("AP area")
    for name, *_ in rows[:-1]:
        value, interval = entry["classes"][name]["ap_area"], entry["intervals"]["classes"][name]["ap_area"]
        (row,) = (row for row in rows if row[0] == name)
        assert row[column] == f"{value:.3f} [{interval['low']:.3f}, {interval['high']:.3f}]"
    interval = entry["intervals"]["mean"]["image_ap"]
    assert f"{entry['mean']['image_ap']:.3f} [{interval['low']:.3f}" in rows[-1][titles.index("image AP")]
    assert table_below(card, "Versions")[1:] == [list(pair) for pair in RunFolder(run_copy).notes("versions").items()]


def test_its_first_command_makes_a_run_with_the_same_hashes(card, run_copy, command):
    (block,) = re.findall(r"```console\n(.*?)```", card, flags=re.DOTALL)
    for line in block.splitlines():
        program, *words = shlex.split(line)
        assert program == "lapsvm"
        result = command(*words)
        assert result.status == 0, result.err
    again = run_copy.with_name("RUN-again")
    assert command("report", "--out", again, "--card").status == 0
    text = (again / "card.md").read_text()
    for heading in ("Data", "Models", "Figures: test set"):
        assert table_below(text, heading) == table_below(card, heading)
    ours, theirs = (tomllib.loads((run / "run.toml").read_text()) for run in (run_copy, again))
    assert {key: ours[key] for key in ours if key != "command"} == {
        key: theirs[key] for key in ours if key != "command"
    }


def test_other_labels_have_another_hash(card, run_copy, digits, tmp_path, command, fast):
    root = copytree(digits, tmp_path / "changed")
    path = root / "ImageSets/Main/six_trainval.txt"
    lines = path.read_text().splitlines()
    name = next(line.split()[0] for line in lines if line.split()[1] == "1")
    path.write_text("\n".join(f"{name} -1" if line.startswith(name) else line for line in lines) + "\n")
    line = ["run", "--data", "voc", "--root", root, "--out", tmp_path / "other", "--shards-from", run_copy, "--quiet"]
    assert command(*line, *fast).status == 0
    assert command("report", "--out", tmp_path / "other", "--card").status == 0
    other = table_below((tmp_path / "other/card.md").read_text(), "Data")[1:]
    assert [a == b for a, b in zip(other[0], table_below(card, "Data")[1], strict=True)] == [True, True, True, False]
    assert other[1] == table_below(card, "Data")[2]


def test_a_card_of_another_program_stays(run_copy, refused):
    (run_copy / "card.md").write_text("mine")
    assert "card.md" in refused("report", "--out", run_copy, "--card", "--quiet")
    assert (run_copy / "card.md").read_text() == "mine"
