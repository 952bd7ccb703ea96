"""Files beside a run's results, damaged in every way: models and figures come out the same, and nothing is lost."""

import fcntl
import json
import os
import shutil

import numpy as np
import pytest
from cells import Cells
from lapsvm.pipelines.commands.verbs import main
from lapsvm.pipelines.run.checked_files import read_checked, with_checksum
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.stages import train

from lapsvm.errors import SettingsError

COSMETIC = ("timings.json", "history.csv", "evaluation.json")
RESUME = ("choices.json", "training/resume.json")
DAMAGES = {
    "truncated": lambda content: content[: len(content) // 2 + 3].rstrip(),  # a table cut between rows is a table
    "random": lambda content: np.random.default_rng(0).bytes(max(len(content), 64)),
    "a list": lambda content: b'[1, {"C": [null]}]',
    "other entries": lambda content: b'{"train": 3, "choices": [], "keys": {}, "detect test": {"seconds": "x"}}',
    "deep": lambda content: b"[" * 200_000,
    "endless digits": lambda content: b'{"train": ' + b"7" * 20_000 + b"}",
}
EDITS = {
    "choices.json": lambda content: content.replace(b'"constants": [1.0,', b'"constants": [0.01,').replace(
        b'"constants": [10.0,', b'"constants": [0.01,'
    ),
    "training/resume.json": lambda content: json.dumps(json.loads(content) | {"keys": []}).encode(),
}


@pytest.fixture(params=list(DAMAGES))
def damage(request):
    """Return a function that damages a file."""

    def call(path):
        path.write_bytes(DAMAGES[request.param](path.read_bytes()))

    return call


@pytest.mark.parametrize("verb", ["train", "detect", "report", "evaluate"])
def test_what_only_people_read_stops_no_stage(run_copy, command, made, verb):
    expected = made(run_copy, "models/*", "detections/*/*", "evaluation.json")
    redo = ["--redo"] if verb in ("train", "detect") else []
    for damage in DAMAGES if verb == "report" else ("truncated", "other entries"):
        for name in COSMETIC:
            path = run_copy / name
            path.write_bytes(DAMAGES[damage](path.read_bytes()))
        result = command(verb, "--out", run_copy, *redo)
        assert result.status == 0, result.err
        told = " ".join(result.err.split())
        assert f"{run_copy / 'timings.json'} is damaged; the times in it are left out." in told
        reads_history = verb in ("train", "report")
        assert (f"{run_copy / 'history.csv'} is damaged: it is no table of outer steps." in told) == reads_history
        assert any(name.startswith(verb) for name in json.loads((run_copy / "timings.json").read_text()))
    assert command("evaluate", "--out", run_copy, "--quiet").status == 0
    assert made(run_copy, "models/*", "detections/*/*", "evaluation.json") == expected


@pytest.mark.parametrize("cell", ["nan", "inf", "x", ""])
def test_a_history_with_a_number_that_is_none_is_not_drawn(run_copy, command, cell):
    path = run_copy / "history.csv"
    header, first, *rest = path.read_text().splitlines()
    values = first.split(",")
    values[header.split(",").index("objective")] = cell
    path.write_text("\n".join([header, ",".join(values), *rest]) + "\n")
    result = command("report", "--out", run_copy)
    assert result.status == 0
    assert "The page shows no training curves." in " ".join(result.err.split())


def test_a_refinement_is_not_lost_with_its_history(run_copy, command):
    (run_copy / "history.csv").write_bytes(b"\0")
    (run_copy / "timings.json").write_bytes(b"{}x")
    result = command("refine", "--out", run_copy, "--refine", "1")
    assert result.status == 0, result.err
    assert (run_copy / "first" / "six.safetensors").is_file()


def test_history_and_times_that_cannot_be_written_lose_no_model(run_copy, command, made):
    expected = made(run_copy, "models/*")
    for path in [*(run_copy / "models").iterdir(), run_copy / "history.csv", run_copy / "timings.json"]:
        path.unlink()
    for name in ("history.csv", "timings.json"):
        (run_copy / name).mkdir()  # nothing can be written in their place, as on a full disk
    result = command("train", "--out", run_copy)
    assert result.status == 0, result.err
    assert "history.csv is not written: " in result.err
    assert "the times of train are not stored: " in result.err
    assert made(run_copy, "models/*") == expected
    assert command("report", "--out", run_copy).status == 0


@pytest.fixture(scope="module")
def interrupted(finished, tmp_path_factory):
    """A training that was interrupted after its constants were chosen; not to be changed."""
    run = shutil.copytree(finished, tmp_path_factory.mktemp("interrupted") / "RUN")
    fit = train.fit_requests

    def interrupt(*_):
        raise KeyboardInterrupt

    train.fit_requests = interrupt
    try:
        with pytest.raises(SystemExit) as exit_:
            main(["train", "--out", str(run), "--redo", "--quiet"])
    finally:
        train.fit_requests = fit
    assert exit_.value.code == 130
    for path in (run / "models").iterdir():
        path.unlink()
    return run


@pytest.fixture
def resumed(interrupted, tmp_path):
    """An interrupted training that a test may change."""
    return shutil.copytree(interrupted, tmp_path / "RESUMED")


def check_done_again(run, name, verb, finished, digits, fast, command, made):
    """Go on with a run whose file is damaged, and check that this is told and that the result is the same."""
    line = {
        "run": ["run", "--data", "voc", "--root", digits, *fast],
        "train": ["train"],
        "tune": ["tune", "--C", "1,10", "--folds", 2, "--set=train.path=false"],
    }[verb]
    result = command(*line, "--out", run)
    assert result.status == 0, result.err
    assert f"{run / name} is damaged; it is ignored" in " ".join(result.err.split())
    assert made(run, "models/*") == made(finished, "models/*")
    assert not (run / name).exists()


@pytest.mark.parametrize("name", RESUME)
def test_a_damaged_file_of_an_interrupted_training_is_work_done_again(
    resumed, finished, digits, fast, command, made, damage, name
):
    damage(resumed / name)
    check_done_again(resumed, name, "train", finished, digits, fast, command, made)


@pytest.mark.parametrize(
    ("name", "verb"), [("choices.json", "tune"), ("choices.json", "train"), ("training/resume.json", "run")]
)
def test_an_edited_file_of_an_interrupted_training_changes_no_model(
    resumed, finished, digits, fast, command, made, name, verb
):
    path = resumed / name
    content = path.read_bytes()
    path.write_bytes(EDITS[name](content))
    assert path.read_bytes() != content
    check_done_again(resumed, name, verb, finished, digits, fast, command, made)


def test_a_file_under_another_ones_name_is_not_believed(resumed, finished, digits, fast, command, made):
    shutil.copy(resumed / "choices.json", resumed / "training" / "resume.json")
    check_done_again(resumed, "training/resume.json", "train", finished, digits, fast, command, made)


def test_damaged_answers_are_asked_again(resumed, finished, command, made, damage):
    (path, *_) = (resumed / "training").glob("*.answers")
    damage(path)
    assert command("train", "--out", resumed).status == 0
    assert made(resumed, "models/*") == made(finished, "models/*")


def test_numbers_of_numpy_come_back_as_they_were(tmp_path):
    path, said = tmp_path / "kept.json", []
    content = {"values": [0.1 + 0.2, np.float64(1e-300), float("nan")], "deep": {"é": [None, True, 2**70]}}
    path.write_text(json.dumps(with_checksum(path, content)))
    found = read_checked(path, said.append)
    assert repr(found) == repr({**content, "values": [0.1 + 0.2, 1e-300, float("nan")]})
    assert read_checked(tmp_path / "absent.json", said.append) is None
    assert not said


@pytest.mark.parametrize("edit", [lambda text: "", lambda text: text[:30], lambda text: text.replace("0.5", "0.9")])
def test_a_protocols_cell_that_was_damaged_or_edited_is_made_again(tmp_path, edit):
    made, said = [], []

    def make():
        made.append({"ap": np.float64(0.5), "classes": {"six": [1, 2]}})
        return made[-1]

    cells = Cells(RunFolder(tmp_path), {"folds": 2}, said.append)
    first = cells.get("latent_ap", 0.0, make)
    assert cells.get("latent_ap", 0.0, make) == first == {"ap": 0.5, "classes": {"six": [1, 2]}}
    (path,) = (tmp_path / "cells").iterdir()
    whole = path.read_text()
    path.write_text(edit(whole))
    assert cells.get("latent_ap", 0.0, make) == first
    assert len(made) == 2
    assert path.read_text() == whole
    assert "is damaged" in said[0]


RESULTS = ("detections.json", "comp3_det_test_six.txt")


@pytest.mark.parametrize("name", RESULTS)
def test_damaged_detections_are_made_again(run_copy, finished, command, refused, made, damage, name):
    damage(run_copy / "detections" / "test" / name)
    line = refused("compare", "--out", run_copy.parent / "C", run_copy, finished)
    assert "run lapsvm detect first" in line or "comp3_det_test_six.txt" in line
    assert command("detect", "--out", run_copy, "--quiet").status == 0
    assert made(run_copy, "detections/*/*") == made(finished, "detections/*/*")


@pytest.mark.parametrize("notes", ["versions = 3\ncommand = [1]", "[versions]\nnumpy = 2\n[command]\nline = [1, 2]"])
def test_notes_of_another_shape_stop_no_page(run_copy, command, notes):
    path = run_copy / "run.toml"
    text = path.read_text()
    settings = text[: text.index("[versions]")]
    before, mark, after = settings.partition("[data]")  # a bare value must stand before the first table
    path.write_text(f"{notes}\n{settings}" if notes.startswith("versions") else f"{before}{mark}{after}{notes}\n")
    assert command("report", "--out", run_copy).status == 0


@pytest.mark.parametrize("content", [b"\xff\xfe\x80 by nobody", b"process list"])
def test_a_lock_of_another_program_names_no_holder_and_stays(run_copy, refused, content):
    path = run_copy / ".lock"
    path.write_bytes(content)
    with path.open("a+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert "is in use by" in refused("report", "--out", run_copy)
    assert "was not written by lapsvm" in refused("report", "--out", run_copy)
    assert path.read_bytes() == content


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_lock_that_is_no_file_is_refused_at_once(run_copy, refused, make):
    path = run_copy / ".lock"
    path.unlink()
    make(path)
    assert f"lock {path}" in refused("report", "--out", run_copy)


def test_a_new_folder_with_a_pipe_for_its_lock_is_refused(tmp_path):
    os.mkfifo(tmp_path / ".lock")
    with pytest.raises(SettingsError, match="must be new, empty or a run folder"):
        RunFolder(tmp_path).check_is_run()


@pytest.mark.parametrize("name", ["evaluation.json", "timings.json", "history.csv", "detections/test/detections.json"])
def test_no_stage_waits_for_a_pipe_in_the_run(run_copy, command, name):
    path = run_copy / name
    path.unlink()
    os.mkfifo(path)
    assert command("report", "--out", run_copy).status in (0, 2)
