"""The context that every stage of a run receives, and the parts of it that other functions take.

Stages and commands alone take the whole context. Of the others those that read a run take a `StoredRun`, those that
compute a `Workspace`, and all that need less take the folder, the settings or the reporter alone.
"""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from lapsvm.arrays import Index
from lapsvm.catalog import ImageRecord
from lapsvm.cluster import Cluster
from lapsvm.errors import ShardError, StageError
from lapsvm.features import Extractor, ShardSet, open_shards, read_shard, shard_paths
from lapsvm.features.extractors.extractor import open_sized_extractor
from lapsvm.settings import IMPORTED
from lapsvm.texts.sentences import counted

from .run.dataset import RunData, label_vector, moved, open_run_data
from .run.folder import RunFolder, Timing
from .run.groups import picture_groups
from .run.progress import Reporter
from .settings.settings import Settings
from .verdicts.counting import denial, labels_after, of_no_class, of_other_pictures, usable_verdicts
from .verdicts.taught import Taught
from .verdicts.verdict import Verdict, VerdictLog, add_verdicts, given_verdicts, read_verdicts

PRECISION = 0.9
OTHER = "other"
_ALWAYS = {"evaluate", "report"}  # stages that have something to do in any case


@dataclass(frozen=True)
class StoredRun:
    """What decides the results of a run, and the folder that holds them.

    Attributes
    ----------
    folder : RunFolder
    settings : Settings
    data : RunData
        Without the classes that verdicts deny.
    verdicts : VerdictLog
    """

    folder: RunFolder
    settings: Settings
    data: RunData
    verdicts: VerdictLog

    @property
    def train_set(self) -> str:
        """The name of the set to train on."""
        return self.settings.data.train_set

    @cached_property
    def training_pictures(self) -> dict[str, ImageRecord]:
        """Id -> picture of the training set."""
        return {record.id: record for record in self.data.records[self.train_set]}

    def shards(self, set_name: str) -> ShardSet:
        """Open the shards of a set; errors are those of `open_run_shards`."""
        return open_run_shards(self.folder, self.settings, set_name)

    def groups(self, set_name: str, ids: Sequence[str], shards: ShardSet | None) -> Index:
        """Return the group (n,) of pictures of a set, see `run.groups`; by their names alone where shards are gone."""
        hashes = {} if shards is None else shards.hashes
        records = {record.id: record for record in self.data.records[set_name]}
        named = [records[name] for name in ids]
        return picture_groups(named, [hashes.get(name, "") for name in ids], self.settings.data.group)

    def shards_if_any(self, set_name: str) -> ShardSet | None:
        """Open the shards of a set; None if they are gone."""
        return self.shards(set_name) if self.folder.has_shards(set_name) else None

    def trained_model(self, class_name: str) -> Path:
        """Return the file that training writes: the final model, unless refinement follows."""
        return self.folder.first_model(class_name) if self.settings.refine.rounds else self.folder.model(class_name)


@dataclass(frozen=True)
class Workspace:
    """Where a command computes, and what it writes and reports to.

    Attributes
    ----------
    folder : RunFolder
    reporter : Reporter
    threads : int
    device, memory, cluster
        As in `RunContext`.
    """

    folder: RunFolder
    reporter: Reporter
    threads: int
    device: str = "auto"
    memory: int | str | None = None
    cluster: Cluster | None = None


def open_run_shards(run: RunFolder, settings: Settings, set_name: str) -> ShardSet:
    """Open the shards of a set; StageError if some that were made are not there any more."""
    if lost := run.lost_shards(set_name):
        count = f"{lost[0]} is not there" + (f", nor are {len(lost) - 1:,} more" if len(lost) > 1 else "")
        verb = "import" if settings.windows.method == IMPORTED else "extract"
        raise StageError(f"shards of set {set_name!r} must all be there, but {count}; run lapsvm {verb} first.")
    return open_shards(run.shards(set_name))


def stored_sizes(run: RunFolder, set_name: str) -> dict[str, tuple[int, int]]:
    """Return picture -> width and height as its features were made, for the pictures of shards that can be read.

    Others may be to make yet, or again: the checks before extraction know the sizes of a part of the set.
    """
    return {image_id: size for image_id, _, size in _stored_pictures(run, set_name)}


def _stored_pictures(run: RunFolder, set_name: str) -> Iterator[tuple[str, str, tuple[int, int]]]:
    """Yield id, pixel hash, width and height of the pictures of a set's shards, without lost and damaged shards."""
    for path in shard_paths(run.shards(set_name)) if run.has_shards(set_name) else ():
        with suppress(ShardError):
            shard = read_shard(path, mapped=True, verify=False)
            rows = zip(shard.image_ids, shard.pixel_hashes, shard.sizes.tolist(), strict=True)
            yield from ((image_id, digest, (width, height)) for image_id, digest, (height, width) in rows)


@dataclass
class RunContext:
    """The run folder, settings and resources of a command.

    Attributes
    ----------
    redo : bool
        Discard earlier results of the stage.
    shards_from : Path or None
        Another run whose shards may be copied.
    memory : str or None
        Limit for the windows in training, such as "8G"; by default 80 % of the free memory.
    program : tuple of str
        The first words of the command that ``run.toml`` stores.
    device : "auto", "cpu" or "cuda"
        Where torch runs networks, and passes compute best windows.
    cluster : Cluster or None
        Worker processes that extract and store windows; None: this process does.
    named : tuple of str
        The extractors of this command line; those of settings files may not run code (see `check_trusted`).
    stages : tuple of str
        All stages of the command, so that the first one can check for the later ones.
    metrics : tuple of "voc", "coco"
        Which figures evaluation computes.
    precision : float or None
        The precision that thresholds are wanted for; None: `PRECISION`, and they are not printed.
    card : bool
        Whether the report writes the run's card, too.
    sizes_are_open : bool
        Whether extraction may choose ``features.sizes`` by the pictures, because only the recipe names some.
    windows_are_open : bool
        Whether extraction may choose the windows by the pictures, because only the recipe names some.
    advice : str
        A line on what else there is, which extraction reports once nothing refuses the run.
    box_source : object
        Where evaluation has read boxes.
    began : float
        When the command began, in seconds of `time.perf_counter`.
    """

    run: RunFolder
    settings: Settings
    threads: int
    reporter: Reporter
    redo: bool = False
    shards_from: Path | None = None
    memory: str | None = None
    program: tuple[str, ...] = ("lapsvm",)
    device: str = "auto"
    cluster: Cluster | None = None
    named: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ("voc",)
    precision: float | None = None
    card: bool = False
    sizes_are_open: bool = False
    windows_are_open: bool = False
    advice: str = ""
    box_source: Any = field(default=None, repr=False)
    began: float = field(default_factory=time.perf_counter, repr=False)

    @classmethod
    def opened(
        cls, out: str | Path, verb: str, root: str | Path | None = None, *, threads: int = 1, quiet: bool = False
    ) -> Self:
        """Return the context of a verb that reads a run; `root` is the folder of its data, if it has moved.

        Raises StageError if there is no run.
        """
        run = RunFolder(out)
        return cls(run, moved(run.require_settings(verb), root), threads, Reporter(quiet))

    @property
    def wanted_precision(self) -> float:
        """The precision that evaluation gives thresholds for."""
        return PRECISION if self.precision is None else self.precision

    @cached_property
    def _opened(self) -> RunData:
        """The data set, opened once, with the classes that verdicts deny."""
        settings = self.settings
        data = open_run_data(settings.data, settings.seed, self.taught.records, settings.train.folds)
        for name, reason in data.skipped.items():
            self.reporter.warn(f"class {name} is left out: it {reason}")
        return data

    @cached_property
    def taught(self) -> Taught:
        """The new pictures that a person judged, which are training pictures of the run, read once."""
        taught = Taught.of(self.run)
        for note in taught.notes:
            self.reporter.warn(f"{self.run.taught_file}: {note}")
        return taught

    @cached_property
    def data(self) -> RunData:
        """The data set, without the classes that verdicts deny."""
        return self._without_denied(self._opened)

    def _without_denied(self, data: RunData) -> RunData:
        """Return the data without the classes that training has left out by their verdicts: they have no model."""
        if not any(self.run.has_model(name) for name in data.classes):  # not trained yet, or a copy without models
            return data
        reasons, records = {}, data.records[self.train_set]
        for name in data.classes:
            if self.verdicts.of_class(name) and not self.run.has_model(name):
                y = labels_after(self.verdicts.of_class(name), label_vector(records, name), [one.id for one in records])
                reasons[name] = denial(self.settings.train, y)
        return data.without({name: reason for name, reason in reasons.items() if reason})

    def leave_out(self, reasons: Mapping[str, str]) -> None:
        """Go on without some classes, class -> why as the end of "it ..."; OneClassError if none is left."""
        self.data = self.data.without(reasons)
        for name, reason in reasons.items():
            self.reporter.warn(f"class {name} is left out: it {reason}")

    @cached_property
    def verdicts(self) -> VerdictLog:
        """What a person said of pictures of the run, read once."""
        verdicts = read_verdicts(self.run.verdicts_file)
        if verdicts.damage:
            self.reporter.warn(verdicts.damage)
        for note in of_no_class(verdicts, self._opened.classes):
            self.reporter.warn(f"{self.run.verdicts_file}: {note}")
        return self.taught.joined(verdicts, self._opened.classes)

    def merge_verdicts(self, path: Path) -> list[Verdict]:
        """Take the verdicts of a file that count into the run, and return those that it did not have; name the others.

        Sizes are known of pictures that are as they were when the run's features were made. Errors are those of
        `given_verdicts` and `add_verdicts`.
        """
        given = given_verdicts(path)
        stored = {image_id: (digest, size) for image_id, digest, size in _stored_pictures(self.run, self.train_set)}

        def size_of(one: Verdict) -> tuple[int, int] | None:
            digest, size = stored.get(one.picture, ("", None))
            return size if one.is_of(digest) else None

        kept, notes = usable_verdicts(given, self._opened.classes, size_of)
        present = {record.id for record in self._opened.records[self.train_set]}
        hashes = {image_id: digest for image_id, (digest, _) in stored.items()}
        unknown, changed = of_other_pictures({one.picture: one for one in kept}, present, hashes)
        notes += counted(
            sorted(unknown), "verdicts are of pictures that the training set lacks, and say nothing until it has them"
        )
        notes += counted(changed, "verdicts are of pictures that have changed since, and say nothing")
        notes += counted(read_verdicts(path).replaced, "verdicts are replaced by later lines of the file that differ")
        for note in notes:
            self.reporter.warn(f"verdicts: {note}")
        new = add_verdicts(self.run, kept)
        self.__dict__.pop("verdicts", None)  # to be read again
        return new

    @property
    def train_set(self) -> str:
        """The name of the set to train on."""
        return self.settings.data.train_set

    def shards(self, set_name: str) -> ShardSet:
        """Open the shards of a set; errors are those of `open_run_shards`."""
        return open_run_shards(self.run, self.settings, set_name)

    @property
    def stored(self) -> StoredRun:
        """What decides the results of the run, as it is now."""
        return StoredRun(self.run, self.settings, self.data, self.verdicts)

    @property
    def workspace(self) -> Workspace:
        """Where this command computes."""
        return Workspace(self.run, self.reporter, self.threads, self.device, self.memory, self.cluster)

    def open_extractor(self) -> Extractor:
        """Open the extractor of the settings, and report its warnings; SettingsError if it may not run its code."""
        features = self.settings.features
        with self.reporter.warnings():
            return open_sized_extractor(features.extractors, features.networks, self.device, self.named)

    def timed(self, stage: str) -> AbstractContextManager[dict[str, Any]]:
        """Store the time of a stage in ``timings.json``, with the counts that the stage adds to the dictionary."""
        return self.run.timed(stage, self.reporter.say)

    def save_other_time(self) -> dict[str, float]:
        """Store as "other" the wall time of the command that no stage has measured, so that the times add up to it.

        Returns the wall seconds by stage; none, and nothing is stored, if no stage had anything to do.
        """
        stages = {stage: seconds for stage, seconds in self.run.seconds.items() if stage != OTHER}
        if not stages.keys() - _ALWAYS:
            return {}
        rest = time.perf_counter() - self.began - sum(stages.values())
        self.run.save_timing(OTHER, Timing(rest), self.reporter.say)
        return {**stages, OTHER: rest}

    def save_settings(self) -> None:
        """Write the settings and the command line into the run folder."""
        self.run.save_settings(self.settings, self.command_line)

    @property
    def command_line(self) -> list[str]:
        """The words of the command that ``run.toml`` stores."""
        return [*self.program, *sys.argv[1:]]


def open_stored(run: RunFolder, settings: Settings, reporter: Reporter) -> StoredRun:
    """Return a run that is only read, with its data and verdicts."""
    return RunContext(run, settings, 1, reporter).stored
