"""A disk that is full: one line, nothing half written, nothing in the way, and with room again the same bytes."""

import os
import resource
import shutil
import subprocess
from contextlib import contextmanager

import pytest

LATER = {  # what each verb makes, and what is made from it
    "extract": ("shards", "models", "history.csv", "detections", "evaluation.json", "page", "timings.json", "run.toml"),
    "train": ("models", "history.csv", "detections", "evaluation.json", "page"),
    "detect": ("detections", "evaluation.json", "page"),
    "evaluate": ("evaluation.json", "page"),
    "report": ("page",),
}
BALLAST = "ballast"


@pytest.fixture
def small_disk(tmp_path):
    """A disk of its own, of 8 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    if mount is None or os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    line = [mount, "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(disk)]
    if subprocess.run(line, check=False, capture_output=True).returncode:
        pytest.skip("a small disk cannot be mounted here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def without(run, verb):
    """Remove a verb's products, and the products that later verbs made from them."""
    for name in LATER[verb]:
        path = run / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def fill(disk, room):
    """Fill a disk up to a number of free bytes."""
    state = os.statvfs(disk)
    (disk / BALLAST).write_bytes(bytes(state.f_bavail * state.f_frsize - room))


def files(run):
    """Every file but the lock, whose content nobody needs, and the times, which a failed stage may have told."""
    return {
        str(path.relative_to(run)): path.read_bytes()
        for path in run.rglob("*")
        if path.is_file() and path.name not in (".lock", "timings.json")
    }


def check_nothing_is_half_written(run, before, whole):
    """Check that old files are as they were, and that new ones are what an undisturbed run makes."""
    after = files(run)
    assert not [name for name in after if name.endswith(".partial")]
    assert {name: after[name] for name in before} == before
    made = {name for name in after.keys() - before.keys() if name.startswith(("shards", "models", "detections"))}
    assert {name: after[name] for name in made} == {name: whole[name] for name in made}


@pytest.mark.parametrize(
    ("verb", "room"),
    [("extract", 0), ("extract", 500_000), ("train", 8_000), ("detect", 30_000), ("evaluate", 0), ("report", 50_000)],
)
def test_a_full_disk_is_one_line_and_with_room_the_run_continues(
    small_disk, finished, digits, refused, command, made, fast, fast_extraction, fast_training, verb, room
):
    run, whole = small_disk / "RUN", files(finished)
    shutil.copytree(finished, run)
    without(run, verb)
    before = files(run)
    fill(small_disk, room)
    given = {"extract": ["--data", "voc", "--root", digits, *fast_extraction], "train": fast_training}
    said = refused(verb, "--out", run, "--quiet", *given.get(verb, []))
    assert "No space left on device" in said
    assert str(run) in said
    check_nothing_is_half_written(run, before, whole)
    (small_disk / BALLAST).unlink()
    assert command("run", "--data", "voc", "--root", digits, "--out", run, "--quiet", *fast).status == 0
    assert made(run) == made(finished)
    assert (run / "page" / "index.html").is_file()


def test_a_full_disk_is_told_before_a_run_folder_is_made(small_disk, digits, refused, fast):
    while os.statvfs(small_disk).f_bavail:
        fill(small_disk, 0)
    said = refused("run", "--data", "voc", "--root", digits, "--out", small_disk / "new" / "RUN", "--quiet", *fast)
    assert "No space left on device" in said


@pytest.fixture
def short_files():
    """Let no file grow beyond 512 bytes while a block runs."""

    @contextmanager
    def short_files():
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (512, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return short_files


@pytest.mark.parametrize("verb", list(LATER))
def test_files_that_may_not_grow_are_told_in_one_line(
    run_copy, finished, digits, fast_extraction, refused, short_files, verb
):
    """Quotas and limits refuse as a full disk does, and need no root to be tried."""
    without(run_copy, verb)
    before = files(run_copy)
    data = ["--data", "voc", "--root", digits, *fast_extraction] if verb == "extract" else []
    with short_files():
        said = refused(verb, "--out", run_copy, "--quiet", *data)
    assert "could not be written: File too large" in said
    check_nothing_is_half_written(run_copy, before, files(finished))


@pytest.mark.parametrize("export_format", [["voc", "--copy"], ["coco"]])
def test_an_export_onto_a_full_disk_leaves_nothing(small_disk, finished, tmp_path, export_format, refused, command):
    export = ["export", "--out", finished, "--set", "trainval", "--format", *export_format]
    target = small_disk / "exported"
    fill(small_disk, 8192)
    assert "could not be written: No space left on device" in refused(*export, "--to", target)
    assert os.listdir(small_disk) == [BALLAST]
    (small_disk / BALLAST).unlink()
    assert command(*export, "--to", target).status == 0
    assert command(*export, "--to", tmp_path / "wide").status == 0
    assert files(target) == files(tmp_path / "wide")
