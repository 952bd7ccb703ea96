"""Classes that are refined at the same time: the models of each alone, on as many threads and bytes as there are."""

import time
from pathlib import Path
from threading import Barrier, Lock, get_ident
from threading import enumerate as enumerate_threads
from types import SimpleNamespace

import numpy as np
import pytest
from lapsvm.pipelines.fitting.refining import class_refinement as module
from lapsvm.pipelines.fitting.refining.chains import TrainedModels
from lapsvm.pipelines.fitting.refining.memory import class_bytes, shared_memory, worth_at_once
from lapsvm.pipelines.fitting.refining.pictures import StoredPictures
from lapsvm.pipelines.fitting.refining.refinement import Refinement
from lapsvm.pipelines.products.models import FitTask
from lapsvm.pipelines.run.progress import Reporter
from lapsvm.pipelines.settings.settings import RefineSettings, Settings

from lapsvm.bags import Bags

N, WINDOWS, DIM = 24, 5, 4
NAMES = ("cat", "dog", "cow", "bus", "man")


@pytest.fixture
def classes():
    """Make a refinement of five classes, with threads of its own, and their tasks."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(N * WINDOWS, DIM))
    corners = np.array([[0, 0, 90, 90], [10, 10, 30, 30], [10, 10, 31, 31], [60, 5, 80, 25], [5, 60, 25, 80]])
    boxes, fold = np.tile(corners, (N, 1)).astype(np.float32), np.arange(N) // 2 % 3 + 1
    labels = {name: rng.permutation(np.where(np.arange(N) % 2, -1, 1)).astype(np.int8) for name in NAMES}
    models = {name: TrainedModels(y, fold, rng.normal(size=(DIM, 4))) for name, y in labels.items()}
    settings = Settings(refine=RefineSettings(rounds=2, top=1, candidates=3))
    tasks = [FitTask(name, y, {}, Path(name)) for name, y in labels.items()]

    def classes(threads, at_once):
        bags = Bags(features, np.arange(0, len(features) + 1, WINDOWS), threads=threads)
        pictures = StoredPictures(bags, boxes, np.ones(DIM), tuple(map(str, range(N))), np.ones(DIM, dtype=bool))
        return Refinement(settings, pictures, models, {}, Reporter(True), at_once=at_once), tasks

    return classes


def content(refined):
    """Return all that is saved of a class but seconds."""
    history = [{name: value for name, value in row.items() if name != "seconds"} for row in refined.history]
    return [chain.weights.tobytes() for chain in refined.chains], history, refined.result, refined.notes


@pytest.mark.parametrize(("threads", "at_once"), [(1, 1), (1, 3), (2, 2), (3, 5), (8, 9)])
def test_classes_at_the_same_time_have_the_models_that_each_has_alone(classes, threads, at_once):
    alone, tasks = classes(2, 1)
    expected = {task.name: content(alone.fit(task)) for task in tasks}
    refinement, tasks = classes(threads, at_once)
    with refinement.fit_all(tasks) as found:
        together = [(task.name, content(refined)) for task, refined in found]
    assert [name for name, _ in together] == list(NAMES)
    assert dict(together) == expected


def test_two_classes_are_at_work_at_the_same_time(classes, monkeypatch):
    """The first chain of each of two classes waits until the other is there."""
    refinement, tasks = classes(4, 2)
    waiting = {task.y.tobytes() for task in tasks[:2]}
    refine, barrier = module.refine, Barrier(2, timeout=60)

    def train(problem, *arguments, **options):
        if problem.y.tobytes() in waiting:
            waiting.remove(problem.y.tobytes())
            barrier.wait()
        return refine(problem, *arguments, **options)

    monkeypatch.setattr(module, "refine", train)
    with refinement.fit_all(tasks) as found:
        assert len(list(found)) == 5
    assert not waiting


def test_threads_do_not_multiply(classes, monkeypatch):
    """Twenty chains of five classes that are at work are trained by two threads."""
    refine, lock, at_work, threads = module.refine, Lock(), [], set()

    def train(*arguments, **options):
        with lock:
            threads.add(get_ident())
            at_work.append(at_work[-1] + 1 if at_work else 1)
        solution = refine(*arguments, **options)
        with lock:
            at_work.append(at_work[-1] - 1)
        return solution

    monkeypatch.setattr(module, "refine", train)
    refinement, tasks = classes(2, 5)
    with refinement.fit_all(tasks) as found:
        assert len(list(found)) == 5
    assert len(at_work) == 2 * 5 * 4 * 2  # classes, chains, rounds
    assert (max(at_work), at_work[-1]) == (2, 0)
    assert len(threads) == 2


def collect(refinement, tasks, names, error=None):
    """Collect the names of refined classes; raise an error after the first, if one is given."""
    with refinement.fit_all(tasks) as found:
        for task, _ in found:
            names.append(task.name)
            if error is not None:
                raise error


def endless(problem, *_, progress, **__):
    """Train until progress ends it."""
    for step in range(30_000):
        progress(0, {"gap": 1.0, "passes": step})
        time.sleep(0.001)
    raise AssertionError("a training was not ended")


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_all_trainings_end_where_the_block_raises(classes, monkeypatch, error):
    refinement, tasks = classes(3, 2)
    refine, second = module.refine, tasks[1].y

    def train(problem, *arguments, **options):
        return (endless if np.all(problem.y == second) else refine)(problem, *arguments, **options)

    monkeypatch.setattr(module, "refine", train)
    names = []
    with pytest.raises(error):
        collect(refinement, tasks, names, error)
    assert names == ["cat"]
    assert not [thread.name for thread in enumerate_threads() if thread.name.startswith(("class", "chain"))]


def test_classes_before_one_that_fails_are_returned(classes, monkeypatch):
    refinement, tasks = classes(3, 2)
    refine, third = module.refine, tasks[2].y

    def train(problem, *arguments, **options):
        if np.all(problem.y == third):
            raise ValueError("third")
        return refine(problem, *arguments, **options)

    monkeypatch.setattr(module, "refine", train)
    names = []
    with pytest.raises(ValueError, match="third"):
        collect(refinement, tasks, names)
    assert names == ["cat", "dog"]


@pytest.mark.parametrize(
    ("threads", "chains", "classes", "expected"),
    [(1, 4, 20, 1), (2, 4, 20, 2), (4, 4, 20, 2), (5, 4, 20, 3), (16, 4, 20, 5), (16, 4, 3, 3), (16, 1, 20, 17)],
)
def test_all_threads_have_a_chain_and_one_class_more_is_at_work(threads, chains, classes, expected):
    assert worth_at_once(threads, chains, classes) == expected


@pytest.mark.parametrize("count", [1, 2, 9])
@pytest.mark.parametrize("chains", [1, 4])
def test_a_class_takes_no_more_than_is_counted(count, chains):
    """Positive pictures have all windows in a copy, others as many as their chains keep."""
    sizes, y = np.array([3, 5, 2, 7]), np.array([1, -1, 0, -1], dtype=np.int8)
    copied = 3 + sum(min(size, chains * count) for size in (5, 2, 7))
    candidates = min(copied // 2, 40 * 4)
    assert class_bytes(sizes, y, count, chains, 10) == (10 * copied, chains * (10 * candidates + 17 * 9))
    assert class_bytes(sizes, y, 0, chains, 10) == (0, chains * (10 * 8 + 17 * 9))  # nothing is copied


ROW = 8
HEADER = SimpleNamespace(dim=2, dtype="float32")
SIZES = np.full(10, 400)
LABELS = [np.where(np.arange(10) < positives, 1, -1).astype(np.int8) for positives in (1, 5, 2)]


class Shards(list):
    headers = (HEADER,)


def shared(memory, threads=8, cluster=None, labels=LABELS):
    """Return the request that three classes of ten pictures share."""
    shards = Shards([SimpleNamespace(offsets=np.append(0, np.cumsum(SIZES)))])
    workspace = SimpleNamespace(memory=memory, cluster=cluster, threads=threads)
    settings = Settings(refine=RefineSettings(candidates=3))
    return shared_memory(workspace, settings, shards, labels)


STORED = 400 * 10 * ROW
NEED = class_bytes(SIZES, LABELS[1], 3, 4, ROW)


@pytest.mark.parametrize("at_once", [1, 2, 3])
def test_memory_decides_how_many_classes_are_at_work(at_once):
    """As many as fit beside all windows, each with the memory that the largest needs."""
    memory = STORED + at_once * sum(NEED)
    assert shared(memory).at_once == shared(memory + sum(NEED) - 1).at_once == at_once
    if at_once > 1:
        assert shared(memory) == (STORED, NEED.copies, at_once)
        assert shared(memory - 1).at_once == at_once - 1


@pytest.mark.parametrize("memory", [0, 1000, STORED // 2, STORED, 2 * STORED])
def test_one_class_at_a_time_leaves_what_it_needs(memory):
    """Copies get three quarters of what candidates and scores leave, or what half of all windows take, or one chain."""
    found, alone = shared(memory, threads=1), class_bytes(SIZES, LABELS[1], 3, 1, ROW).copies
    left = max(memory - NEED.beside, 0)
    assert found == (max(left - found.copies, 0), max(min(left * 3 // 4, STORED // 2), alone), 1)
    assert memory < NEED.beside + alone or found.stored + found.copies + NEED.beside == memory


def test_where_memory_is_unknown_classes_take_what_the_windows_take(monkeypatch):
    monkeypatch.setattr("lapsvm.pipelines.fitting.refining.memory.as_bytes", lambda _: None)
    assert shared(None) == (None, None, max(1, STORED // sum(NEED)))
    assert shared(None, cluster=object()) == (None, None, 1)


def test_without_labels_one_class_is_at_work():
    assert shared(10**6, labels=()) == (10**6 - STORED // 2, STORED // 2, 1)
