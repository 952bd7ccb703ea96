"""Work of several callers on one device: who has it serves those who wait for it, too."""

from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from threading import Lock
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Together(Generic[Item, Result]):
    """A function of one item that does the items of all callers that wait at the same time at once.

    A single caller is served at once. The more callers there are and the slower the work is, the more items come
    together; nobody waits for others to come.

    Parameters
    ----------
    work : callable
        Takes one or more items of a kind; returns a result, or an exception to raise, for each.
    kind : callable
        Returns what items that come together have in common.
    most : callable
        Returns how many items come together with one at most, itself included.
    device : context manager
        Held while something is done.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Item]], Sequence[Result | Exception]],
        kind: Callable[[Item], Hashable],
        most: Callable[[Item], int],
        device: Any,
    ) -> None:
        self._work, self._kind, self._most, self._device = work, kind, most, device
        self._guard, self._waiting = Lock(), list[tuple[Item, Future[Result]]]()

    def __call__(self, item: Item) -> Result:
        """Return the result of an item."""
        future: Future[Result] = Future()
        with self._guard:
            self._waiting.append((item, future))
        with self._device:
            if not future.done():
                self._serve(item, future)
        return future.result()

    def _serve(self, item: Item, future: "Future[Result]") -> None:
        """Do an item that waits, and others with it."""
        taken = self._taken(item, future)
        try:
            results = self._work([each for each, _ in taken])
        except BaseException as error:  # such as Ctrl-C: nobody may wait for ever
            for _, other in taken:
                other.set_exception(error)
            raise
        for (_, other), result in zip(taken, results, strict=True):
            if isinstance(result, Exception):
                other.set_exception(result)
            else:
                other.set_result(result)

    def _taken(self, item: Item, future: "Future[Result]") -> list[tuple[Item, "Future[Result]"]]:
        """Take an item from the waiting ones, and the oldest that may come together with it."""
        kind, most = self._kind(item), self._most(item)
        with self._guard:
            others = [pair for pair in self._waiting if pair[1] is not future]
            taken = [pair for pair in others if self._kind(pair[0]) == kind][: most - 1]
            self._waiting = [pair for pair in others if not any(pair[1] is other for _, other in taken)]
        return [(item, future), *taken]
