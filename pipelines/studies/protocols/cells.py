"""What a protocol has finished: one file per known windows and learner, so that an interrupted command continues."""

from collections.abc import Callable, Mapping
from typing import Any

from lapsvm.evaluation import write_json

from ...run.checked_files import CHECKSUM, read_checked, with_checksum
from ...run.dataset import content_hash
from ...run.folder import RunFolder

Cell = dict[str, Any]


class Cells:
    """A protocol's finished cells, in the folder ``cells`` of its run.

    Parameters
    ----------
    run : RunFolder
    settings : mapping
        All that decides a cell besides its own key; other settings give other files.
    say : callable
        Is told of a cell that is not what was written; it is made again.
    """

    def __init__(self, run: RunFolder, settings: Mapping[str, Any], say: Callable[[str], None]) -> None:
        self.run, self._settings, self._say = run, dict(settings), say

    def get(self, method: str, known: float | str, make: Callable[[], Cell]) -> Cell:
        """Return a learner's cell for a share of known windows, or for those of a learner; made unless it is there."""
        label = f"on-{known}" if isinstance(known, str) else f"S{known:g}"
        path = self.run.path / "cells" / f"{method}-{label}-{content_hash(self._settings, method, known)[:12]}.json"
        kept = read_checked(path, self._say)
        if kept is not None:
            return kept
        cell = with_checksum(path, make())
        self.run.files.claim([path])
        write_json(path, cell)
        return {name: value for name, value in cell.items() if name != CHECKSUM}
