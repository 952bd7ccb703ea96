"""Progress for people: bars on a terminal, silence elsewhere."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


class Bar(Protocol):
    """What a stage does with its bar."""

    def step(self, count: int = 1, note: str = "") -> None:
        """Say that `count` more are done, and how it goes."""


class _SilentBar:
    """A bar nobody sees."""

    def step(self, count: int = 1, note: str = "") -> None:
        """Do nothing."""


class _RichBar:
    """A bar on a terminal."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress, self._task = progress, task

    def step(self, count: int = 1, note: str = "") -> None:
        """Move the bar."""
        self._progress.update(self._task, advance=count, note=note)


class Reporter:
    """Tells people how a run goes, on standard error; standard output is for results.

    Parameters
    ----------
    quiet : bool
        Neither bars nor lines.
    """

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self.console = Console(stderr=True, quiet=quiet, highlight=False, emoji=False, soft_wrap=True)

    def say(self, line: str) -> None:
        """Print one line."""
        self.console.print(line, markup=False)

    @contextmanager
    def bar(self, title: str, total: int | None) -> Iterator[Bar]:
        """Show a bar while the block runs; on a terminal only."""
        if self.quiet or not sys.stderr.isatty():
            yield _SilentBar()
            return
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        with Progress(*columns, console=self.console) as progress:
            yield _RichBar(progress, progress.add_task(title, total=total, note=""))
