"""The state that an interrupted training leaves: the classes that it trains together, and its finished choices."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..products.models import FitTask, decisive
from ..run.checked_files import read_checked, with_checksum
from ..run.dataset import content_hash
from ..run.folder import RunFolder
from ..run.progress import Reporter
from .fit import Constants
from .selection import Choice


@dataclass(frozen=True)
class Interrupted:
    """The files of a run from which training resumes."""

    run: RunFolder
    reporter: Reporter

    def joined(self, tasks: Sequence[FitTask], to_do: Sequence[FitTask]) -> Sequence[FitTask]:
        """Return the tasks of an interrupted training if they include `to_do`, else `to_do`.

        Classes that share passes are trained together again, because rounding may break near ties differently without
        the others.
        """
        stored = read_checked(self.run.resume_file, self.reporter.say) if to_do else None
        if stored is None:
            return to_do
        resumed = [task for task in tasks if any(_is_of(task, key) for key in stored["keys"])]
        return resumed if all(task in resumed for task in to_do) else to_do

    def begin(self, tasks: Sequence[FitTask]) -> None:
        """Store which classes are trained together."""
        self._write(self.run.resume_file, {"keys": [_key(task) for task in tasks]})

    def choices(self, tasks: Sequence[FitTask]) -> dict[str, Choice]:
        """Return the choices that an interrupted training made with the same settings and data."""
        stored = read_checked(self.run.choices_file, self.reporter.say)
        entries = {} if stored is None else stored["choices"]
        choices = {}
        for task in tasks:
            entry = entries.get(task.name)
            if entry and _is_of(task, entry["key"]):
                constants, *of_folds = (Constants(*values) for values in (entry["constants"], *entry["of_folds"]))
                choices[task.name] = Choice(constants, of_folds, entry["candidates"], entry["history"])
        return choices

    def store(self, tasks: Sequence[FitTask], choices: Mapping[str, Choice]) -> None:
        """Store the choices that are finished."""
        keys = {task.name: _key(task) for task in tasks}
        entries = {name: {"key": keys[name], **asdict(choice)} for name, choice in choices.items()}
        self._write(self.run.choices_file, {"choices": entries})

    def _write(self, path: Path, content: Mapping[str, Any]) -> None:
        self.run.write(path, json.dumps(with_checksum(path, content)))


def _key(task: FitTask) -> str:
    """Return the hash of everything that decides a choice."""
    mended = task.reviews.labels_key
    return content_hash(json.dumps({**decisive(task.provenance), **mended}, sort_keys=True))


def _is_of(task: FitTask, key: str) -> bool:
    """Return whether a stored key is that of a task."""
    return key == _key(task)
