"""Work started in advance on threads or processes, with results in order and a bound on what is started."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Executor, Future
from itertools import islice
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
Value_co = TypeVar("Value_co", covariant=True)


class Pending(Protocol[Value_co]):
    """A submitted piece of work."""

    def result(self) -> Value_co:
        """Return its result, or raise its error."""

    def cancel(self) -> object:
        """Cancel it unless it has started."""


class Workers(Protocol):
    """Threads or processes that take work."""

    def submit(self, work: Callable[[Item], Result], item: Item, /) -> Pending[Result]:
        """Submit a piece of work."""


def prefetched(
    pool: Workers, work: Callable[[Item], Result], items: Iterable[Item], count: int
) -> Generator[tuple[Item, Result], None, None]:
    """Yield every item with its result in the items' order; at most `count` are started before the first is taken.

    What has not started when the caller stops, or when an item fails, is cancelled.
    """
    remaining, pending = iter(items), deque[tuple[Item, Pending[Result]]]()
    try:
        for item in islice(remaining, count):
            pending.append((item, pool.submit(work, item)))
        while pending:
            item, future = pending.popleft()
            result = future.result()
            for following in islice(remaining, 1):
                pending.append((following, pool.submit(work, following)))
            yield item, result
    finally:
        for _, future in pending:
            future.cancel()


class Writer:
    """Writes one file while the next is made, on a pool of one thread; each call raises the failure of the last."""

    def __init__(self, pool: Executor) -> None:
        self._pool = pool
        self._last: Future[None] | None = None

    def write(self, work: Callable[[], None]) -> None:
        """Start to write, once the last file is written."""
        self.finish()
        self._last = self._pool.submit(work)

    def finish(self) -> None:
        """Wait for the last file."""
        last, self._last = self._last, None
        if last is not None:
            last.result()
