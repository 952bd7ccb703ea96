"""A run folder: the paths of its files (`products.table` says what each holds), its lock, and its timings."""

import glob
import json
import math
import platform
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import distributions, version
from pathlib import Path
from typing import Any

from lapsvm.errors import SettingsError, StageError
from lapsvm.evaluation import result_name
from lapsvm.files import write_atomically
from lapsvm.inspection.threshold import FILE as THRESHOLD
from lapsvm.objectness.good_pictures import FILE as MEMORY
from lapsvm.texts.reading import read_toml

from ..settings.settings import Settings
from .checked_files import read_json
from .folder_lock import locked, locked_to_read
from .ownership import OwnedFiles, check_is_run

COMPETITION = "comp3"  # the devkit's competition 3: trained on what the challenge provides
STAMP = "detections.json"
VERSIONS_OF = ("lapsvm", "numpy", "scipy", "scikit-learn", "pillow", "safetensors")
OPENCV = ("opencv-python-headless", "opencv-python", "opencv-contrib-python", "opencv-contrib-python-headless")
"""The wheels of OpenCV, any of which holds the module cv2."""


@dataclass
class Timing:
    """The wall and CPU time of a stage, and its counts."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    counts: dict[str, Any] = field(default_factory=dict)


@contextmanager
def measured() -> Iterator[Timing]:
    """Measure the wall and CPU time of a block, unless it raises."""
    timing = Timing()
    start, cpu_start = time.perf_counter(), time.process_time()
    yield timing
    timing.seconds, timing.cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start


class RunFolder:
    """The folder of one run."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.files = OwnedFiles(self.path)
        self.is_locked = False
        self.seconds: dict[str, float] = {}  # of the stages that this object has timed
        self.settings_file = self.path / "run.toml"
        self.models = self.path / "models"
        self.threshold_file = self.models / THRESHOLD
        self.good_pictures = self.models / MEMORY
        self.first_models = self.path / "first"
        self.held_out_scores = self.path / "heldout"
        self.models_of_folds = self.path / "folds"
        self.projection = self.path / "projection.safetensors"
        self.projection_sums = self.path / "projection-sums.safetensors"
        self.normal_map = self.path / "normal.safetensors"
        self.choices_file = self.path / "choices.json"
        self.training = self.path / "training"
        self.resume_file = self.training / "resume.json"
        self.verdicts_file = self.path / "verdicts.jsonl"
        self.taught_file = self.path / "taught.jsonl"
        self.taught_pictures = self.path / "taught"
        self.drawn_windows = self.path / "drawn.safetensors"
        self.evaluation_file = self.path / "evaluation.json"
        self.history_file = self.path / "history.csv"
        self.timings_file = self.path / "timings.json"
        self.card = self.path / "card.md"
        self.page = self.path / "page" / "index.html"
        self.tuning_file = self.path / "tuning.json"

    def shards(self, set_name: str) -> Path:
        """Return the folder of a set's shards."""
        return self.path / "shards" / set_name

    def has_shards(self, set_name: str) -> bool:
        """Return whether there are shards of a set; a finished run may have been copied without them."""
        return any(self.shards(set_name).glob("*.safetensors"))

    def lost_shards(self, set_name: str) -> list[Path]:
        """Return the shards of a set that a command listed, and that are not there; none where all are gone."""
        pattern = f"shards/{glob.escape(set_name)}/*.safetensors"
        return self.files.lost(pattern) if self.has_shards(set_name) else []

    def model(self, class_name: str) -> Path:
        """Return the file of a class's detector."""
        return self.models / f"{class_name}.safetensors"

    def first_model(self, class_name: str) -> Path:
        """Return the file of a class's detector before refinement."""
        return self.first_models / f"{class_name}.safetensors"

    def has_model(self, class_name: str) -> bool:
        """Return whether there is a trained or final model of a class."""
        return self.model(class_name).is_file() or self.first_model(class_name).is_file()

    def models_of(self, class_name: str) -> list[Path]:
        """Return every file that training and refinement write of a class."""
        return [of(class_name) for of in (self.model, self.first_model, self.fold_models, self.held_out)]

    def fold_models(self, class_name: str) -> Path:
        """Return the file of a class's models without a fold, before refinement."""
        return self.models_of_folds / f"{class_name}.safetensors"

    def held_out(self, class_name: str) -> Path:
        """Return the file of a class's held-out scores."""
        return self.held_out_scores / f"{class_name}.safetensors"

    def detections(self, set_name: str) -> Path:
        """Return the folder of a set's detections."""
        return self.path / "detections" / set_name

    def detection_files(self, set_name: str, classes: Iterable[str]) -> list[Path]:
        """Return the result files of a set, and last the file with their provenance."""
        folder = self.detections(set_name)
        return [*(folder / result_name(set_name, name, COMPETITION) for name in classes), folder / STAMP]

    def settings(self) -> Settings:
        """Return the settings of this folder; the defaults if it has none yet."""
        return Settings.read(self.settings_file) if self.settings_file.is_file() else Settings()

    def require_settings(self, stage: str) -> Settings:
        """Return the settings; StageError if there are none."""
        if not self.settings_file.is_file():
            raise StageError(f"{stage} needs a run folder, but {self.path} holds no run.toml; lapsvm run makes one.")
        return self.settings()

    def save_settings(self, settings: Settings, command: Sequence[str]) -> None:
        """Write ``run.toml``: settings, versions, and the last command line."""
        opencv = {one.name: one.version for name in OPENCV for one in distributions(name=name)}
        versions = {name: version(name) for name in VERSIONS_OF} | opencv | {"python": platform.python_version()}
        line = shlex.join(command).encode("utf-8", "backslashreplace").decode()  # paths may be invalid UTF-8
        text = settings.toml(versions=versions, command={"line": line})
        self.write(self.settings_file, text)

    def notes(self, table: str) -> dict[str, str]:
        """Return the table "versions" or "command" of ``run.toml``."""
        notes = read_toml(self.settings_file, "settings file", SettingsError).get(table)
        return {name: str(value) for name, value in notes.items()} if isinstance(notes, dict) else {}

    def write(self, path: Path, text: str) -> None:
        """Write a text file of the run atomically; SettingsError if it would replace another program's file."""
        self.files.claim([path])
        write_atomically(path, text.encode())

    def remove(self, paths: Iterable[Path]) -> None:
        """Remove files that lapsvm wrote and that belong in the run no more, and the folders that become empty."""
        removed = self.files.remove(paths)
        self.files.forget(removed)
        for folder in {path.parent for path in removed} - {self.path}:
            if not any(folder.iterdir()):
                folder.rmdir()

    def remove_training(self) -> None:
        """Remove the files from which an interrupted training resumes."""
        self.remove([self.choices_file, self.resume_file, *self.training.glob("*.answers")])

    def check_is_run(self) -> None:
        """Raise SettingsError unless the folder is new, empty, or was made by lapsvm."""
        check_is_run(self.path, self.files)

    @contextmanager
    def lock(self, command: str = "lapsvm", *, writes: bool = True) -> Iterator[None]:
        """Lock the folder while the block runs, and remove the temporary files of killed processes at its end.

        A block that does not write (`writes`) may run in a folder that cannot be written, and removes nothing. Raises
        SettingsError if another process uses the folder, or it holds files of other programs only.
        """
        self.check_is_run()
        with (locked if writes else locked_to_read)(self.path, command):
            self.is_locked = True
            try:
                yield
                if writes:
                    self.files.remove_stale()
            finally:
                self.is_locked = False

    @contextmanager
    def timed(self, stage: str, say: Callable[[str], None] = lambda _: None) -> Iterator[dict[str, Any]]:
        """Add the time and the counts of a stage to ``timings.json``; yields the counts."""
        with measured() as timing:
            yield timing.counts
        if not timing.counts.pop("nothing_to_do", False) or stage not in self.timings():
            self.save_timing(stage, timing, say)

    def save_timing(self, stage: str, timing: Timing, say: Callable[[str], None] = lambda _: None) -> None:
        """Add a timing to ``timings.json``; a failure is only reported, because no result depends on the file."""
        self.seconds[stage] = timing.seconds
        entry = {"seconds": round(timing.seconds, 3), "cpu_seconds": round(timing.cpu_seconds, 3), **timing.counts}
        try:
            self.write(self.timings_file, json.dumps(self.timings(say) | {stage: entry}, indent=1) + "\n")
        except (OSError, SettingsError) as error:  # a full disk, or a file of another program
            say(f"the times of {stage} are not stored: {error}")

    def timings(self, say: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
        """Return stage -> wall seconds, CPU seconds and counts; if the file is damaged, report it and return none."""
        if not self.timings_file.is_file():
            return {}
        try:
            entries: dict[str, Any] = read_json(self.timings_file)
            if all(_is_seconds(entry[name]) for entry in entries.values() for name in ("seconds", "cpu_seconds")):
                return entries
        except (AttributeError, KeyError, TypeError):
            pass  # not JSON, or of another shape
        say(f"{self.timings_file} is damaged; the times in it are left out.")
        return {}


def _is_seconds(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf
