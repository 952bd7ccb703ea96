"""Shared passes: generators that ask for the best windows of weight vectors, answered together."""

from collections.abc import Callable, Generator, Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from lapsvm.arrays import Float64
from lapsvm.bags import Bags, BestWindows
from lapsvm.blas import one_blas_thread

T = TypeVar("T")


class Asking(Protocol):
    """What asks for points: a training, or several one after the other."""

    @property
    def history(self) -> list[dict[str, Any]]:
        """The records of the outer steps so far."""
        ...

    def seen(self, w: Float64, answer: BestWindows) -> BestWindows:
        """Return what a pass over all windows says of those that matter here."""
        ...


def side_by_side(
    askers: Sequence[tuple[Asking, Generator[Float64, BestWindows, T]]],
    bags: Bags,
    progress: Callable[[int, dict[str, Any]], None] | None,
) -> list[T]:
    """Answer the points of all generators from one pass after the other; return what they return, in their order."""
    running = [_Running(place, *one) for place, one in enumerate(askers)]
    with one_blas_thread():
        found = _drive(running, bags, progress)
    return [found[place] for place in range(len(askers))]


def _drive(
    running: list["_Running[T]"], bags: Bags, progress: Callable[[int, dict[str, Any]], None] | None
) -> dict[int, T]:
    """Answer until all have returned; return the answers by place."""
    solutions: dict[int, T] = {}
    answers: list[BestWindows | None] = [None] * len(running)
    while running:
        asking, points = [], []
        for one, answer in zip(running, answers, strict=True):
            try:
                points.append(one.send(answer, progress))
                asking.append(one)
            except StopIteration as end:
                solutions[one.place] = end.value
        running = asking
        if running:
            found = bags.best(np.stack(points, axis=1))
            answers = [found.column(j) for j in range(len(points))]
    return solutions


class _Running(Generic[T]):
    """A training in progress, its history told as it grows."""

    def __init__(self, place: int, training: Asking, passes: Generator[Float64, BestWindows, T]):
        self.place, self._passes, self._training, self._told = place, passes, training, 0
        self._asked = np.zeros(0)

    def send(self, answer: BestWindows | None, progress: Callable[[int, dict[str, Any]], None] | None) -> Float64:
        """Return the next point; StopIteration carries the solution."""
        try:
            seen = None if answer is None else self._training.seen(self._asked, answer)
            self._asked = next(self._passes) if seen is None else self._passes.send(seen)
            return self._asked
        finally:
            history = self._training.history
            for record in history[self._told :]:
                if progress is not None:
                    progress(self.place, record)
            self._told = len(history)
