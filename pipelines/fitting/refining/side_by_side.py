"""Several classes at the same time: each on a thread of its own, the trainings of all on the threads of one pool."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from typing import Any, NamedTuple, TypeVar

from lapsvm.blas import one_blas_thread

from ...run.progress import Reporter
from ...shards.prefetch import PREFETCHED, prefetched
from ..fit import TrainingProgress, training_progress

T = TypeVar("T")
Update = Callable[[dict[str, Any]], None]
"""Receives the record of every outer step of a training; raises CancelledError to end it."""


class ClassTrainings(NamedTuple):
    """The trainings of one class, which share progress and threads with other classes.

    Attributes
    ----------
    name : str
        The class.
    first : int
        The number of its first training among those of all classes.
    progress : TrainingProgress
    pool : Executor or None
        The threads of the trainings. None: the class's own thread.
    """

    name: str
    first: int
    progress: TrainingProgress
    pool: Executor | None

    def run(self, title: str, first: int, train: Callable[..., T], *arguments: Sequence[Any]) -> list[T]:
        """Return the results of `train`, called with an `Update` and one item of each of the `arguments`.

        Warnings name the `title`; `first` is the number of the first training among those of the class.
        """

        def titled(index: int, *of_one: Any) -> T:
            self.progress.title = f"refine {self.name}, {title}"
            return train(partial(self.progress.update, index), *of_one)

        begin = self.first + first
        return self.progress.run(titled, self.pool, range(begin, begin + len(arguments[0])), *arguments)


@contextmanager
def side_by_side(
    work: Callable[[ClassTrainings], T], counts: Mapping[str, int], threads: int, at_once: int, reporter: Reporter
) -> Iterator[Iterator[T]]:
    """Yield the results of `work` for each class, in order.

    Trainings end with their next outer step where one raises, or the block, or the program is interrupted.

    Parameters
    ----------
    work : callable
        Runs the trainings of a class.
    counts : mapping of class to int
        The number of its trainings at the same time.
    threads : int
        Of the pool of trainings.
    at_once : int
        Classes at the same time.
    reporter : Reporter
        Shows the progress.
    """
    names = [name for name, count in counts.items() for _ in range(count)]
    with (
        one_blas_thread(),
        training_progress(reporter, "refine", names, classes=len(counts)) as progress,
        nullcontext() if threads == 1 else ThreadPoolExecutor(threads, "chain") as pool,
    ):

        def work_on(name: str) -> T:
            return work(ClassTrainings(name, names.index(name), progress, pool))

        with _on_threads(work_on, list(counts), min(at_once, len(counts))) as found:
            try:
                yield _finished(progress, found)
            except BaseException:
                progress.stop()
                raise


@contextmanager
def _on_threads(work: Callable[[str], T], names: Sequence[str], count: int) -> Iterator[Iterable[tuple[str, T]]]:
    """Yield the results of `work` for each class, with up to `count` classes at the same time."""
    if count == 1:
        yield ((name, work(name)) for name in names)
        return
    with (
        ThreadPoolExecutor(count, "class") as pool,
        closing(prefetched(pool, work, names, PREFETCHED * count)) as found,
    ):
        yield found


def _finished(progress: TrainingProgress, found: Iterable[tuple[str, T]]) -> Iterator[T]:
    for name, result in found:
        progress.finish(name)
        yield result
