"""What a protocol has finished: one file per known windows and learner, so that an interrupted command continues."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lapsvm.errors import DataError
from lapsvm.evaluation import write_json
from lapsvm.files import NOT_PARSED, read_regular, remove_stale

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

    def get(self, method: str, known: float | str, make: Callable[[], Cell]) -> Cell:
        """Return a learner's cell for a share of known windows, or for those of a learner; made unless it is there."""
        label = f"on-{known}" if isinstance(known, str) else f"S{known:g}"
        path = self.folder / f"{method}-{label}-{hash_of(self._settings, method, known)[:12]}.json"
        if not path.is_file():
            write_json(path, make())
        try:
            cell: Cell = json.loads(read_regular(path, "cell").decode("utf-8"))
        except NOT_PARSED as error:
            raise DataError(f"cell {path} is damaged: {error}; remove it to have it made again.") from None
        return cell
