"""Bags whose windows other processes hold: two workers of a local cluster."""

import logging
import os
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from lapsvm import cluster as cluster_module
from lapsvm.bags import Bags
from lapsvm.bfloat16 import BFLOAT16, type_name
from lapsvm.cluster import check_executor, open_cluster
from lapsvm.errors import ClusterError, DependencyError, LapsvmError, NotFiniteError, OptionError, ShardError
from lapsvm.features import BlockNorms, read_shard, write_shard
from lapsvm.latent import LatentProblem, PassCounts, fit_many
from lapsvm.testing.bags import BagsLaws

from .windows import answers, drawn, write_run

pytest.importorskip("distributed", reason="dask is not installed")
pytestmark = pytest.mark.slow


OWN_PLACE = Path("/proc/self/cwd")
"""A folder that is another one for every process, as one of the same path is on another machine."""

apart = pytest.mark.skipif(not OWN_PLACE.exists(), reason="no path here leads every process elsewhere")


@pytest.fixture(scope="module")
def cluster():
    """Two processes, and what they have told so far."""
    told = []
    with open_cluster("dask", 2, notify=told.append) as opened:
        opened.told = told
        yield opened


def until(there):
    """Wait until something is true, for half a minute."""
    end = time.monotonic() + 30
    while not there() and time.monotonic() < end:
        time.sleep(0.1)


def two_workers(cluster):
    """Wait until two workers are there, one perhaps anew; return their addresses."""
    until(lambda: len(cluster.workers()) == 2)
    return list(cluster.workers())


class Held(BagsLaws):
    dtype, per_shard, memory = np.float16, 2, None

    @pytest.fixture(autouse=True)
    def _with(self, cluster):
        self._cluster = cluster

    def make(self, arrays):
        self._folder = TemporaryDirectory()
        run = write_run(Path(self._folder.name), arrays, self.dtype, self.per_shard)
        return Bags.open(run, "trainval", memory=self.memory, cluster=self._cluster)


class TestInTheirMemory(Held):
    pass


class TestUpperHalvesOfEachPicture(Held):
    dtype, per_shard = BFLOAT16, 1


class TestHalfInTheirFiles(Held):
    dtype, per_shard, memory = np.float32, 1, 37 * 4 * 170


@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16, np.float32], ids=type_name)
@pytest.mark.parametrize("memory", [None, 20_000, 0])
def test_workers_change_not_a_bit_of_any_answer(dtype, memory, cluster, tmp_path):
    arrays, scale = drawn(dtype), np.random.default_rng(2).random(21)
    run = write_run(tmp_path, arrays, dtype, 4)
    bags = Bags.open(run, "trainval", scale, memory=memory, cluster=cluster)
    for found, wanted in zip(answers(bags), answers(Bags.from_arrays(arrays, scale)), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("candidates", [0, 5])
def test_training_is_the_same_bit_for_bit(candidates, cluster, tmp_path):
    arrays, y = drawn(), np.where(np.arange(30) % 3 == 0, 1, -1)
    problems = [LatentProblem(y, C=C) for C in (0.1, 1.0)]
    bags = Bags.open(write_run(tmp_path, arrays, np.float16, 4), "trainval", cluster=cluster)
    here = fit_many(problems, Bags.from_arrays(arrays), candidates=candidates)
    for found, wanted in zip(fit_many(problems, bags, candidates=candidates), here, strict=True):
        assert abs(found.objective - wanted.objective) <= 1e-6 * wanted.objective
        np.testing.assert_array_equal(found.coef, wanted.coef)


def test_each_worker_holds_some_shards_and_reads_them_once(cluster, tmp_path):
    run = write_run(tmp_path, drawn(), np.float16, 4)
    bags = Bags.open(run, "trainval", cluster=cluster)
    shares = bags._store.remote.assignment
    assert sorted(part for parts in shares.values() for part in parts) == list(range(8))
    assert set(shares) == set(two_workers(cluster))
    assert min(map(len, shares.values())) >= 3
    before = bags.best(np.ones(21))
    shutil.rmtree(run)
    np.testing.assert_array_equal(bags.best(np.ones(21)).score, before.score)
    assert bags._store.remote.assignment == shares


def test_only_weights_and_winners_travel(cluster, tmp_path):
    arrays, k = [np.ones((200, 64), dtype=np.float16)] * 60, 8
    bags = Bags.open(write_run(tmp_path, arrays, np.float16, 10), "trainval", cluster=cluster)
    weights = np.random.default_rng(0).normal(size=(64, k))
    bags.best(weights)  # where bags begin and end travels once
    sent, received = cluster.sent, cluster.received
    bags.best(weights)
    most_words = 2000  # of a request or an answer, beside numbers
    assert cluster.sent - sent <= 2 * (weights.nbytes + most_words)
    assert cluster.received - received <= 60 * k * 16 + 2 * most_words
    assert cluster.received - received < sum(array.nbytes for array in arrays) / 100


def test_a_pass_costs_what_it_costs_whatever_the_windows_are(cluster, tmp_path):
    problem, y = PassCounts(), np.where(np.arange(30) % 3 == 0, 1, -1)
    bags = Bags.open(write_run(tmp_path, drawn(), np.float16, 4), "trainval", cluster=cluster)
    received = cluster.received
    fit_many([LatentProblem(y)], bags, candidates=0, pass_counts=problem)
    assert cluster.received - received < problem.bytes_read


def test_shards_are_visited_and_changed_where_they_are_held(cluster, tmp_path):
    arrays = drawn()
    run = write_run(tmp_path, arrays, np.float16, 4)
    here, there = BlockNorms([5, 16]), BlockNorms([5, 16])
    Bags.open(run, "trainval", visit=here)
    Bags.open(run, "trainval", visit=there, cluster=cluster)
    np.testing.assert_array_equal(there.means, here.means)
    bags = Bags.open(run, "trainval", transform=np.negative, cluster=cluster)
    np.testing.assert_array_equal(bags[3], -np.asarray(arrays[3], dtype=float))


@pytest.mark.parametrize("harm", ["in mid-pass", "between passes"])
def test_a_worker_that_is_killed_is_made_up_for(harm, cluster, tmp_path):
    arrays = drawn()
    bags = Bags.open(write_run(tmp_path, arrays, np.float16, 4), "trainval", cluster=cluster)
    weights = np.random.default_rng(1).normal(size=(21, 3))
    expected = Bags.from_arrays(arrays).best(weights)
    bags.best(weights)
    worker = two_workers(cluster)[0]
    pid = cluster.submit(os.getpid, worker=worker).result()
    os.kill(pid, signal.SIGSTOP if harm == "in mid-pass" else signal.SIGKILL)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(bags.best, weights)
        if harm == "in mid-pass":
            time.sleep(1)
            assert not answer.done()
            os.kill(pid, signal.SIGKILL)
        found = answer.result(60)
    np.testing.assert_array_equal(found.index, expected.index)
    np.testing.assert_array_equal(found.score, expected.score)
    assert any(sentence.startswith(f"worker {worker} is lost; others take over its ") for sentence in cluster.told)
    assert len(two_workers(cluster)) == 2
    for _ in range(2):
        np.testing.assert_array_equal(bags.best(weights).index, expected.index)
    assert len(bags._store.remote.assignment) == 2  # the one that came anew has its part of the work


def test_training_goes_on_when_a_worker_is_killed(cluster, tmp_path):
    arrays, y = drawn(), np.where(np.arange(30) % 3 == 0, 1, -1)
    bags = Bags.open(write_run(tmp_path, arrays, np.float16, 4), "trainval", cluster=cluster)
    pids = [cluster.submit(os.getpid, worker=worker).result() for worker in two_workers(cluster)]

    def kill_one(*_):
        if pids:
            os.kill(pids.pop(), signal.SIGKILL)
            pids.clear()

    (found,) = fit_many([LatentProblem(y)], bags, kill_one, candidates=5)
    (wanted,) = fit_many([LatentProblem(y)], Bags.from_arrays(arrays), candidates=5)
    assert not pids
    np.testing.assert_array_equal(found.coef, wanted.coef)


def at_another_place(run, cluster, worker):
    """Make a run folder that one worker alone sees otherwise: its working directory is another one."""
    own = run.parent / "own" / run.name
    shutil.copytree(run, own)
    cluster.submit(os.chdir, own.parent, worker=worker).result()
    cluster.submit(os.chdir, run.parent, worker=next(one for one in two_workers(cluster) if one != worker)).result()
    return own


@apart
@pytest.mark.parametrize("harm", ["gone", "another one", "damaged"])
def test_a_shard_that_one_machine_has_not_is_read_by_another(harm, cluster, tmp_path, monkeypatch):
    arrays = drawn()
    run = write_run(tmp_path / "RUN", arrays, np.float16, 4)
    worker = two_workers(cluster)[0]
    shards = at_another_place(run, cluster, worker) / "shards" / "trainval"
    harmed = shards / "0000008.safetensors"
    for path in shards.iterdir():
        if harm == "gone":
            path.unlink()
        elif harm == "another one":
            shutil.copy(shards / "0000000.safetensors", path) if path.name != "0000000.safetensors" else None
        else:
            content = bytearray(path.read_bytes())
            content[-2000] ^= 1
            path.write_bytes(content)
    monkeypatch.chdir(tmp_path)
    cluster.told.clear()
    bags = Bags.open(OWN_PLACE / "RUN", "trainval", cluster=cluster)
    np.testing.assert_array_equal(bags.best(np.ones(21)).score, Bags.from_arrays(arrays).best(np.ones(21)).score)
    sentence = {"gone": "is not there", "another one": "has another content than", "damaged": "is damaged"}[harm]
    assert any(
        said.startswith(f"worker {worker} cannot read a shard, another one takes over: shard ") and sentence in said
        for said in cluster.told
    )
    assert harmed.parent.exists()


@apart
def test_a_shard_that_no_worker_has_is_told(cluster, tmp_path, monkeypatch):
    write_run(tmp_path / "RUN", drawn(), np.float16, 4)
    for worker in two_workers(cluster):
        cluster.submit(os.chdir, "/", worker=worker).result()
    monkeypatch.chdir(tmp_path)
    told = r"^shard /proc/self/cwd/RUN/.*0\.safetensors must be readable on a worker, got on tcp://.* is not there\.$"
    with pytest.raises(ShardError, match=told):
        Bags.open(OWN_PLACE / "RUN", "trainval", cluster=cluster)


def test_a_shard_that_goes_while_it_is_in_use_is_told(cluster, tmp_path):
    run = write_run(tmp_path, drawn(), np.float16, 4)
    bags = Bags.open(run, "trainval", memory=0, cluster=cluster)
    (run / "shards" / "trainval" / "0000024.safetensors").unlink()
    with pytest.raises(ShardError, match=r"0000024\.safetensors must be readable on a worker, got on tcp://"):
        bags.best(np.ones(21))


def test_what_is_not_finite_is_told(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr("lapsvm.features.shards.shard_file.check_windows_are_finite", lambda _: None)
    run = write_run(tmp_path, drawn(), np.float16, 30)
    (path,) = (run / "shards" / "trainval").iterdir()
    shard = read_shard(path)
    shard.features[0] = np.inf
    write_shard(path, shard)
    with pytest.raises(NotFiniteError, match=r"got NaN or infinity in window 0 of shard .*\.safetensors"):
        Bags.open(run, "trainval", cluster=cluster)


def test_what_work_raises_is_raised_here(cluster):
    with pytest.raises(ValueError, match="invalid literal"):
        cluster.submit(int, "x").result()


def test_two_stores_may_be_asked_by_turns(cluster, tmp_path):
    arrays = drawn()
    first = Bags.open(write_run(tmp_path / "a", arrays, np.float16, 4), "trainval", cluster=cluster)
    second = Bags.open(write_run(tmp_path / "b", arrays[:9], np.float16, 4), "trainval", cluster=cluster)
    for bags, own in ((first, arrays), (second, arrays[:9]), (first, arrays)):
        expected = Bags.from_arrays(own).best(np.ones(21))
        np.testing.assert_array_equal(bags.best(np.ones(21)).index, expected.index)


def test_a_scheduler_that_is_not_there():
    begin = time.monotonic()
    with (
        pytest.raises(ClusterError, match=r"^no scheduler answers at tcp://127\.0\.0\.1:9 within 1 s; start one with"),
        open_cluster("dask:tcp://127.0.0.1:9", 2, timeout=1),
    ):
        pass
    assert time.monotonic() - begin < 20


def test_a_scheduler_without_workers(monkeypatch):
    from distributed import LocalCluster

    with LocalCluster(n_workers=0, dashboard_address=None, scheduler_kwargs={"dashboard_address": ":0"}) as empty:
        address = empty.scheduler_address
        told = f"^the scheduler at {address} has no worker after 1 s; start some with dask worker {address}"
        with pytest.raises(ClusterError, match=told), open_cluster(f"dask:{address}", 2, timeout=1):
            pass


def test_workers_that_all_go_and_a_scheduler_that_goes(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_module, "PATIENCE_SECONDS", 1)
    from distributed import LocalCluster

    run = write_run(tmp_path, drawn(), np.float16, 4)
    scheduler = {"dashboard_address": "127.0.0.1:0"}
    with (
        LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            dashboard_address=None,
            scheduler_kwargs=scheduler,
            silence_logs="CRITICAL",
        ) as own,
        open_cluster(f"dask:{own.scheduler_address}", 2) as connected,
    ):
        bags = Bags.open(run, "trainval", cluster=connected)
        own.scale(0)
        until(lambda: not connected.workers())
        with pytest.raises(ClusterError, match="has had no worker for 1 s"):
            bags.best(np.ones(21))
        own.close()
        with pytest.raises(ClusterError, match=r"^the scheduler at .* is lost; finished work is kept"):
            bags.best(np.ones(21))


def test_a_call_to_the_only_worker_is_made_by_the_next_one():
    with open_cluster("dask", 1) as own:
        (worker,) = own.workers()
        pid = own.submit(os.getpid, worker=worker).result()
        os.kill(pid, signal.SIGSTOP)
        call = own.submit(os.getpid, worker=worker)
        os.kill(pid, signal.SIGKILL)
        assert call.result() != pid


def test_work_that_kills_its_workers_is_given_up(monkeypatch):
    with (
        open_cluster("dask", 1) as own,
        pytest.raises(ClusterError, match=r"^the same call lost several workers at"),
    ):
        own.submit(os._exit, 1).result()


@pytest.mark.parametrize("part", ["client", "batched", "comm.tcp", "core"])
def test_dask_does_not_log_what_is_raised(cluster, part):
    assert not logging.getLogger(f"distributed.{part}").isEnabledFor(logging.ERROR)


def test_a_connection_finds_the_workers_that_are_there(cluster, tmp_path):
    arrays = drawn()
    with open_cluster(f"dask:{cluster.address}", 1) as connected:
        assert connected.workers() == cluster.workers()
        bags = Bags.open(write_run(tmp_path, arrays, np.float16, 4), "trainval", cluster=connected)
        np.testing.assert_array_equal(bags.best(np.ones(21)).index, Bags.from_arrays(arrays).best(np.ones(21)).index)


def test_another_version_on_a_worker_is_told(cluster, monkeypatch):
    monkeypatch.setattr("lapsvm.__version__", "9.9")
    with (
        pytest.raises(ClusterError, match=r"^worker tcp://.* must have lapsvm 9\.9 as this process has, got "),
        open_cluster(f"dask:{cluster.address}", 1),
    ):
        pass


def test_a_worker_without_lapsvm_is_told(cluster, tmp_path, monkeypatch):
    (tmp_path / "here_alone.py").write_text("def version():\n    return '1'\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(cluster_module, "installed_version", __import__("here_alone").version)
    told = r"^the scheduler at tcp://.* and worker tcp://.* must have lapsvm 1 as this process has, and one of them has"
    with pytest.raises(ClusterError, match=told), open_cluster(f"dask:{cluster.address}", 1):
        pass


def test_without_dask_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(DependencyError, match=r'not installed; pip install "\.\[dask\]"'), open_cluster("dask", 1):
        pass


@pytest.mark.parametrize(
    "text", ["dask", "dask:tcp://host:8786", "dask:10.0.0.1:8786", "dask:tls://a.b:1", "dask:[::1]:8"]
)
def test_executors_that_are_some(text):
    assert check_executor(text) == text.removeprefix("dask").removeprefix(":")
    assert check_executor("local") is None


@pytest.mark.parametrize(
    "text", ["", "Dask", "dask:", "dask:host", "dask:http://host:80", "dask:tcp://host", "spark", "local:8"]
)
def test_executors_that_are_none(text):
    with pytest.raises(
        OptionError, match=r"^executor must be local, dask or dask:ADDRESS such as dask:tcp://host:8786"
    ):
        check_executor(text)


def test_errors_are_of_the_tree():
    assert issubclass(ClusterError, LapsvmError)
    assert issubclass(ClusterError, OSError)
