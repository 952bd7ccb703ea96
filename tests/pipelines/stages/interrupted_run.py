"""A run that is interrupted again and again at random moments, half of them in extraction, half later.

::

    python interrupted_run.py SIGNAL TIMES SEED OUT ARGUMENTS...

First the command ``lapsvm ARGUMENTS... --out OUT/undisturbed`` runs to its end and gives the times of its stages.
The same command with ``--out OUT/interrupted`` then gets the signal TIMES times, each time in a new process, and runs
to its end. Every moment is printed. Processes are forked from this one, so that imports are paid once.
"""

import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from lapsvm.pipelines.cli.signals import LINE
from lapsvm.pipelines.commands.verbs import main as lapsvm_main
from lapsvm.pipelines.stages import report, train  # noqa: F401 - imported once, for all forks

import lapsvm.windows  # noqa: F401

MADE_LATER = ("models", "detections", "evaluation.json", "history.csv", "choices.json", "training", "page")


def say(line):
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def start(arguments, out, log):
    """Start a run in a new process and return its id; its output goes into a file."""
    process = os.fork()
    if process:
        return process
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    status = 1
    try:
        lapsvm_main([*arguments, "--out", str(out)])
    except SystemExit as exit_:
        status = exit_.code
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def ended(process, after):
    """Wait some seconds for a process; return its exit status if it ended by itself, else None."""
    end = time.monotonic() + after
    while True:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= end:
            return None
        time.sleep(0.002)


def shards(out):
    """The shards that are there."""
    return sorted(out.glob("shards/*/*.safetensors"))


def whole_run(arguments, out, log):
    """Run to the end and return how long extraction and the rest took."""
    begin = time.monotonic()
    status = ended(start(arguments, out, log), 600)
    assert status == 0, (status, log.read_text())
    seconds = {name: entry["seconds"] for name, entry in json.loads((out / "timings.json").read_text()).items()}
    extraction = sum(value for name, value in seconds.items() if name.startswith("extract"))
    return SimpleNamespace(extraction=extraction, rest=time.monotonic() - begin - extraction, shards=len(shards(out)))


def begin_again(out):
    """Remove all that comes after extraction."""
    for name in MADE_LATER:
        path = out / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def interrupted(arguments, out, log, number, where, delay, wanted):
    """Send a run the signal so long after it began, or after the last shard was there; return its exit status."""
    if where == "extraction" and len(shards(out)) == wanted.shards:
        for path in shards(out)[::2]:
            path.unlink()
    process = start(arguments, out, log)
    while where == "rest" and len(shards(out)) < wanted.shards and ended(process, 0.002) is None:
        pass
    status = ended(process, delay)
    if status is not None:
        return status
    os.kill(process, number)
    status = ended(process, 60)
    there = len(shards(out)), len(list(out.glob("models/*"))), len(list(out.glob("detections/*/*")))
    say(f"{where} + {delay:.3f} s: status {status}; {there[0]} shards, {there[1]} models, {there[2]} detections")
    return status


def main(name, times, seed, folder, *arguments):
    """Do it."""
    out, log, random = Path(folder), Path(folder) / "log", np.random.default_rng(int(seed))
    number = signal.Signals[name]
    wanted = whole_run(arguments, out / "undisturbed", log)
    say(f"seed {seed}: extraction takes {wanted.extraction:.2f} s, the rest {wanted.rest:.2f} s")
    target = out / "interrupted"
    statuses = []
    while len(statuses) < int(times):
        where = "extraction" if len(statuses) < int(times) // 2 else "rest"
        most = wanted.extraction / 2 if where == "extraction" else wanted.rest
        if list(target.glob("models/*")) and random.random() < 0.5:
            begin_again(target)
        status = interrupted(arguments, target, log, number, where, random.uniform(0, most), wanted)
        if status == 0:
            begin_again(target)
            continue
        said = [line for line in log.read_text().splitlines() if line.strip()]
        expected = (-9, []) if number == signal.SIGKILL else (130, [LINE])
        assert (status, said) == expected, (status, said)
        statuses.append(status)
    whole_run(arguments, target, log)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a background shell hands down that it is ignored
    main(*sys.argv[1:])
