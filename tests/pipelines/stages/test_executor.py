"""Runs whose shards are made, and whose windows are held, by other processes."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest
from lapsvm.pipelines.stages.data_checks import pictures

from lapsvm.catalog import CheckedPicture
from lapsvm.cluster import open_cluster

pytest.importorskip("distributed", reason="dask is not installed")


@pytest.fixture(scope="module")
def cluster():
    with open_cluster("dask", 2) as opened:
        yield opened


@pytest.mark.slow
def test_projection_and_refinement_by_other_processes_make_the_same_bytes(
    cluster, digits, tmp_path, command, made, fast
):
    executor = {"here": "local", "there": f"dask:{cluster.address}"}
    for out, where in executor.items():
        more = ["--executor", where, "--pca", ".9", "--refine", "1", *fast]
        result = command("run", "--data", "voc", "--root", digits, "--out", tmp_path / out, "--quiet", *more)
        assert result.status == 0, result.err
    assert made(tmp_path / "there") == made(tmp_path / "here")
    here, there = (json.loads((tmp_path / out / "timings.json").read_text()) for out in executor)
    assert there["extract trainval"]["windows"] == here["extract trainval"]["windows"]
    assert there["train"]["bytes_received"] > 0
    assert cluster.workers()


class Processes:
    """A scheduler and workers as separate commands, which can be killed."""

    def __init__(self, folder):
        file = folder / "scheduler.json"
        self.scheduler = self._start("scheduler", "--port", "0", "--host", "127.0.0.1", "--scheduler-file", file)
        while self.scheduler.poll() is None and not (file.exists() and file.read_text().endswith("}")):
            time.sleep(0.05)
        self.address = json.loads(file.read_text())["address"]
        self.workers = [self._worker(), self._worker()]

    def _start(self, name, *options):
        line = [sys.executable, "-m", f"distributed.cli.dask_{name}", *map(str, options), "--no-dashboard"]
        return subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def _worker(self):
        return self._start("worker", self.address, "--no-nanny", "--nthreads", "1", "--memory-limit", "0")

    def replace_worker(self, number):
        """Kill a worker, and start another one."""
        self.workers[number].kill()
        self.workers[number].wait()
        self.workers[number] = self._worker()

    def end(self):
        """Kill all."""
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


@pytest.fixture
def processes(tmp_path):
    """A scheduler and two workers of their own."""
    started = Processes(tmp_path)
    yield started
    started.end()


@pytest.mark.slow
def test_a_run_whose_workers_are_killed_again_and_again_makes_the_same_bytes(
    processes, digits, finished, tmp_path, made, fast
):
    out, chance = tmp_path / "RUN", random.Random(1)  # noqa: S311
    arguments = ["run", "--data", "voc", "--root", digits, "--out", out, "--quiet", *fast]
    line = [sys.executable, "-m", "lapsvm.pipelines", *map(str, arguments), "--executor", f"dask:{processes.address}"]
    begun, kills = subprocess.Popen(line, stderr=subprocess.PIPE, text=True), 0
    while begun.poll() is None:
        if not (out / "run.toml").exists():  # the first worker is awaited for ten seconds alone
            time.sleep(0.05)
            continue
        if kills < 3:  # a shard whose workers died four times is given up
            processes.replace_worker(chance.randrange(2))
            kills += 1
        time.sleep(chance.uniform(2, 5))
    assert (begun.returncode, begun.communicate()[1]) == (0, "")
    assert kills > 1
    assert made(out) == made(finished)


@pytest.mark.slow
@pytest.mark.parametrize("sign", ["run.toml", "training/*"])
def test_a_run_whose_scheduler_is_killed_says_a_line_and_continues(
    processes, digits, finished, tmp_path, made, fast, sign, command
):
    out = tmp_path / "RUN"
    arguments = ["run", "--data", "voc", "--root", digits, "--out", out, "--quiet", *fast]
    line = [sys.executable, "-m", "lapsvm.pipelines", *map(str, arguments), "--executor", f"dask:{processes.address}"]
    begun = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
    while begun.poll() is None and not list(out.glob(sign)):
        time.sleep(0.01)
    processes.scheduler.kill()
    _, said = begun.communicate(timeout=120)
    lost = f"the scheduler at {processes.address} is lost; finished work is kept, and the same command continues."
    assert (begun.returncode, said) == (2, f"lapsvm: {lost}\n")
    assert command(*arguments).status == 0
    assert made(out) == made(finished)


@pytest.mark.slow
def test_an_interrupted_run_says_one_line_and_leaves_no_process(
    digits, finished, tmp_path, command, made, fast_extraction
):
    out = tmp_path / "RUN"
    arguments = ["extract", "--data", "voc", "--root", digits, "--out", out, "--quiet", *fast_extraction]
    line = [sys.executable, "-m", "lapsvm.pipelines", *map(str, arguments), "--executor", "dask", "--jobs", "2"]
    for sign in ("run.toml", "shards/trainval/0000000.safetensors"):
        begun = subprocess.Popen(line, start_new_session=True, stderr=subprocess.PIPE, text=True)
        while not (out / sign).exists() and begun.poll() is None:
            time.sleep(0.01)
        os.killpg(begun.pid, signal.SIGINT)  # as a terminal does: to workers as well
        said = begun.communicate(timeout=60)[1]
        # the last one: Python takes its handlers away in the last moments of a process, when all is done
        assert (begun.returncode, said.count("\n")) in {(130, 1), (0, 0), (-signal.SIGINT, 0)}, said
        with pytest.raises(ProcessLookupError):
            wait_until_gone(begun.pid)
    assert command(*arguments).status == 0
    assert made(out, "shards/*/*") == made(finished, "shards/*/*")


def wait_until_gone(group):
    """Raise ProcessLookupError once no process of a group is left."""
    for _ in range(100):
        os.killpg(group, 0)
        time.sleep(0.1)


@pytest.mark.slow
def test_a_picture_that_a_worker_cannot_read_is_told_with_its_name(
    cluster, digits, tmp_path, refused, fast_extraction, monkeypatch
):
    # a hash of its own: as if it was damaged after the check
    monkeypatch.setattr(pictures, "check_image", lambda path: CheckedPicture(str(path)))
    root = shutil.copytree(digits, tmp_path / "data")
    broken = sorted((root / "JPEGImages").iterdir())[0]
    broken.write_bytes(broken.read_bytes()[:300])
    arguments = ["extract", "--data", "voc", "--root", root, "--out", tmp_path / "RUN", "--quiet", *fast_extraction]
    sentence = refused(*arguments, "--executor", f"dask:{cluster.address}")
    assert broken.name in sentence
    assert sentence.startswith("lapsvm: worker tcp://127.0.0.1:")
    assert not list((tmp_path / "RUN" / "shards").glob("*/.*"))


def test_an_executor_that_is_none_is_told_before_any_work(tmp_path, digits, refused):
    told = "lapsvm: executor must be local, dask or dask:ADDRESS such as dask:tcp://host:8786, got 'spark'.\n"
    for verb in ("run", "extract"):
        arguments = [verb, "--data", "voc", "--root", digits, "--out", tmp_path / "RUN", "--executor", "spark"]
        assert refused(*arguments) == told
    assert not (tmp_path / "RUN").exists()


@pytest.mark.parametrize("verb", ["train", "tune", "refine"])
def test_every_verb_that_trains_takes_an_executor(verb, finished, refused):
    assert "got 'spark'" in refused(verb, "--out", finished, "--executor", "spark")


def test_a_scheduler_that_is_not_there_is_told(run_copy, refused, monkeypatch):
    monkeypatch.setattr("lapsvm.pipelines.stages.registry.CONNECT_SECONDS", 1.0)
    begin = time.monotonic()
    sentence = refused("train", "--out", run_copy, "--redo", "--executor", "dask:tcp://127.0.0.1:9")
    assert sentence.startswith("lapsvm: no scheduler answers at tcp://127.0.0.1:9 within 1 s; start one with dask ")
    assert time.monotonic() - begin < 20
    assert list((run_copy / "models").iterdir())


def test_dask_is_not_loaded_where_it_is_not_asked_for():
    imports = "import sys, lapsvm.pipelines.stages.registry, lapsvm.bags.stores.remote, lapsvm.bags.stores.gpu"
    code = f"{imports}; assert not {{'dask', 'distributed', 'torch'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
