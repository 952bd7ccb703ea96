"""Finished cells of a protocol: one file per given windows and learner, so that an interrupted command resumes."""

from collections.abc import Callable, Mapping
from typing import Any

from lapsvm.pipelines.run.checked_files import CHECKSUM, read_checked, with_checksum
from lapsvm.pipelines.run.dataset import content_hash
from lapsvm.pipelines.run.folder import RunFolder

from lapsvm.evaluation import write_json

Cell = dict[str, Any]


class Cells:
    """The finished cells of a protocol, in the folder ``cells`` of its run.

    `settings` are everything besides its key that decides a cell; different settings give different files. `say`
    receives a line about each damaged cell, which is then made again.
    """

    def __init__(self, run: RunFolder, settings: Mapping[str, Any], say: Callable[[str], None]) -> None:
        self.run, self._settings, self._say = run, dict(settings), say

    def get(self, method: str, given: float | str, make: Callable[[], Cell]) -> Cell:
        """Return a learner's cell for a share of oracle windows or for the windows of a learner, made if missing."""
        label = f"on-{given}" if isinstance(given, str) else f"S{given:g}"
        path = self.run.path / "cells" / f"{method}-{label}-{content_hash(self._settings, method, given)[:12]}.json"
        stored = read_checked(path, self._say)
        if stored is not None:
            return stored
        cell = with_checksum(path, make())
        self.run.files.claim([path])
        write_json(path, cell)
        return {name: value for name, value in cell.items() if name != CHECKSUM}
