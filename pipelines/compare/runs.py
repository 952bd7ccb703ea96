"""Two or more finished runs on the same pictures, class by class, with intervals and tests.

Differences are to the first run. The bootstrap draws the same pictures for all runs: those of the test set for the APs,
those of the training set for CorLoc and pointing. P-values are corrected (Holm) over the classes of a measure and a
run; the mean over the classes is a separate hypothesis.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lapsvm.catalog import ImageRecord
from lapsvm.errors import OptionError, SettingsError, StageError
from lapsvm.evaluation import MEASURES, Draws, Figures, write_json
from lapsvm.evaluation.intervals import LEVEL
from lapsvm.evaluation.measures import Pictures
from lapsvm.files import write_atomically

from ..annotations.known_boxes import BoxSource, known_boxes
from ..cli.answer import Outcome
from ..context import StoredRun, Workspace, open_stored
from ..figures.compute import set_figures
from ..figures.evaluation import evaluate_set
from ..run.dataset import moved
from ..run.folder import RunFolder
from ..run.ownership import check_outside, table_files
from ..run.progress import Reporter
from ..settings.checks import check_settings
from .differences import measure_table, shared_measures
from .folds import compare_folds
from .output import comparison_markdown, comparison_svg, print_comparison

ROLES = {"test": Pictures.TEST, "train": Pictures.TRAINING}


@dataclass(frozen=True)
class ComparisonOptions:
    """Options of a comparison: bootstrap draws, seed, and cross-validation (`folds` is None without it)."""

    draws: int = 2000
    seed: int = 0
    folds: int | None = None
    seeds: int = 1


@dataclass(frozen=True)
class ComparedRun:
    """One run of a comparison."""

    name: str
    stored: StoredRun
    workspace: Workspace
    boxes: BoxSource

    def set_name(self, role: str) -> str:
        """Return the name of the run's "test" or "train" set; the data may have none."""
        data = self.stored.settings.data
        return data.train_set if role == "train" else data.test_set

    def records(self, role: str) -> list[ImageRecord]:
        """Return the pictures of a set; none where there is no such set."""
        return self.stored.data.records.get(self.set_name(role), [])

    def cpu_seconds(self) -> float | None:
        """Return the CPU seconds of training and refinement; None if the run has no times."""
        timings = self.stored.folder.timings(self.workspace.reporter.say)
        found = [timings[stage]["cpu_seconds"] for stage in ("train", "refine") if stage in timings]
        return float(sum(found)) if found else None

    def summary(self) -> dict[str, str]:
        """Return the run's name, learner, loss and refinement."""
        train, rounds = self.stored.settings.train, self.stored.settings.refine.rounds
        loss = {"loss": train.loss} if train.learner == "latent_rank_svm" else {}
        refinement = {"refinement": f"{rounds} round(s) of refinement"} if rounds else {}
        return {"name": self.name, "learner": train.learner, **loss, **refinement}


def compare_runs(
    folders: Sequence[Path], out: Path, options: ComparisonOptions, threads: int, quiet: bool, root: str | None = None
) -> Outcome:
    """Write comparison.json, comparison.md and comparison.svg into `out` and print the table.

    `root` is the folder of all runs' data, if it has moved.

    Raises
    ------
    OptionError
        If there are fewer than two runs, or one is named twice, or seeds are given without folds.
    StageError
        If a run is not finished, or nothing can be compared.
    SettingsError
        If the runs are on different pictures, labels or boxes.
    """
    if len({folder.resolve() for folder in folders}) < max(2, len(folders)):
        named = ", ".join(map(str, folders))
        raise OptionError(f"compare needs two or more run folders, each named once, got {named}.")
    if options.folds is None and options.seeds != 1:
        raise OptionError(f"option --seeds needs --folds, got --seeds {options.seeds} alone.")
    runs = [open_run(name, folder, threads, quiet, root) for name, folder in zip(_names(folders), folders, strict=True)]
    _check_out(out, runs)
    classes = shared_classes(runs)
    for role in ROLES:
        _check_same_pictures(runs, role, classes)
    measures = measure_tables(run_figures(runs, classes, options))
    if not measures and options.folds is None:
        raise StageError("compare needs a test set, or boxes of the training set, or --folds; the runs have none.")
    table = _table(runs, measures, classes, options)
    if options.folds is not None:
        opened = [(run.stored, run.workspace) for run in runs]
        table["folds"] = compare_folds(opened, classes, options.folds, options.seeds, options.seed)
        refined = [run.name for run in runs if run.stored.settings.refine.rounds]
        table["folds"] |= {"without_refinement": refined} if refined else {}
    _write(out, table)
    if not quiet:
        print_comparison(table)
    return Outcome({"comparison": out}, table)


def _check_out(out: Path, runs: Sequence[ComparedRun]) -> None:
    """Raise OptionError or SettingsError if the comparison may not be written into `out`."""
    if out.exists() and not out.is_dir():
        raise OptionError(f"option --out must name a folder, got the file {out}.")
    for run in runs:
        check_outside(out, run.stored.settings.data)
    table_files(out, "comparison", (".md", ".svg"), write=False)


def _write(out: Path, table: dict[str, Any]) -> None:
    """Write the three files."""
    as_json, as_markdown, as_svg = table_files(out, "comparison", (".md", ".svg"))
    write_json(as_json, table)
    write_atomically(as_markdown, comparison_markdown(table).encode("utf-8", "backslashreplace"))
    write_atomically(as_svg, comparison_svg(table).encode("utf-8", "backslashreplace"))


def _names(folders: Sequence[Path]) -> list[str]:
    """Return the names of the folders, or their paths where two have the same name."""
    names = [folder.resolve().name for folder in folders]
    return names if len(set(names)) == len(names) else [str(folder) for folder in folders]


def open_run(name: str, folder: Path, threads: int, quiet: bool, root: str | None = None) -> ComparedRun:
    """Return the run in `folder`, its settings checked; `root` is the folder of its data, if it has moved."""
    run, reporter = RunFolder(folder), Reporter(quiet)
    settings = check_settings(moved(run.require_settings("compare"), root))
    stored, workspace = open_stored(run, settings, reporter), Workspace(run, reporter, threads)
    return ComparedRun(name, stored, workspace, BoxSource.of(stored, reporter.say))


def shared_classes(runs: Sequence[ComparedRun]) -> list[str]:
    """Return the classes that all runs have, in the order of the first run, and report the others."""
    first = runs[0]
    shared = [name for name in first.stored.data.classes if all(name in run.stored.data.classes for run in runs)]
    if not shared:
        raise SettingsError("compare needs runs with a class in common, got none.")
    others = {name for run in runs for name in run.stored.data.classes} - set(shared)
    if others:
        first.workspace.reporter.say(f"not in every run and left out: {', '.join(sorted(others))}")
    return shared


def _check_same_pictures(runs: Sequence[ComparedRun], role: str, classes: Sequence[str]) -> None:
    """Raise SettingsError unless every run has the first run's pictures, labels and boxes in a set."""
    first = runs[0]
    for other in runs[1:]:
        for what, read in (("pictures", _pictures), ("labels", _labels), ("boxes", _boxes)):
            if read(first, role, classes) != read(other, role, classes):
                raise SettingsError(
                    f"compare needs runs on the same data, but the {role} sets of {first.name} and {other.name} "
                    f"differ in their {what}."
                )


def _pictures(run: ComparedRun, role: str, _: Sequence[str]) -> dict[str, str]:
    """Return picture -> hash of its pixels."""
    if not run.records(role):
        return {}
    return run.stored.shards(run.set_name(role)).hashes


def _labels(run: ComparedRun, role: str, classes: Sequence[str]) -> dict[str, list[int]]:
    """Return picture -> label of every class."""
    return {record.id: [record.labels.get(name, 0) for name in classes] for record in run.records(role)}


def _boxes(run: ComparedRun, role: str, classes: Sequence[str]) -> Any:
    """Return class -> picture -> (boxes, difficult flags) as lists; None where boxes are not known."""
    known = known_boxes(run.boxes, run.set_name(role)) if run.records(role) else None
    if known is None:
        return None
    return sorted(known.pictures), {
        name: {image: (np.asarray(item.boxes).tolist(), item.difficult.tolist()) for image, item in truth.items()}
        for name, truth in known.truth.items()
        if name in classes
    }


def run_figures(runs: Sequence[ComparedRun], classes: Sequence[str], options: ComparisonOptions) -> list[list[Figures]]:
    """Return for each role that has pictures the figures of every run's classes, on the same draws."""
    figures = []
    for role, pictures in ROLES.items():
        ids = [record.id for record in runs[0].records(role)]
        if not ids:
            continue
        first, set_name = runs[0].stored, runs[0].set_name(role)
        groups = first.groups(set_name, ids, first.shards_if_any(set_name))
        draws = Draws.of(ids, options.seed, groups, options.draws)
        evaluations = [evaluate_set(run.stored, run.boxes, run.set_name(role)) for run in runs]
        if len({evaluation.left_out for evaluation in evaluations}) > 1:
            raise OptionError(f"runs must leave out the same pictures, but those of the {role} set differ.")
        figures.append([set_figures(evaluation, pictures, draws, classes) for evaluation in evaluations])
    return figures


def measure_tables(roles: Sequence[Sequence[Figures]]) -> dict[str, Any]:
    """Return the table of every measure that all runs have, in the order of tables.

    A run of fewer classes may have pictures of none, and so one measure more.
    """
    tables = {key: measure_table(runs, key) for runs in roles for key in shared_measures(runs)}
    return {key: tables[key] for key in MEASURES if key in tables}


def _table(
    runs: Sequence[ComparedRun], measures: Mapping[str, Any], classes: Sequence[str], options: ComparisonOptions
) -> dict[str, Any]:
    """Return the content of comparison.json."""
    return {
        "runs": [run.summary() for run in runs],
        "classes": list(classes),
        "pictures": {role: len(runs[0].records(role)) for role in ROLES},
        "draws": options.draws,
        "level": LEVEL,
        "seed": options.seed,
        "cpu_seconds": [run.cpu_seconds() for run in runs],
        "measures": measures,
    }
