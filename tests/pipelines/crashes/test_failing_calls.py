"""A full disk and a failing one at every call of a run, and at every read: one sentence, and nothing is lost."""

import errno
import io
import os
import shutil
import sys
from pathlib import Path

import pytest
from lapsvm.datasets.digits import write_digits
from lapsvm.pipelines.verdicts.verdict import Verdict, append_verdicts, read_verdicts

from lapsvm.errors import LapsvmError, WriteError

from ..fuzz.binary_doors import EXTERNAL, PICTURES, STORED
from ..fuzz.doors import DATA, MERGED, SAID
from ..fuzz.law import check_sentence, write_case
from .test_lost_writes import check_whole

EVERY = bool(os.environ.get("FUZZ_SECONDS"))
CALLS = ("fsync", "replace", "mkdir")
WRITERS = ("xb", "wb", "r+b", "w+b")
ROOMS = ("lapsvm/", "pipelines/", "datasets/")
DOORS = DATA | MERGED | SAID | EXTERNAL | STORED | PICTURES
MAPPED = {"shard", "detector", "estimator", "held-out", "folds", "projection"}
"""Doors whose files the library of their format maps: a page that cannot be read is a signal, not an error."""


class Failing:
    """Calls that write, of which the one with a number fails; it notes the places in our code that make them."""

    def __init__(self, monkeypatch):
        self.sites, self.count, self.fails, self.code = {}, 0, 0, errno.ENOSPC
        made_folder = os.mkdir
        for name in CALLS:
            monkeypatch.setattr(os, name, self._wrapped(getattr(os, name), made_folder))
        opened = Path.open
        monkeypatch.setattr(
            Path, "open", lambda path, mode="r", *more, **named: self._open(opened, path, mode, more, named)
        )

    def _wrapped(self, call, made_folder):
        def wrapped(*arguments, **named):
            if not (call is made_folder and os.path.isdir(arguments[0])):  # which is there, whatever mkdir says
                self._counted()
            return call(*arguments, **named)

        return wrapped

    def _open(self, opened, path, mode, more, named):
        if mode in WRITERS:
            self._counted()
        return opened(path, mode, *more, **named)

    def _counted(self):
        self.count += 1
        site = _site()
        if site:
            self.sites.setdefault(site, self.count)
        if self.count == self.fails:
            raise OSError(self.code, os.strerror(self.code))

    def after(self, count, code):
        """Fail at the call of this number from now on."""
        self.count, self.fails, self.code = 0, count, code


def _site():
    """Return the innermost places in our code, or () for a call of another library."""
    frame, found = sys._getframe(2), []
    while frame is not None and len(found) < 4:
        name = os.path.relpath(os.path.realpath(frame.f_code.co_filename), Path(__file__).parents[3])
        if name.startswith(ROOMS):
            found.append((name, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return tuple(found)


def test_a_call_that_fails_anywhere_in_a_run_is_a_line_and_the_run_continues(
    tmp_path, command, made, fast, monkeypatch
):
    write_digits(tmp_path / "digits", seed=3, n_train=16, n_test=10)
    line = ["run", "--data", "voc", "--root", tmp_path / "digits", "--quiet", *fast, "--max-windows", "12", "--out"]
    failing = Failing(monkeypatch)
    assert command(*line, tmp_path / "first").status == 0
    whole = made(tmp_path / "first")
    numbers = sorted(failing.sites.values())
    assert len(numbers) > 20
    for count, code in zip(
        numbers if EVERY else numbers[3::20], [errno.ENOSPC, errno.EIO] * len(numbers), strict=False
    ):
        out = tmp_path / f"run {count}"
        failing.after(count, code)
        said, reached = command(*line, out), failing.count
        failing.after(0, 0)
        place = [site for site, number in failing.sites.items() if number == count]
        assert reached >= count, place
        assert said.status in (0, 2), (said, place)
        if said.status:
            assert said.err.count("\n") == 1, (said, place)
            assert os.strerror(code) in said.err, (said, place)
        else:  # no result depends on these
            assert any("save_timing" in one or "write_history" in one for *_, one in place[0]), place
        if out.is_dir():
            check_whole(out)
        again = command(*line, out)
        assert again.status == 0, again.err
        assert made(out) == whole
        assert not list(out.rglob("*.partial"))
        shutil.rmtree(out)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_verdict_that_cannot_be_saved_leaves_the_others(tmp_path, monkeypatch, code):
    path, first, second = tmp_path / "verdicts.jsonl", Verdict("a", "cat", "absent"), Verdict("b", "cat", "absent")
    append_verdicts(path, [first])
    failing = Failing(monkeypatch)
    failing.after(1, code)
    with pytest.raises(WriteError, match=os.strerror(code)):
        append_verdicts(path, [second])
    failing.after(0, 0)
    append_verdicts(path, [second])
    assert read_verdicts(path).of_class("cat") == {"a": first, "b": second}
    assert read_verdicts(path).damaged == ()


class FailingFile(io.BufferedReader):
    """A file of which the read with a number fails."""

    left = 0

    def _counted(self):
        FailingFile.left -= 1
        if FailingFile.left == 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def read(self, *size):
        self._counted()
        return super().read(*size)

    def readinto(self, buffer):
        self._counted()
        return super().readinto(buffer)

    def readline(self, *size):
        self._counted()
        return super().readline(*size)


@pytest.mark.parametrize("door", sorted(DOORS.keys() - MAPPED))
def test_a_read_that_fails_is_a_sentence(tmp_path, monkeypatch, door):
    write_case(DOORS[door].sound, tmp_path)
    monkeypatch.setattr(os, "fdopen", lambda descriptor, mode="r": FailingFile(io.FileIO(descriptor, mode)))
    for count in range(1, 12):
        FailingFile.left = count
        try:
            DOORS[door].read(tmp_path)
        except LapsvmError as error:
            check_sentence(str(error))
            assert FailingFile.left <= 0
        if FailingFile.left > 0:
            break
    assert FailingFile.left < count, "no file was read by way of open_regular"
