"""The trainer: the same solutions for any number of problems in a batch, and every outer step is received."""

import warnings
from concurrent.futures import CancelledError, ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest
from lapsvm.pipelines.fitting import fit as trainer
from lapsvm.pipelines.fitting.fit import fit_side_by_side, training_progress
from lapsvm.pipelines.run.progress import Reporter
from sklearn.exceptions import ConvergenceWarning

from lapsvm.bags import Bags
from lapsvm.latent import LatentProblem, fit_many

VALUES = [[1.0], [10.0, 0.1], [0.01]]


@pytest.fixture
def bags():
    rng = np.random.default_rng(0)
    return Bags.from_arrays([rng.normal(i < 6, 1.0, (5, 8)) for i in range(16)])


@pytest.fixture
def problems():
    y = np.where(np.arange(16) < 6, 1, -1).astype(np.int8)
    return [LatentProblem(y, C=values[0]) for values in VALUES]


class Received:
    def __init__(self):
        self.indices = set()

    def update(self, index, record):
        assert record["objective"] >= 0
        self.indices.add(index)


@pytest.mark.parametrize("size", [1, 2, 512])
def test_batches_change_no_solution(bags, problems, size, monkeypatch):
    expected = [solution.coef.tobytes() for solution in fit_many(problems, bags)]
    own = [[problem.C] for problem in problems]
    monkeypatch.setattr(trainer, "SIDE_BY_SIDE", size)
    received = Received()
    solved = fit_side_by_side(problems, own, bags, received)
    assert [solution.coef.tobytes() for (solution,) in solved] == expected
    assert received.indices == {0, 1, 2}
    paths = fit_side_by_side(problems, VALUES, bags, Received())
    assert [len(path) for path in paths] == [1, 2, 1]
    assert paths[2][0].coef.tobytes() == expected[2]


def test_trainings_that_stop_early_are_reported_after_the_bar(bags, problems, capsys):
    short = [LatentProblem(problem.y, C=100.0, max_iter=1) for problem in problems for _ in range(2)]
    with training_progress(Reporter(), "train", ["cat"] * 6) as progress:
        fit_side_by_side(short, [[problem.C] for problem in short], bags, progress)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4
    assert all(line.startswith("train: training stopped at a duality gap of ") for line in lines[:3])
    assert lines[3] == "train: 3 more of 6 trainings stopped early."


def test_trainings_on_threads_return_in_order_and_end_when_one_fails():
    """One that is interrupted, or fails, ends the others at their next outer step."""
    with training_progress(Reporter(quiet=True), "train", ["cat"] * 2) as progress, ThreadPoolExecutor(2) as pool:
        assert progress.run(lambda number, name: (number, name), pool, [0, 1], ["a", "b"]) == [(0, "a"), (1, "b")]
        started, ended = Event(), []

        def train(number):
            if number == 0:
                started.wait()
                raise KeyboardInterrupt
            started.set()
            try:
                while True:
                    progress.update(number, {"gap": 0.1, "passes": 1})
            except CancelledError:
                ended.append(number)
                raise

        with pytest.raises(KeyboardInterrupt):
            progress.run(train, pool, [0, 1])
    assert ended == [1]


def test_a_warning_names_what_its_thread_trains(capsys):
    def train(number):
        progress.title = f"refine class {number}"
        warnings.warn(f"stopped {number}", ConvergenceWarning, stacklevel=1)

    with training_progress(Reporter(), "refine", ["cat", "dog"]) as progress, ThreadPoolExecutor(2) as pool:
        progress.run(train, pool, [0, 1])
        warnings.warn("stopped early", ConvergenceWarning, stacklevel=1)
    lines = ["refine class 0: stopped 0", "refine class 1: stopped 1", "refine: stopped early"]
    assert sorted(capsys.readouterr().err.splitlines()) == sorted(lines)
