"""Rows of finished runs in one table: means over classes and repetitions, with intervals over the pictures."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from lapsvm.pipelines.cli.study import print_table
from lapsvm.pipelines.compare.differences import shared_measures
from lapsvm.pipelines.compare.runs import ComparisonOptions, open_run, run_figures, shared_classes
from lapsvm.pipelines.figures.tables import difference_text, interval_text
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.run.ownership import table_files

from lapsvm.errors import OptionError
from lapsvm.evaluation import MEASURES, Figure, mean_figure, write_json
from lapsvm.evaluation.figures import difference_entry, interval_entry
from lapsvm.evaluation.intervals import LEVEL
from lapsvm.files import write_atomically
from lapsvm.report import escape_markdown, markdown_table

LEARNING = ("train", "refine")


class Row(NamedTuple):
    """One row of a table: a name, and the runs whose mean it shows."""

    name: str
    runs: Sequence[Path]


def rows_table(rows: Sequence[Row], draws: int, seed: int = 0, root: Path | None = None) -> dict[str, Any]:
    """Return the figures of every row of finished runs and their differences to the first row.

    Differences are paired over draws of the pictures, so the first run of each row must have the pictures of the first
    row; the runs of one row may have different pictures (those of a generator's seeds). `root` is the folder of all
    runs' data, if they have moved; OptionError if these had data in several folders.

    The result has "rows": for each its name, "runs", "measures" -> {"value", "low", "high", "values" of its runs,
    "difference"}, and "seconds" -> stage -> mean CPU and wall seconds; "draws", "level", "seed".
    """
    if root is not None and _pictures_differ([run for row in rows for run in row.runs]):
        raise OptionError("option --root must name the data of all runs, but those had data in several folders.")
    options, entries = ComparisonOptions(draws, seed), []
    first: dict[str, Figure] = {}
    for row in rows:
        by_run = _figures_of_runs(row, options, root)
        means = {measure: mean_figure(figures) for measure, figures in by_run.items()}
        first = first or means
        measures = {
            measure: {"value": mean.value, **(interval_entry(mean) or {})}
            | {"values": [figure.value for figure in by_run[measure] if figure.value is not None]}
            | {"difference": _difference(first.get(measure), mean)}
            for measure, mean in means.items()
        }
        entries.append({"name": row.name, "runs": len(row.runs), "measures": measures, "seconds": _seconds(row.runs)})
    return {"rows": entries, "draws": draws, "level": LEVEL, "seed": seed}


def _figures_of_runs(row: Row, options: ComparisonOptions, root: Path | None) -> dict[str, list[Figure]]:
    """Return measure -> mean over the classes of every run of the row."""
    figures: dict[str, list[Figure]] = {}
    for number, folder in enumerate(row.runs):
        run = open_run(folder.name, folder, threads=1, quiet=True, root=root)
        # repetitions on different pictures need independent draws
        seed = options.seed + number if _pictures_differ(row.runs) else options.seed
        for runs in run_figures([run], shared_classes([run]), replace(options, seed=seed)):
            for measure in shared_measures(runs):
                figures.setdefault(measure, []).append(runs[0].mean[measure])
    return {measure: figures[measure] for measure in MEASURES if measure in figures}


def _pictures_differ(runs: Sequence[Path]) -> bool:
    """Return whether the runs have different data, such as those of a generator's seeds."""
    return len({RunFolder(folder).settings().data.root for folder in runs}) > 1


def _difference(first: Figure | None, other: Figure) -> dict[str, Any] | None:
    """Return the difference to the first row; None for the first row itself."""
    return None if first is None or first is other else difference_entry(first, other)


def _seconds(runs: Sequence[Path]) -> dict[str, dict[str, float]]:
    """Return stage -> mean CPU and wall seconds of the runs that have it."""
    timings = [RunFolder(folder).timings() for folder in runs]
    stages = dict.fromkeys(stage for entries in timings for stage in entries)
    of_stage = {stage: [entries[stage] for entries in timings if stage in entries] for stage in stages}
    return {
        stage: {kind: round(fmean(entry[kind] for entry in entries), 1) for kind in ("cpu_seconds", "seconds")}
        for stage, entries in of_stage.items()
    }


def write_rows(folder: Path, name: str, table: dict[str, Any]) -> None:
    """Write a table as NAME.json and NAME.md into `folder`, which is created if it does not exist."""
    as_json, as_markdown = table_files(folder, name)
    write_json(as_json, table)
    write_atomically(as_markdown, rows_markdown(table).encode("utf-8", "backslashreplace"))


def rows_markdown(table: Mapping[str, Any]) -> str:
    """Return the table as Markdown: figures with intervals, then differences to the first row."""
    return "\n".join(markdown_table(header, rows, escape=False) for header, rows in row_tables(table, list(MEASURES)))


def print_rows(table: Mapping[str, Any], measures: Sequence[str] = tuple(MEASURES), into: Path | None = None) -> None:
    """Print both tables; that of figures is put into a page."""
    figures, differences = row_tables(table, measures)
    print_table(*figures, into)
    print()
    print_table(*differences)


def row_tables(table: Mapping[str, Any], measures: Sequence[str]) -> list[tuple[list[str], list[list[str | None]]]]:
    """Return titles and rows of the figures with intervals, and of differences to the first row."""
    measures = [name for name in measures if any(name in row["measures"] for row in table["rows"])]
    titles, names = [MEASURES[name].title for name in measures], [escape_markdown(row["name"]) for row in table["rows"]]
    figures, differences = [], []
    for name, row in zip(names, table["rows"], strict=True):
        entries = [row["measures"].get(measure) for measure in measures]
        figures.append([name, *map(_figure_text, entries), _cpu_seconds(row["seconds"])])
        differences.append([name, *(difference_text(entry and entry["difference"]) for entry in entries)])
    return [(["", *titles, "CPU s"], figures), ([f"difference to {names[0]}", *titles], differences[1:])]


def _figure_text(figure: Mapping[str, Any] | None) -> str | None:
    """Return a value, its interval, and the standard deviation over the row's runs."""
    if figure is None or figure["value"] is None:
        return None
    values = figure["values"]
    deviation = f", sd {np.std(values, ddof=1):.3f}" if len(values) > 1 else ""
    return f"{figure['value']:.3f} {interval_text(figure, sign='')}{deviation}"


def _cpu_seconds(seconds: Mapping[str, Mapping[str, float]]) -> str:
    """Return the CPU seconds of training and refinement."""
    return f"{sum(seconds[stage]['cpu_seconds'] for stage in LEARNING if stage in seconds):.0f}"
