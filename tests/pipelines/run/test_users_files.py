"""Only files that this program wrote into a folder are ever replaced or removed."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from lapsvm.pipelines.commands.drawing.boxes import is_drawing
from lapsvm.pipelines.run import ownership
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.run.ownership import MARKER
from PIL import Image
from safetensors.numpy import save_file

from lapsvm.errors import SettingsError

QUICK = ["--windows", "grid", "--max-windows", "30", "--C", "1", "--test-set", "none", "--quiet"]


def content(folder):
    """Return every file of a folder, with its bytes."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def pictures(root, folders=("cat", "none"), count=4):
    """Write a folder of pictures per class."""
    rng = np.random.default_rng(0)
    for name in folders:
        (root / name).mkdir(parents=True)
        for index in range(count):
            Image.fromarray(rng.integers(0, 255, (40, 50, 3), dtype=np.uint8)).save(root / name / f"{index}.png")
    return root


@pytest.mark.parametrize("where", ["itself", "inside", "above", "through a link", "linked data"])
def test_an_output_folder_and_the_data_lie_apart(tmp_path, refused, where):
    root = pictures(tmp_path / "up" / "k", ("training", "other"))
    (tmp_path / "link").symlink_to(root)
    out = {
        "itself": root,
        "inside": root / "RUN",
        "above": tmp_path / "up",
        "through a link": tmp_path / "link" / "RUN",
        "linked data": root / "RUN",
    }[where]
    given = tmp_path / "link" if where == "linked data" else root
    before = content(tmp_path)
    said = refused("run", "--data", "folder", "--root", given, "--train-set", "training", "--out", out, *QUICK)
    assert str(out) in said
    assert content(tmp_path) == before
    assert sorted(path.name for path in root.iterdir()) == ["other", "training"]


def test_pictures_behind_a_link_of_the_data_count_as_data(digits, tmp_path, refused):
    (tmp_path / "disk").mkdir()
    shutil.copytree(digits / "JPEGImages", tmp_path / "disk" / "JPEGImages")
    root = tmp_path / "voc"
    shutil.copytree(digits, root, ignore=shutil.ignore_patterns("JPEGImages"))
    (root / "JPEGImages").symlink_to(tmp_path / "disk" / "JPEGImages")
    out = tmp_path / "disk" / "JPEGImages" / "RUN"
    assert "must not lie in the folder of the data" in refused("run", "--data", "voc", "--root", root, "--out", out)
    assert not out.exists()


def test_a_folder_of_other_files_is_no_output(tmp_path, refused, digits):
    (tmp_path / "mine" / "training").mkdir(parents=True)
    (tmp_path / "mine" / "evaluation.json").write_text("mine")
    before = content(tmp_path)
    for verb in (["run", "--data", "voc", "--root", digits], ["demo"], ["extract", "--data", "voc", "--root", digits]):
        assert "must be new, empty or a run folder" in refused(*verb, "--out", tmp_path / "mine")
    assert content(tmp_path) == before
    assert not (tmp_path / "mine" / "data").exists()


@pytest.mark.parametrize(
    "line",
    [
        ["run", "--data", "voc", "--root", "{digits}", "--out", ""],
        ["demo", "--out", ""],
        ["train", "--out", ""],
        ["verify", "--out", "", "--remove"],
        ["compare", "--out", "", "{finished}", "{finished}"],
        ["predict", "--model", "{finished}/models", "--draw", "", "{digits}"],
        ["evaluate", "--root", "{digits}", "--results", "{finished}", "--json", ""],
    ],
)
def test_an_empty_path_is_refused(tmp_path, monkeypatch, refused, digits, finished, line):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "training").mkdir()
    assert "must not be empty" in refused(*(one.format(digits=digits, finished=finished) for one in line))
    assert os.listdir(tmp_path) == ["training"]


def test_files_of_others_in_a_run_folder_stay(run_copy, digits, command, fast):
    others = ["detections/test/notes.txt", "training/mine.txt", "models/notes.md", "page/mine.html",
              "mine/evaluation.json",
              "shards/trainval/.mine.partial", "detections/trainval/.notes.0123abcd.partial"]  # fmt: skip
    for name in others:
        (run_copy / name).parent.mkdir(exist_ok=True)
        (run_copy / name).write_text("mine")
    line = ["run", "--data", "voc", "--root", digits, "--out", run_copy, "--quiet", *fast, "--redo"]
    assert command(*line).status == 0
    assert {(run_copy / name).read_text() for name in others} == {"mine"}


@pytest.mark.parametrize(
    ("name", "verb"),
    [
        ("evaluation.json", "evaluate"),
        ("page/index.html", "report"),
        ("choices.json", "train"),
        ("tuning.json", "tune"),
        ("detections/test/comp3_det_test_six.txt", "detect"),
        ("detections/test/detections.json", "detect"),
        ("models/six.safetensors", "train"),
        ("training/resume.json", "train"),
    ],
)
@pytest.mark.parametrize("kind", ["file", "link", "folder"])
def test_a_file_of_another_program_in_the_place_of_ours_is_told_and_stays(
    run_copy, tmp_path, refused, name, verb, kind
):
    path, mine = run_copy / name, tmp_path / "mine"
    put_another(run_copy, name, mine, kind)
    before = content(run_copy)
    redo = ["--redo"] if verb in ("train", "detect", "tune") else []
    constants = ["--C", "1,10", "--folds", "2"] if verb in ("train", "tune") else []
    assert str(path) in refused(verb, "--out", run_copy, *constants, *redo)
    assert content(run_copy) == before
    assert mine.read_text() == "mine"


@pytest.mark.parametrize(("name", "verb"), [("history.csv", "train"), ("timings.json", "report")])
@pytest.mark.parametrize("kind", ["file", "link", "folder"])
def test_another_program_s_file_in_the_place_of_history_or_timings_stays_and_stops_nothing(
    run_copy, tmp_path, command, name, verb, kind
):
    path, mine = run_copy / name, tmp_path / "mine"
    put_another(run_copy, name, mine, kind)
    redo = ["--redo", "--C", "1,10", "--folds", "2"] if verb == "train" else []
    result = command(verb, "--out", run_copy, *redo)
    assert result.status == 0, result.err
    assert str(path) in result.err
    assert mine.read_text() == "mine"
    assert path.is_dir() if kind == "folder" else path.read_text() == "mine"


def put_another(run: Path, name: str, mine: Path, kind: str) -> None:
    """Put a file that lapsvm did not write, a link to one, or a folder in the place of a file of the run."""
    path = run / name
    mine.write_text("mine")
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    if kind == "file":
        path.write_text("mine")
        marker = run / MARKER
        marker.write_text("".join(line for line in marker.read_text().splitlines(True) if json.dumps(name) not in line))
    elif kind == "link":
        path.symlink_to(mine)
    else:
        path.mkdir()


def test_a_link_inside_a_run_is_not_followed_for_removal(run_copy, tmp_path, digits, command, fast):
    mine = tmp_path / "mine"
    mine.mkdir()
    for name in ("resume.json", "0123.answers", "keep.txt"):
        (mine / name).write_text("mine")
    (run_copy / "training").symlink_to(mine)
    assert command("run", "--data", "voc", "--root", digits, "--out", run_copy, "--quiet", *fast).status in (0, 2)
    assert {path.read_text() for path in mine.iterdir()} == {"mine"}
    assert len(list(mine.iterdir())) == 3


def test_verify_removes_what_is_damaged_and_ours_alone(run_copy, tmp_path, command):
    other = run_copy / "models" / "mine.safetensors"
    save_file({"weights": np.ones(3)}, other)
    replaced = run_copy / "models" / "three.safetensors"
    save_file({"weights": np.ones(3)}, replaced)
    damaged = run_copy / "models" / "six.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:100])
    before = other.read_bytes()
    command("verify", "--out", run_copy, "--remove")
    assert (other.read_bytes(), replaced.read_bytes()) == (before, before)
    assert not damaged.exists()


@pytest.mark.parametrize(
    "text", [None, "", "nonsense\n", 'lapsvm files 1\n"../../mine"\n', 'lapsvm files 1\n"mod', "\xff"]
)
def test_without_a_valid_list_a_folder_is_no_run_to_write(run_copy, refused, text):
    if text is None:
        (run_copy / MARKER).unlink()
    else:
        (run_copy / MARKER).write_text(text)
    before = content(run_copy)
    assert f"and no valid {MARKER}" in refused("detect", "--out", run_copy, "--redo", "--quiet")
    assert content(run_copy) == before


def test_the_demo_may_be_killed_while_it_generates(tmp_path, monkeypatch, command):
    (tmp_path / "R" / ".data.0123abcd.partial").mkdir(parents=True)
    (tmp_path / "R" / ".lock").write_text("process 1 on x (lapsvm demo, since then)")
    RunFolder(tmp_path / "R").check_is_run()
    (tmp_path / "R" / "mine").mkdir()
    with pytest.raises(SettingsError, match="must be new, empty or a run folder"):
        RunFolder(tmp_path / "R").check_is_run()


def test_a_lock_that_is_a_link_is_not_followed(tmp_path, run_copy, refused):
    mine = tmp_path / "mine"
    mine.write_text("mine")
    (run_copy / ".lock").unlink()
    (run_copy / ".lock").symlink_to(mine)
    assert "symbolic link" in refused("detect", "--out", run_copy)
    assert mine.read_text() == "mine"


def test_drawings_replace_drawings_alone(finished, digits, tmp_path, command, refused):
    picture = tmp_path / "one.jpg"
    shutil.copy(next((digits / "JPEGImages").iterdir()), picture)
    line = ["predict", "--model", finished / "models", "--extractor", "hog", picture, "--draw", tmp_path / "p"]
    assert command(*line).status == 0
    first = (tmp_path / "p" / "one.png").read_bytes()
    assert command(*line).status == 0
    assert (tmp_path / "p" / "one.png").read_bytes() == first
    assert is_drawing(tmp_path / "p" / "one.png")
    Image.new("RGB", (60, 50), "white").save(tmp_path / "p" / "one.png")
    mine = (tmp_path / "p" / "one.png").read_bytes()
    assert "is no drawing of lapsvm" in refused(*line)
    assert (tmp_path / "p" / "one.png").read_bytes() == mine
    (tmp_path / "p" / "one.png").unlink()
    (tmp_path / "mine.png").write_bytes(mine)
    (tmp_path / "p" / "one.png").symlink_to(tmp_path / "mine.png")
    assert "is no drawing of lapsvm" in refused(*line)
    assert (tmp_path / "mine.png").read_bytes() == mine


def test_a_comparison_replaces_comparisons_alone(finished, tmp_path, command, refused):
    other, out = shutil.copytree(finished, tmp_path / "OTHER"), tmp_path / "C"
    line = ["compare", finished, other, "--out", out, "--draws", 20, "--quiet"]
    assert command(*line).status == 0
    assert command(*line).status == 0
    shutil.rmtree(out)
    out.mkdir()
    (out / "comparison.md").write_text("mine")
    assert "was not written by lapsvm" in refused(*line)
    assert content(out) == {"comparison.md": b"mine"}


def test_a_file_that_is_named_may_be_replaced_and_a_folder_not(finished, digits, tmp_path, command):
    line = ["evaluate", "--root", digits, "--results", finished / "detections" / "test", "--quiet", "--json"]
    (tmp_path / "figures.json").write_text("old")
    (tmp_path / "folder").mkdir()
    assert command(*line, tmp_path / "figures.json").status == 0
    said = command(*line, tmp_path / "folder")
    *_, sentence = said.err.splitlines()  # after the classes without results
    assert (said.status, sentence) == (2, f"lapsvm: file {tmp_path / 'folder'} could not be written: Is a directory.")


def test_a_command_that_is_interrupted_while_it_lists_its_files_leaves_a_folder_that_may_be_used(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    run = RunFolder(tmp_path / "RUN")
    with monkeypatch.context() as patch:
        patch.setattr(ownership, "write_atomically", interrupt)
        with pytest.raises(KeyboardInterrupt), run.lock():
            run.files.claim([run.shards("trainval") / "0000000.safetensors"])
    RunFolder(run.path).check_is_run()
