"""A run folder: where everything of one run lies, who holds it, and what it took.

::

    RUN/run.toml                        resolved settings, versions, the command
    RUN/shards/<set>/*.safetensors      boxes and features
    RUN/projection.safetensors          principal components, with --pca
    RUN/models/<class>.safetensors      one detector per class
    RUN/first/<class>.safetensors       the trained detectors, with --refine, before refinement
    RUN/training/*.answers              what passes answered, while training lasts
    RUN/detections/<set>/               comp3_det_<set>_<class>.txt
    RUN/evaluation.json  history.csv  timings.json  page/index.html
"""

import fcntl
import json
import math
import os
import platform
import shlex
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from lapsvm.errors import MissingError, SettingsError, StageError
from lapsvm.files import remove_stale, write_atomically

from .settings import Settings

VERSIONS_OF = ("lapsvm", "numpy", "scipy", "scikit-learn", "opencv-python-headless", "pillow", "safetensors")


class RunFolder:
    """The folder of one run.

    Parameters
    ----------
    path : str or Path
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.settings_file = self.path / "run.toml"
        self.models = self.path / "models"
        self.first_models = self.path / "first"
        self.projection = self.path / "projection.safetensors"
        self.choices_file = self.path / "choices.json"
        self.training = self.path / "training"
        self.begun_file = self.training / "begun.json"
        self.evaluation_file = self.path / "evaluation.json"
        self.history_file = self.path / "history.csv"
        self.timings_file = self.path / "timings.json"
        self.page = self.path / "page" / "index.html"

    def shards(self, set_name: str) -> Path:
        """Return the folder of a set's shards."""
        return self.path / "shards" / set_name

    def model(self, class_name: str) -> Path:
        """Return the file of a class's detector."""
        return self.models / f"{class_name}.safetensors"

    def first_model(self, class_name: str) -> Path:
        """Return the file of a class's detector before refinement."""
        return self.first_models / f"{class_name}.safetensors"

    def detections(self, set_name: str) -> Path:
        """Return the folder of a set's detections."""
        return self.path / "detections" / set_name

    def settings(self) -> Settings:
        """Return the settings that this folder was made with; the defaults where there are none yet."""
        return Settings.read(self.settings_file) if self.settings_file.is_file() else Settings()

    def require_settings(self, stage: str) -> Settings:
        """Return the settings; StageError if nothing was extracted here yet."""
        if not self.settings_file.is_file():
            raise StageError(
                f"{stage} needs a run folder, but {self.path} holds no run.toml; run lapsvm extract first."
            )
        return self.settings()

    def save_settings(self, settings: Settings, command: Sequence[str]) -> None:
        """Write ``run.toml``: settings, versions, and the command that was typed last."""
        versions = {name: version(name) for name in VERSIONS_OF} | {"python": platform.python_version()}
        line = shlex.join(command).encode("utf-8", "backslashreplace").decode()  # a path may be no UTF-8
        text = settings.toml(versions=versions, command={"line": line})
        self.write(self.settings_file, text)

    def notes(self, table: str) -> dict[str, str]:
        """Return the table "versions" or "command" of ``run.toml``."""
        notes = tomllib.loads(self.settings_file.read_text(encoding="utf-8")).get(table)
        return {name: str(value) for name, value in notes.items()} if isinstance(notes, dict) else {}

    def write(self, path: Path, text: str) -> None:
        """Write a text file whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text.encode())

    @contextmanager
    def held(self, command: str = "lapsvm") -> Iterator[None]:
        """Hold the folder: a second run on it is told who holds it. The lock ends with the process, even if killed.

        What a killed process left half written beside the run's own files is removed.
        """
        self._make()
        with (self.path / ".lock").open("a+", encoding="utf-8", errors="replace") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                lock.seek(0)
                holder = lock.read() or "another process"
                raise SettingsError(f"run folder {self.path} is in use by {holder}.") from None
            lock.truncate(0)
            holder = f"process {os.getpid()} on {platform.node()} ({command}, since {time.strftime('%F %T %z')})"
            with suppress(OSError):  # a full disk is told by what is written next
                os.write(lock.fileno(), holder.encode())
            remove_stale(self.path)
            remove_stale(self.page.parent)
            yield

    def _make(self) -> None:
        """Create the folder."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise MissingError(f"run folder {self.path} cannot be made: {error.strerror}.") from None

    @contextmanager
    def timed(self, stage: str, say: Callable[[str], None] = lambda _: None) -> Iterator[dict[str, Any]]:
        """Add the wall and CPU time of a stage, and what it counted, to ``timings.json``; yields the counts.

        Nothing depends on the times: if they cannot be kept, that is said, and the stage is as good as with them.
        """
        counts: dict[str, Any] = {}
        start, cpu_start = time.perf_counter(), time.process_time()
        yield counts
        if counts.pop("nothing_to_do", False) and stage in self.timings():
            return
        seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
        entry = {"seconds": round(seconds, 3), "cpu_seconds": round(cpu_seconds, 3), **counts}
        try:
            self.write(self.timings_file, json.dumps(self.timings(say) | {stage: entry}, indent=1) + "\n")
        except OSError as error:
            say(f"the times of {stage} are not kept: {error}")

    def timings(self, say: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
        """Return stage -> wall seconds, CPU seconds and counts; none, which is said, if the file is damaged."""
        if not self.timings_file.is_file():
            return {}
        try:
            entries: dict[str, Any] = json.loads(self.timings_file.read_bytes())
            if all(_is_seconds(entry[name]) for entry in entries.values() for name in ("seconds", "cpu_seconds")):
                return entries
        except (ValueError, RecursionError, AttributeError, KeyError, TypeError):
            pass  # no JSON, or of another shape
        say(f"{self.timings_file} is damaged; the times in it are left out.")
        return {}


def _is_seconds(value: Any) -> bool:
    """Tell whether a value is a time."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf
