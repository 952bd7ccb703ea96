"""Work done ahead on threads, handed out in order, with a bound on what is done before it is asked for."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from itertools import islice
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
Given_co = TypeVar("Given_co", covariant=True)


class Pending(Protocol[Given_co]):
    """Work that was given away."""

    def result(self) -> Given_co:
        """Return what it gave, or raise what it raised."""

    def cancel(self) -> object:
        """Have it not done, if nobody has begun."""


class Workers(Protocol):
    """Threads, or processes, that do what they are given."""

    def submit(self, work: Callable[[Item], Result], item: Item, /) -> Pending[Result]:
        """Give them some work."""


def prefetched(
    pool: Workers, work: Callable[[Item], Result], items: Iterable[Item], ahead: int
) -> Iterator[tuple[Item, Result]]:
    """Yield every item with its result, in the items' order; at most `ahead` are begun before the first is taken.

    What is not begun when the caller stops, or when one fails, is never begun.
    """
    left, begun = iter(items), deque[tuple[Item, Pending[Result]]]()
    try:
        for item in islice(left, ahead):
            begun.append((item, pool.submit(work, item)))
        while begun:
            item, future = begun.popleft()
            result = future.result()
            for following in islice(left, 1):
                begun.append((following, pool.submit(work, following)))
            yield item, result
    finally:
        for _, future in begun:
            future.cancel()


class Writer:
    """Writes one thing while the next is made: each waits for the one before, whose failure it raises.

    Parameters
    ----------
    pool : Executor
        Of one thread.
    """

    def __init__(self, pool: Executor) -> None:
        self._pool = pool
        self._last: Future[None] | None = None

    def write(self, work: Callable[[], None]) -> None:
        """Begin to write, once what was begun before is done."""
        self.finish()
        self._last = self._pool.submit(work)

    def finish(self) -> None:
        """Wait for what was begun."""
        last, self._last = self._last, None
        if last is not None:
            last.result()
