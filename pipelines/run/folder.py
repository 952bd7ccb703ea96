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
    RUN/.lapsvm-files                   the files that this program wrote; no other is replaced or removed
    RUN/.lock                           who holds the folder
"""

import json
import math
import platform
import shlex
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from lapsvm.errors import SettingsError, StageError
from lapsvm.evaluation import result_name
from lapsvm.files import write_atomically

from .files import adopted_files, check_is_run
from .folder_lock import locked
from .ownership import OwnedFiles
from .settings import Settings

COMPETITION = "comp3"  # the devkit's competition 3: trained on what the challenge provides
STAMP = "detections.json"
VERSIONS_OF = ("lapsvm", "numpy", "scipy", "scikit-learn", "opencv-python-headless", "pillow", "safetensors")


@dataclass
class Timing:
    """How long a stage took, and what it counted."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    counts: dict[str, Any] = field(default_factory=dict)


@contextmanager
def measured() -> Iterator[Timing]:
    """Measure the wall and CPU time of a block that does not fail."""
    timing = Timing()
    start, cpu_start = time.perf_counter(), time.process_time()
    yield timing
    timing.seconds, timing.cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start


class RunFolder:
    """The folder of one run.

    Parameters
    ----------
    path : str or Path
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.files = OwnedFiles(self.path, lambda: adopted_files(self.path))
        self.is_locked = False
        self.settings_file = self.path / "run.toml"
        self.models = self.path / "models"
        self.first_models = self.path / "first"
        self.projection = self.path / "projection.safetensors"
        self.choices_file = self.path / "choices.json"
        self.training = self.path / "training"
        self.resume_file = self.training / "resume.json"
        self.evaluation_file = self.path / "evaluation.json"
        self.history_file = self.path / "history.csv"
        self.timings_file = self.path / "timings.json"
        self.page = self.path / "page" / "index.html"
        self.tuning_files = [self.path / "tuning.json", self.path / "tuning.csv"]

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

    def detection_files(self, set_name: str, classes: Iterable[str]) -> list[Path]:
        """Return the result files of a set, and last the one that says what they were made from."""
        folder = self.detections(set_name)
        return [*(folder / result_name(set_name, name, COMPETITION) for name in classes), folder / STAMP]

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
        """Write a text file of the run whole or not at all; SettingsError if it would replace another's file."""
        self.files.claim([path])
        write_atomically(path, text.encode())

    def remove(self, paths: Iterable[Path]) -> None:
        """Remove files of the run, and the folders that are empty then; what lapsvm did not write stays."""
        for folder in {path.parent for path in self.files.remove(paths)} - {self.path}:
            if not any(folder.iterdir()):
                folder.rmdir()

    def remove_training(self) -> None:
        """Remove what an unfinished training keeps."""
        self.remove([self.choices_file, self.resume_file, *self.training.glob("*.answers")])

    def check_is_run(self) -> None:
        """Raise SettingsError unless the folder is new, empty, or was made by lapsvm."""
        check_is_run(self.path, self.files)

    @contextmanager
    def lock(self, command: str = "lapsvm") -> Iterator[None]:
        """Hold the folder: a second run on it is told who holds it. The lock ends with the process, even if killed.

        What a killed process left half written beside the run's own files is removed at the end, unless an error
        comes first; a folder that was made for this and in which nothing was written is removed then.

        Raises
        ------
        SettingsError
            If another process holds the folder, or lapsvm did not make it and it is not empty.
        """
        self.check_is_run()
        with locked(self.path, command):
            self.is_locked = True
            try:
                yield
                self.files.remove_stale()
            finally:
                self.is_locked = False

    @contextmanager
    def timed(self, stage: str, say: Callable[[str], None] = lambda _: None) -> Iterator[dict[str, Any]]:
        """Add the wall and CPU time of a stage, and what it counted, to ``timings.json``; yields the counts."""
        with measured() as timing:
            yield timing.counts
        if not timing.counts.pop("nothing_to_do", False) or stage not in self.timings():
            self.save_timing(stage, timing, say)

    def save_timing(self, stage: str, timing: Timing, say: Callable[[str], None] = lambda _: None) -> None:
        """Write how long a stage took, and what it counted, into ``timings.json``.

        Nothing depends on the times: if they cannot be kept, that is said, and the stage is as good as with them.
        """
        entry = {"seconds": round(timing.seconds, 3), "cpu_seconds": round(timing.cpu_seconds, 3), **timing.counts}
        try:
            self.write(self.timings_file, json.dumps(self.timings(say) | {stage: entry}, indent=1) + "\n")
        except (OSError, SettingsError) as error:  # a full disk, or a file of another program
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
