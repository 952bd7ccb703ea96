"""One thread that does what is asked, one job after the other; the newest job of a key replaces one that waits."""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Condition, Event, Thread

from ..run.progress import Bar, Reporter

PATIENCE = 1.0
"""Seconds that a stop waits for a job to notice it."""


class StoppedError(BaseException):
    """The review ends: a job is given up. No failure, so nothing that handles failures catches it."""


class Worker:
    """A thread that begins with the first job. It never keeps the process alive.

    Attributes
    ----------
    reporter : Reporter
        What a job reports to: it shows nothing, and ends the job at its next step after a stop.
    """

    def __init__(self) -> None:
        self._jobs: dict[Hashable, Callable[[], None]] = {}
        self._stopping, self._new = Event(), Condition()
        self._thread = Thread(target=self._work, daemon=True, name="lapsvm learning")
        self.reporter: Reporter = _StoppableReporter(self._stopping)

    def ask(self, key: Hashable, job: Callable[[], None]) -> None:
        """Do a job after waiting jobs of other keys; it handles its own errors."""
        with self._new:
            self._jobs[key] = job
            if self._thread.ident is None:
                self._thread.start()
            self._new.notify()

    def stop(self, patience: float = PATIENCE) -> bool:
        """Begin no further job, and return whether the thread has ended within some seconds."""
        self._stopping.set()
        with self._new:
            self._new.notify()
        if self._thread.ident is not None:
            self._thread.join(patience)
        return not self._thread.is_alive()

    def _work(self) -> None:
        while (job := self._next()) is not None:
            with suppress(StoppedError):
                job()

    def _next(self) -> Callable[[], None] | None:
        """Return the job that waits longest; None after a stop."""
        with self._new:
            self._new.wait_for(lambda: self._jobs or self._stopping.is_set())
            return None if self._stopping.is_set() else self._jobs.pop(next(iter(self._jobs)))


@dataclass
class _StoppableBar(Bar):
    """A bar that raises StoppedError at a step after a stop."""

    stopping: Event = field(default_factory=Event)

    def step(self, count: int = 1, note: str = "", windows: int = 0) -> None:
        """Count, as a bar does."""
        if self.stopping.is_set():
            raise StoppedError
        super().step(count, note, windows)


class _StoppableReporter(Reporter):
    """Shows nothing; its bars raise StoppedError after a stop."""

    def __init__(self, stopping: Event) -> None:
        super().__init__(quiet=True)
        self._stopping = stopping

    @contextmanager
    def bar(self, title: str, total: int | None, unit: str = "") -> Iterator[Bar]:
        """Count the steps of a block."""
        bar = _StoppableBar(title, total, unit, stopping=self._stopping)
        bar.step(0)
        yield bar
