"""What people see while a run goes on."""

import os
import pty
import re
import subprocess
import sys
import time

import pytest
from lapsvm.pipelines.fitting.fit import TrainingProgress
from lapsvm.pipelines.run import progress
from lapsvm.pipelines.run.progress import Bar, Reporter


class Clock:
    """A clock that is set by hand."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_rates_and_the_time_left_follow_from_what_is_done(clock):
    bar = Bar("extract", 100, "pictures", clock=clock)
    clock.now = 20.0
    bar.step(10, windows=50_000)
    told = "0.5 pictures/s, 2,500 windows/s, about 0:03:00 left"
    assert bar.status == told
    assert bar.line == f"extract: 10 of 100 pictures, 0:00:20 so far, {told}"


def test_a_rate_that_would_read_as_nothing_is_not_shown(clock):
    bar = Bar("refine", 4, "classes", clock=clock)
    clock.now = 90.0
    bar.step(1)
    assert bar.status == "about 0:04:30 left"


def test_nothing_is_foretold_of_what_has_no_end_or_has_ended(clock):
    bar = Bar("train", None, "steps", clock=clock)
    whole = Bar("check", 4, clock=clock)
    clock.now = 90.0
    bar.step(3, "gap 0.1")
    whole.step(4)
    assert bar.line == "train: 3 steps, 0:01:30 so far, gap 0.1"
    assert whole.line == "check: 4 of 4, 0:01:30 so far"


def test_where_there_is_no_terminal_a_line_comes_now_and_then(capsys, monkeypatch):
    monkeypatch.setattr(progress, "LINE_EVERY", 0.05)
    with Reporter().bar("extract test", 8, "pictures") as bar:
        bar.step(3)
        time.sleep(0.3)
        bar.step(5)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("extract test: 3 of 8 pictures, ")
    assert lines[-1].startswith("extract test: 8 of 8 pictures, ")


@pytest.mark.parametrize(("quiet", "every"), [(True, 0.01), (False, 30.0)])
def test_what_is_short_or_quiet_says_nothing(capsys, monkeypatch, quiet, every):
    monkeypatch.setattr(progress, "LINE_EVERY", every)
    with Reporter(quiet).bar("extract test", 8) as bar:
        bar.step(8)
        time.sleep(0.1)
    assert capsys.readouterr().err == ""


def record(step, gap, changed=3, **more):
    return {"objective": 10.0 - step, "gap": gap, "changed": changed, "passes": 5 * step, **more}


def test_outer_steps_tell_passes_and_the_largest_gap_of_each_class(clock):
    bar = Bar("train", None, clock=clock)
    steps = TrainingProgress(bar, ["cat", "cat", "dog"])
    for place, gap in enumerate((0.02, 0.04, 0.005)):
        steps.update(place, record(2, gap))
    assert bar.note == "pass 10 over the windows, duality gap cat 0.04, dog 0.005"
    steps.update(1, record(3, 0.002))
    assert bar.note == "pass 15 over the windows, duality gap cat 0.02, dog 0.005"
    assert bar.done == 4


def test_of_many_classes_the_largest_gaps_are_spelt_out(clock):
    bar = Bar("train", None, clock=clock)
    steps = TrainingProgress(bar, [f"c{number}" for number in range(20)])
    for place in range(20):
        steps.update(place, record(1, 0.01 * (place + 1)))
    assert bar.note == "pass 5 over the windows, duality gap c19 0.2, c18 0.2, c17 0.2, c16 0.2 and 16 smaller"


def test_where_classes_are_counted_those_at_work_are_shown(clock):
    bar = Bar("refine", 3, "classes", clock=clock)
    steps = TrainingProgress(bar, ["cat", "cat", "dog"])
    for place, gap in enumerate((0.02, 0.04, 0.005)):
        steps.update(place, record(2, gap))
    assert (bar.done, bar.note) == (0, "pass 10 over the windows, duality gap cat 0.04, dog 0.005")
    steps.finish("cat")
    steps.update(2, record(3, 0.001))
    assert (bar.done, bar.note) == (1, "pass 15 over the windows, duality gap dog 0.001")


def test_records_are_given_the_seconds_since_the_trainings_began(clock):
    steps, told = TrainingProgress(Bar("train", None, clock=clock), ["cat"]), record(1, 0.1)
    clock.now = 2.5
    steps.update(0, told)
    assert told["seconds"] == 2.5


def seen_on_a_terminal(line, folder):
    """Run a command whose standard error is a terminal, and return what appeared there, without control sequences."""
    outside, inside = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "160", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=inside, cwd=folder, env=environment)
    os.close(inside)
    seen = bytearray()
    while True:
        try:
            part = os.read(outside, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        seen += part
    os.close(outside)
    assert process.wait() == 0, seen.decode()
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())


def test_a_terminal_shows_rates_passes_gaps_and_bars(digits, tmp_path, fast):
    run = [sys.executable, "-m", "lapsvm.pipelines", "run", "--data", "voc", "--root", str(digits), "--out", "RUN"]
    seen = seen_on_a_terminal([*run, *fast], tmp_path)
    for title in ("extract trainval", "detect test"):
        assert title in seen
        last = seen.rindex(title, 0, seen.rindex("time: "))  # behind it are times by stage
        assert re.search(r"[\d.,]+ pictures/s, [\d,]+ windows/s", seen[last : last + 400]), seen[last : last + 400]
    assert re.search(r"read trainval.*?([\d,]+) of \1 windows", seen, re.DOTALL)
    last = seen.rindex("train (6 trainings)")
    assert re.search(
        r"pass \d+ over the windows, duality gap (six|three) [\d.e-]+, (six|three) [\d.e-]+", seen[last : last + 500]
    )
    assert "40 of 40 pictures" in seen
    assert " of 0" not in seen
