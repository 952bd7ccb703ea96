"""What a protocol has finished: one file per cell (share, learner), so that an interrupted command continues."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lapsvm.evaluation import write_json
from lapsvm.files import remove_stale

from ..labels import hash_of

Cell = dict[str, Any]


class Cells:
    """The folder of a protocol's finished cells.

    Parameters
    ----------
    folder : Path
    settings : mapping
        All that decides a cell besides its own key; other settings give other files.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.folder, self._settings = folder, dict(settings)
        folder.mkdir(parents=True, exist_ok=True)
        remove_stale(folder)

    def get(self, method: str, share: float, make: Callable[[], Cell]) -> Cell:
        """Return a cell, made now unless its file is there."""
        path = self.folder / f"{method}-S{share:g}-{hash_of(self._settings, method, share)[:12]}.json"
        if not path.is_file():
            write_json(path, make())
        cell: Cell = json.loads(path.read_text(encoding="utf-8"))
        return cell
