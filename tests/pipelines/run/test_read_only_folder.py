"""A run folder that cannot be written: verbs that read it work, the others are refused in a sentence."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

UNPRIVILEGED = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]  # then permissions bind root, too


@pytest.fixture
def bound():
    """Call the command line in a process that is bound by permissions."""
    prefix = UNPRIVILEGED if os.geteuid() == 0 else []
    if prefix and (shutil.which(prefix[0]) is None or subprocess.run([*prefix, "true"], check=False).returncode):
        pytest.skip("root cannot give up its rights here")

    def call(*arguments):
        line = [*prefix, sys.executable, "-m", "lapsvm", *map(str, arguments)]
        said = subprocess.run(line, check=False, capture_output=True, text=True)
        return SimpleNamespace(status=said.returncode, out=said.stdout, err=said.stderr)

    return call


@pytest.fixture
def program(request, unwritable):
    """Call the command line: in this process unless it may write all the same, as root may."""
    return request.getfixturevalue("bound" if os.access(unwritable, os.W_OK) else "command")


@pytest.fixture(params=["mounted", "permissions"])
def unwritable(run_copy, request):
    """A finished run on a disk that is mounted for reading, or whose files and folders may only be read."""
    if request.param == "mounted":
        if os.geteuid() != 0 or shutil.which("mount") is None:
            pytest.skip("only root can mount a folder")
        for line in (["--bind", run_copy, run_copy], ["-o", "remount,bind,ro", run_copy]):
            if subprocess.run(["mount", *line], check=False, capture_output=True).returncode:
                subprocess.run(["umount", run_copy], check=False, capture_output=True)
                pytest.skip("a folder cannot be mounted for reading here")
        yield run_copy
        subprocess.run(["umount", run_copy], check=True)
        return
    paths = [run_copy, *run_copy.rglob("*")]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield run_copy
    for path in paths:
        path.chmod(0o755 if path.is_dir() else 0o644)


def test_verbs_that_read_work(unwritable, program, tmp_path):
    done = program("verify", "--out", unwritable)
    assert (done.status, done.out) == (0, ""), done.err
    assert "files are intact." in done.err
    page = tmp_path / "page.html"
    done = program("review", "--out", unwritable, "--page", page, "--json")
    assert done.status == 0, done.err
    assert json.loads(done.out)["made"] == {"page": str(page)}
    assert page.stat().st_size > 10_000


@pytest.mark.parametrize("verb", [["verify", "--remove"], ["review", "--no-browser"]])
def test_verbs_that_write_are_refused(unwritable, program, verb):
    done = program(verb[0], "--out", unwritable, *verb[1:])
    assert (done.status, done.out) == (2, ""), done.err
    assert done.err.count("\n") == 1
    assert f"lock {unwritable / '.lock'} cannot be opened: " in done.err
    assert "the run folder must be writable, or be copied first." in done.err


def test_a_folder_that_another_process_writes_is_refused_to_a_reader(unwritable, program):
    with (unwritable / ".lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        done = program("verify", "--out", unwritable)
    assert done.status == 2
    assert f"run folder {unwritable} is in use by " in done.err


def test_a_folder_without_a_lock_is_read(run_copy, bound):
    (run_copy / ".lock").unlink()
    run_copy.chmod(0o555)
    try:
        assert bound("verify", "--out", run_copy).status == 0
    finally:
        run_copy.chmod(0o755)
    assert not (run_copy / ".lock").exists()
