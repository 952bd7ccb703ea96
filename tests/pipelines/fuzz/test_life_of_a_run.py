"""The life of a run folder: pictures come and go, labels change, people judge, processes are killed, folders copied.

Whatever happens in whatever order: no traceback, no verdict is lost, and what comes out is what a new folder gives.
"""

import contextlib
import io
import os
import shutil
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from lapsvm.pipelines.commands.verbs import main
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.verdicts.verdict import Verdict, add_verdicts, read_verdicts
from PIL import Image

from lapsvm.features import open_shards

from .law import content, until

SECONDS = float(os.environ.get("FUZZ_SECONDS", "0"))
FAST = ["--extractor", "hog", "--windows", "grid", "--max-windows", "6", "--C", "1", "--quiet"]
CLASSES = ("bright", "dark")
FIRST = 8
PLACES = st.integers(0, 30)
KILLED = 77


def write_picture(path, number):
    """Write a picture of noise with a square, which the number decides."""
    rng = np.random.default_rng(number)
    pixels = rng.integers(100, 150, (32, 40, 3)).astype(np.uint8)
    x, y = rng.integers(0, 16, 2)
    pixels[y : y + 14, x : x + 14] = 250 if number % 2 else 5
    Image.fromarray(pixels).save(path)


class LifeOfARun(RuleBasedStateMachine):
    """A run folder on a table of labels."""

    def __init__(self):
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.data, self.run = self.root / "data", self.root / "RUN 0"
        self.labels, self.said, self.numbers, self.copies = {}, {}, 0, 0

    def teardown(self):
        """Compare with a new folder, at the end of each life."""
        try:
            self._check_against_new_folder()
        finally:
            shutil.rmtree(self.root)

    # ---- what happens ----
    @initialize()
    def begin(self):
        """Begin with a few pictures of both classes."""
        self.data.mkdir()
        for _ in range(FIRST):
            self.add_picture()

    @rule()
    def add_picture(self):
        """A picture is added, of the class that it shows."""
        name = f"{self.numbers:03d}.png"
        write_picture(self.data / name, self.numbers)
        self.labels[name] = CLASSES[(self.numbers + 1) % 2]
        self.numbers += 1
        self._write_table()

    @precondition(lambda self: len(self.labels) > 4)
    @rule(place=PLACES)
    def remove_picture(self, place):
        """A picture goes."""
        name = self._named(place)
        del self.labels[name]
        (self.data / name).unlink()
        self._write_table()

    @rule(place=PLACES, label=st.sampled_from((*CLASSES, "")))
    def relabel(self, place, label):
        """A picture gets another label, or none."""
        self.labels[self._named(place)] = label
        self._write_table()

    @precondition(lambda self: (self.run / "run.toml").is_file())
    @rule(place=PLACES, name=st.sampled_from(CLASSES), kind=st.sampled_from(("boxes", "absent", "none", "skip")))
    def judge(self, place, name, kind):
        """A person says something of a picture."""
        boxes = ((2.0, 3.0, 20.0, 22.0),) if kind == "boxes" else ()
        verdict = Verdict(self._named(place).removesuffix(".png"), name, kind, boxes)
        add_verdicts(RunFolder(self.run), [verdict])
        self.said[verdict.picture, name] = verdict

    @rule()
    def work(self):
        """The command runs to its end."""
        self._command(self.run)

    @rule(after=st.integers(1, 40))
    def kill(self, after):
        """The command is killed at a rename."""
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # newer Pythons warn of threads, which the child has not
            process = os.fork()
        if process == 0:
            _die_at(after)
            with contextlib.suppress(BaseException):
                self._command(self.run)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) in (0, KILLED)

    @precondition(lambda self: self.run.is_dir())
    @rule(leave=st.booleans())
    def copy(self, leave):
        """The folder is copied or moved, and work goes on there."""
        self.copies += 1
        old, self.run = self.run, self.root / f"RUN {self.copies}"
        shutil.copytree(old, self.run) if leave else old.rename(self.run)
        if leave:
            shutil.rmtree(old)

    @precondition(lambda self: (self.run / "run.toml").is_file())
    @rule()
    def open_twice(self):
        """Another process has the folder: a second one is refused and changes nothing."""
        with RunFolder(self.run).lock():
            before = content(self.run)
            status, lines = self._command(self.run)
            assert status == 2
            assert "is in use by process" in lines[0]
            assert content(self.run) == before

    # ---- what holds ----
    @invariant()
    def no_verdict_is_lost(self):
        """What was said is in the file, however often the process was killed."""
        found = read_verdicts(self.run / "verdicts.jsonl")
        assert found.damaged == ()
        for (picture, name), verdict in self.said.items():
            assert found.of_class(name)[picture] == verdict

    def _check_against_new_folder(self):
        """Check that the run and a new folder on the same pictures, labels and verdicts have the same outcome."""
        if not self.labels:
            return
        new = self.root / "NEW"
        given = []
        if self.said:
            shutil.copy(self.run / "verdicts.jsonl", self.root / "given.jsonl")
            given = ["--verdicts", self.root / "given.jsonl"]
        one, other = self._command(self.run), self._command(new, *given)
        assert one[0] == other[0], (one, other)
        if one[0] == 0:
            assert _features(self.run) == _features(new)
            models = [sorted(path.name for path in (run / "models").iterdir()) for run in (self.run, new)]
            assert models[0] == models[1]
            if _shards(self.run) == _shards(new):  # else sums of features are rounded in another order
                for name in models[0]:
                    assert (self.run / "models" / name).read_bytes() == (new / "models" / name).read_bytes()

    # ---- how ----
    def _named(self, place):
        return sorted(self.labels)[place % len(self.labels)]

    def _write_table(self):
        rows = "".join(f"{name},{label}\n" for name, label in sorted(self.labels.items()))
        (self.data / "labels.csv").write_text("image,label\n" + rows)

    def _command(self, run, *more):
        """Run the command; return its status and what it said, which is a line if it is refused."""
        said, shown = io.StringIO(), io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(shown), pytest.raises(SystemExit) as end:
            main(["run", "--data", "csv", "--root", str(self.data), "--out", str(run), *FAST, *map(str, more)])
        lines = said.getvalue().splitlines()
        assert end.value.code in (0, 2), lines
        if end.value.code == 2:
            assert [line for line in lines if line.startswith("lapsvm: ")] == lines[-1:], lines
        return end.value.code, lines


def _die_at(after):
    """End this process without a word at a rename."""
    rename, left = os.replace, [after]

    def replace(*arguments):
        left[0] -= 1
        if left[0] == 0:
            os._exit(KILLED)
        rename(*arguments)

    os.replace = replace


def _shards(run):
    return [path.read_bytes() for path in sorted(run.glob("shards/trainval/*"))]


def _features(run):
    """Return picture -> its boxes and features."""
    shards = open_shards(run / "shards" / "trainval")
    found = {}
    for index in range(len(shards)):
        for one in shards.read(index).pictures():
            found[one.image_id] = (one.pixel_hash, one.boxes.tobytes(), np.asarray(one.features).tobytes())
    return found


def test_the_life_of_a_run():
    few = settings(
        max_examples=4, stateful_step_count=6, deadline=None, derandomize=not SECONDS, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    for _ in until(SECONDS / 2):
        run_state_machine_as_test(LifeOfARun, settings=few)
