"""Regularisation paths: the same problem for several values of C, each started from the previous solution.

A plane below the risk is valid for every C, and the best windows for one C are a start for the next. So each training
of a path starts from the weights, windows and planes of the previous one. The order decides in which local minimum CCCP
ends: from the largest C downwards, a model that fits the labels chooses the first windows; upwards, a strongly
regularised model does, and later windows stay near these.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np

from lapsvm.arrays import Float64
from lapsvm.bags import Bags, BestWindows
from lapsvm.latent.cccp.problem import LatentProblem, LatentSolution
from lapsvm.latent.scheduling.candidates import make_training
from lapsvm.latent.scheduling.pool import Pool


class PathTraining:
    """The trainings of one path in progress, in sequence.

    Attributes
    ----------
    point : (d,) or (0,)
        The last point that a training asked for; an empty one needs no pass, only the update of its candidates.
    solutions : list of LatentSolution
        Those of the trainings that have ended.
    """

    def __init__(self, number: int, path: Sequence[LatentProblem], bags: Bags, pool: Pool | None):
        self._number, self._path, self._bags, self._pool = number, path, bags, pool
        self._current = make_training(path[0], bags, pool)
        self._finished: list[dict[str, Any]] = []
        self._n_reported = 0
        self._steps = self._run()
        self._answer: BestWindows | None = None
        self.point = np.zeros(0)
        self.solutions: list[LatentSolution] = []

    @property
    def has_ended(self) -> bool:
        """Whether every problem has its solution."""
        return len(self.solutions) == len(self._path)

    def receive(self, answer: BestWindows) -> None:
        """Store the answer to the last point."""
        self._answer = self._current.receive(self.point, answer)

    def advance(self) -> None:
        """Run to the next point, or to the end, at which the candidates are released."""
        answer, self._answer = self._answer, None
        try:
            self.point = next(self._steps) if answer is None else self._steps.send(answer)
        except StopIteration:
            self._current.close()

    def report(self, progress: Callable[[int, dict[str, Any]], None] | None) -> None:
        """Pass new records of the history to `progress`."""
        history = self._finished + self._current.history
        for record in history[self._n_reported :]:
            if progress is not None:
                progress(self._number, record)
        self._n_reported = len(history)

    def _run(self) -> Generator[Float64, BestWindows, None]:
        """Yield points and receive their best windows."""
        self.solutions.append((yield from self._current.run()))
        for problem in self._path[1:]:
            previous, self._current = self._current, make_training(problem, self._bags, self._pool)
            self._finished += previous.history
            self.solutions.append((yield from self._current.run(previous)))
