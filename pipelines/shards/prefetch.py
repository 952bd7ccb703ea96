"""Work started in advance on threads or processes, with results in order and a bound on what is started."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import islice
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

from ..run.progress import Bar, Reporter

PREFETCHED = 2  # items per thread that are started before the first is taken: a slow one does not delay the others

Item = TypeVar("Item")
Result = TypeVar("Result")


def prefetched(
    pool: Any, work: Callable[[Item], Result], items: Iterable[Item], count: int
) -> Generator[tuple[Item, Result], None, None]:
    """Yield every item with its result in the items' order; at most `count`, and one, are started before it is taken.

    `pool` is an executor of threads, or a cluster: ``submit(work, item)`` returns a future. What has not started when
    the caller stops, or when an item fails, is cancelled.
    """
    remaining, pending = iter(items), deque[tuple[Item, Any]]()
    try:
        for item in islice(remaining, max(1, count)):
            pending.append((item, pool.submit(work, item)))
        while pending:
            item, future = pending.popleft()
            result: Result = future.result()
            for following in islice(remaining, 1):
                pending.append((following, pool.submit(work, following)))
            yield item, result
    finally:
        for _, future in pending:
            future.cancel()


@contextmanager
def on_threads(
    reporter: Reporter, title: str, work: Callable[[Item], Result], items: Sequence[Item], threads: int,
    unit: str = "pictures",
) -> Iterator[tuple[Bar, Iterator[tuple[Item, Result]]]]:  # fmt: skip
    """Yield a bar, and every item with the result of `work` in the items' order; the bar steps as they are taken.

    The libraries below get one thread each, so the numbers are the same for any number of threads here.
    """
    with (
        reporter.bar(title, len(items), unit) as bar,
        threadpool_limits(1),
        ThreadPoolExecutor(threads) as pool,
        closing(prefetched(pool, work, items, PREFETCHED * threads)) as results,
    ):
        yield bar, _stepped(bar, results)


def _stepped(bar: Bar, results: Iterable[tuple[Item, Result]]) -> Iterator[tuple[Item, Result]]:
    for pair in results:
        bar.step()
        yield pair
