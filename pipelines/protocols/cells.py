"""What a protocol has finished: one file per known windows and learner, so that an interrupted command continues."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from lapsvm.evaluation import write_json

from ..labels import hash_of
from ..run_folder import RunFolder

Cell = dict[str, Any]


class Cells:
    """A protocol's finished cells, in the folder ``cells`` of its run.

    Parameters
    ----------
    run : RunFolder
    settings : mapping
        All that decides a cell besides its own key; other settings give other files.
    """

    def __init__(self, run: RunFolder, settings: Mapping[str, Any]) -> None:
        self.run, self._settings = run, dict(settings)

    def get(self, method: str, known: float | str, make: Callable[[], Cell]) -> Cell:
        """Return a learner's cell for a share of known windows, or for those of a learner; made unless it is there."""
        label = f"on-{known}" if isinstance(known, str) else f"S{known:g}"
        path = self.run.path / "cells" / f"{method}-{label}-{hash_of(self._settings, method, known)[:12]}.json"
        if not path.is_file():
            self.run.files.claim([path])
            write_json(path, make())
        cell: Cell = json.loads(path.read_text(encoding="utf-8"))
        return cell
