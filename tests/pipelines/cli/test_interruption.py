"""Ctrl-C at any moment: one line, exit status 130, and the same command continues."""

import os
import signal
import subprocess
import sys
import time

import pytest
from lapsvm.pipelines.cli.application import handled, interruptible
from lapsvm.pipelines.cli.signals import LINE
from lapsvm.pipelines.products import detections
from lapsvm.pipelines.shards import jobs
from lapsvm.pipelines.stages import evaluate, report, train

BEGIN = (
    "import sys; from lapsvm.pipelines.commands.entry import main; sys.stdout.write('x'); sys.stdout.flush(); main()"
)
WAITING = """
import sys, time
from lapsvm.pipelines.cli.application import interruptible
with interruptible():
    try:
        sys.stdout.write("x"); sys.stdout.flush()
        time.sleep(60)
    except KeyboardInterrupt:
        sys.stdout.write("y"); sys.stdout.flush()
        time.sleep(60)
"""


def _listen_to_ctrl_c():
    """Undo a background shell's setting: SIGINT ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def started(code, *arguments):
    """Start Python on some code, never on the folder it is called in, and wait for its first sign of life."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=_listen_to_ctrl_c,  # noqa: PLW1509 - nothing but a signal is set
    )
    assert process.stdout.read(1) == b"x"
    return process


@pytest.mark.parametrize(
    ("delay", "number"),
    [(0.01, signal.SIGINT), (0.08, signal.SIGTERM), (0.25, signal.SIGINT), (0.4, signal.SIGTERM)],
)
def test_the_first_tenths_of_a_second_are_no_exception(digits, tmp_path, fast, delay, number):
    process = started(BEGIN, "run", "--data", "voc", "--root", digits, "--out", tmp_path / "RUN", "--quiet", *fast)
    time.sleep(delay)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert said.decode().strip() == LINE


def test_a_second_time_ends_what_does_not_end_by_itself():
    process = started(WAITING)
    process.send_signal(signal.SIGINT)
    assert process.stdout.read(1) == b"y"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 130
    assert said.decode() == LINE + "\n"


def interrupt(*_, **__):
    """What Ctrl-C does."""
    signal.raise_signal(signal.SIGINT)


def interrupt_while_importing(*_, **__):
    """What Ctrl-C does while a compiled module is imported: it becomes another exception."""
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        raise ImportError("numpy._core.multiarray failed to import") from None


@pytest.mark.parametrize(
    ("module", "name", "happens"),
    [
        (jobs, "write_shard", interrupt),
        (train, "write_history", interrupt),
        (detections, "write_results", interrupt),
        (evaluate, "write_json", interrupt),
        (report, "write_page", interrupt),
        (train, "training_bags", interrupt_while_importing),
    ],
)
def test_every_stage_is_interrupted_in_one_line_and_continues(
    finished, digits, tmp_path, fast, command, made, monkeypatch, module, name, happens
):
    line = ["run", "--data", "voc", "--root", digits, "--out", tmp_path / "RUN", "--quiet", "--jobs", 1, *fast]
    with monkeypatch.context() as patched:
        patched.setattr(module, name, happens)
        said = command(*line)
    assert said.status == 130
    assert said.err.strip() == LINE
    assert not list((tmp_path / "RUN").rglob("*.partial"))
    assert command(*line).status == 0
    assert made(tmp_path / "RUN") == made(finished)


def test_a_signal_that_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interruptible() as interruption:
            os.kill(os.getpid(), signal.SIGINT)
        assert not interruption.came
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_handlers_and_the_hook_are_what_they_were_afterwards():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM), sys.unraisablehook
    with pytest.raises(KeyboardInterrupt), interruptible():
        signal.raise_signal(signal.SIGTERM)
    with handled(interrupt):
        pass
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM), sys.unraisablehook) == before
