"""Progress on standard error: a bar on a terminal, a line every half minute elsewhere, only warnings under --quiet."""

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from threading import Event, Thread
from typing import TYPE_CHECKING

from lapsvm.names.escapes import printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress

LINE_EVERY = 30.0  # seconds between lines where there is no terminal
SLOWEST = 0.05  # items a second: a slower rate would read as 0.0


@dataclass
class Bar:
    """The progress of a stage; `total` None means unknown. The remaining work is assumed to go at the same speed."""

    title: str
    total: int | None
    unit: str = ""
    done: int = 0
    windows: int = 0
    note: str = ""
    clock: Callable[[], float] = time.monotonic
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self.clock()

    def step(self, count: int = 1, note: str = "", windows: int = 0) -> None:
        """Add `count` finished items with `windows` windows, and replace the note."""
        self.done, self.windows, self.note = self.done + count, self.windows + windows, note

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return self.clock() - self._began

    @property
    def count(self) -> str:
        """The number of finished items, as text."""
        count = f"{self.done:,}" + (f" of {self.total:,}" if self.total is not None else "")
        return f"{count} {self.unit}".rstrip()

    @property
    def status(self) -> str:
        """The rates, the time left and the note, as text."""
        return ", ".join(part for part in (*self._rates(), self._left(), self.note) if part)

    @property
    def line(self) -> str:
        """Title, count, time and status in one line."""
        parts = (f"{self.title}: {self.count}", f"{duration(self.seconds)} so far", self.status)
        return ", ".join(part for part in parts if part)

    def _rates(self) -> Iterator[str]:
        counts = ((self.done, self.unit), (self.windows, "windows"))
        for count, unit in counts if self.seconds > 0 and self.total is not None else ():
            rate = count / self.seconds
            if unit and rate >= SLOWEST:
                yield f"{rate:,.{0 if rate >= 100 else 1}f} {unit}/s"

    def _left(self) -> str:
        """Return the time left, "" if unknown."""
        if self.total is None or not 0 < self.done < self.total:
            return ""
        return f"about {duration(self.seconds * (self.total - self.done) / self.done)} left"


def duration(seconds: float) -> str:
    """Return hours, minutes and whole seconds, as 0:01:05."""
    return str(timedelta(seconds=round(seconds)))


class Reporter:
    """Prints lines and bars on standard error, only warnings if `quiet`; standard output is for results."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet

    @cached_property
    def console(self) -> "Console":
        """The console of all lines but the warnings of a quiet one."""
        return _console(self.quiet)

    def say(self, line: str) -> None:
        """Print one line."""
        self.console.print(printable(line), markup=False)

    def warn(self, line: str) -> None:
        """Print one line, also if `quiet`."""
        console = _console(quiet=False) if self.quiet else self.console
        console.print(printable(line), markup=False)

    @contextmanager
    def warnings(self) -> Iterator[None]:
        """Print the warnings that the library gives its callers within a block."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            yield
        for warning in caught:
            if warning.category is UserWarning:
                self.warn(str(warning.message))

    @contextmanager
    def bar(self, title: str, total: int | None, unit: str = "") -> Iterator[Bar]:
        """Show the progress of a block: drawn on a terminal, elsewhere printed every half minute."""
        bar = Bar(title, total, unit)
        if self.quiet or total == 0:
            yield bar
            return
        with _status_bar(bar, self.console) if sys.stderr.isatty() else _lines(bar, self.say):
            yield bar


def _console(quiet: bool) -> "Console":
    """Return rich's console on standard error; it takes long to import, and prediction of one picture says nothing."""
    from rich.console import Console

    return Console(stderr=True, quiet=quiet, highlight=False, emoji=False, soft_wrap=True)


def _status_bar(bar: Bar, console: "Console") -> "Progress":
    """Return a bar with its rates and its note on the lines below."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.text import Text

    class StatusBar(Progress):
        def get_renderables(self) -> Iterator["RenderableType"]:
            """Yield the bar and the text below."""
            for task in self.task_ids:
                self.update(task, completed=bar.done, count=bar.count)
            yield self.make_tasks_table(self.tasks)
            if bar.status:
                yield Text("  " + bar.status)

    title, count = (TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[count]}"))
    drawn = StatusBar(title, BarColumn(), count, TimeElapsedColumn(), console=console)
    drawn.add_task(bar.title, total=bar.total, count=bar.count)
    return drawn


@contextmanager
def _lines(bar: Bar, say: Callable[[str], None]) -> Iterator[None]:
    """Print a line every half minute, and one at the end if there was any."""
    finished, printed = Event(), False

    def report() -> None:
        nonlocal printed
        while not finished.wait(LINE_EVERY):
            printed = True
            say(bar.line)

    thread = Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()
    if printed:
        say(bar.line)


def roughly(seconds: float) -> str:
    """Return a duration to about a tenth: 40 s, 3 min, 2 h 20 min."""
    if seconds < 90:
        return f"{max(5, 5 * round(seconds / 5))} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(10 * round(seconds / 600), 60)
    return f"{hours} h" + (f" {minutes} min" if minutes else "")
