"""Copies of a run by hard links, as cp -l and rsync --link-dest make them: each is a run of its own."""

import fcntl
import os
import shutil

import numpy as np
import pytest
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.verdicts.verdict import Verdict, append_verdicts, read_verdicts

from lapsvm.bags import BestWindows
from lapsvm.errors import SettingsError
from lapsvm.files import unshare
from lapsvm.latent.scheduling.replay_log import ReplayLog


@pytest.fixture
def linked(run_copy, tmp_path):
    """A run, and a copy of it whose files are hard links."""
    RunFolder(run_copy).files.claim([run_copy / "verdicts.jsonl"])
    append_verdicts(run_copy / "verdicts.jsonl", [Verdict("000001", "six", "skip")])
    return run_copy, shutil.copytree(run_copy, tmp_path / "COPY", copy_function=os.link)


def test_both_copies_work_and_neither_changes_the_other(linked, command):
    for changed, other in (linked, linked[::-1]):
        before = {path: path.read_bytes() for path in other.rglob("*") if path.is_file()}
        for verb, *more in (["evaluate"], ["train", "--redo"], ["detect"], ["report"]):
            result = command(verb, "--out", changed, *more, "--quiet")
            assert result.status == 0, result.err
        assert {path: path.read_bytes() for path in before} == before


def test_verdicts_of_a_copy_are_not_those_of_the_run(linked):
    run, copy = linked
    before = (run / "verdicts.jsonl").read_bytes()
    append_verdicts(copy / "verdicts.jsonl", [Verdict("000002", "six", "absent")])
    assert (run / "verdicts.jsonl").read_bytes() == before
    assert set(read_verdicts(copy / "verdicts.jsonl").of_class("six")) == {"000001", "000002"}


def test_answers_of_an_interrupted_copy_are_not_those_of_the_run(tmp_path):
    weights, answers = np.ones((2, 1)), [BestWindows(np.arange(3), np.zeros(3))]
    with ReplayLog(tmp_path / "run.answers") as log:
        assert log.replay(weights, 3, 0) is None
        log.add(weights, answers, 0)
    os.link(tmp_path / "run.answers", tmp_path / "copy.answers")
    before = (tmp_path / "run.answers").read_bytes()
    with ReplayLog(tmp_path / "copy.answers") as log:
        assert log.replay(2 * weights, 3, 0) is None
        log.add(2 * weights, answers, 0)
    assert (tmp_path / "run.answers").read_bytes() == before != (tmp_path / "copy.answers").read_bytes()


def test_a_lock_that_is_another_file_too_is_replaced_and_that_file_stays(run_copy, tmp_path, command):
    path, mine = run_copy / ".lock", tmp_path / "mine"
    path.unlink()
    mine.write_bytes(b"")
    os.link(mine, path)
    before = mine.stat().st_mtime_ns
    assert command("evaluate", "--out", run_copy, "--quiet").status == 0
    assert (mine.read_bytes(), mine.stat().st_mtime_ns, mine.stat().st_nlink) == (b"", before, 1)


def test_a_lock_of_another_program_with_two_names_stays(run_copy, tmp_path, refused):
    path, mine = run_copy / ".lock", tmp_path / "mine"
    path.unlink()
    mine.write_bytes(b"a diary")
    os.link(mine, path)
    assert "was not written by lapsvm" in refused("report", "--out", run_copy)
    assert path.samefile(mine)


def test_a_copy_of_a_run_in_use_says_which_may_be_in_use(linked):
    run, copy = linked
    (run / ".lock").touch()
    (copy / ".lock").unlink(missing_ok=True)
    os.link(run / ".lock", copy / ".lock")
    with (run / ".lock").open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(SettingsError, match=r"COPY is in use by .*hard links: that copy may be the one in use"):
            RunFolder(copy).lock().__enter__()
    with RunFolder(copy).lock(), RunFolder(run).lock():
        assert not (run / ".lock").samefile(copy / ".lock")


def test_a_file_with_one_name_and_a_symbolic_link_stay(tmp_path):
    path, link = tmp_path / "a", tmp_path / "link"
    path.write_bytes(b"x")
    link.symlink_to(path)
    before = path.stat().st_ino
    for name in (path, link, tmp_path / "none"):
        unshare(name)
    assert path.stat().st_ino == before
    assert link.is_symlink()
