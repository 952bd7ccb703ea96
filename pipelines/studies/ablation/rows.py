"""Rows of finished runs side by side: means over classes and repetitions, with intervals over the pictures."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lapsvm.evaluation import write_json
from lapsvm.files import write_atomically
from lapsvm.report import escape_markdown

from ...results.tables import TITLES
from ...run.folder import RunFolder
from ...run.ownership import table_files
from ..compare.folds import LEVEL
from ..compare.runs import MEASURES, Figure, Plan, difference, figures_of, mean_figure, open_entrant, shared_classes

LEARNING = ("train", "refine")


class Row(NamedTuple):
    """One line of a table: a name, and the runs that it is the mean of."""

    name: str
    runs: Sequence[Path]


def rows_table(rows: Sequence[Row], draws: int, seed: int = 0) -> dict[str, Any]:
    """Return every row's figures, and how they differ from the first row's.

    Parameters
    ----------
    rows : sequence of Row
        Finished runs. Differences are paired over draws of the pictures, so the first run of each row must be on the
        pictures of the first row's; runs of one row may be on others (a generator's seeds), place by place the same.
    draws : int
        Bootstrap draws of the pictures.
    seed : int, default 0

    Returns
    -------
    dict
        "rows": for each its name, "runs", "measures" -> {"value", "low", "high", "values" of its runs, "difference"},
        and "seconds" -> stage -> mean CPU and wall seconds; "draws", "level", "seed".
    """
    plan, first, told = Plan(draws, seed), dict[str, Figure](), []
    for row in rows:
        figures = _row_figures(row, plan)
        first = first or {measure: figure for measure, (figure, _) in figures.items()}
        measures = {
            measure: _interval(figure) | {"values": values, "difference": _less(first.get(measure), figure)}
            for measure, (figure, values) in figures.items()
        }
        told.append({"name": row.name, "runs": len(row.runs), "measures": measures, "seconds": _seconds(row.runs)})
    return {"rows": told, "draws": draws, "level": LEVEL, "seed": seed}


def _row_figures(row: Row, plan: Plan) -> dict[str, tuple[Figure, list[float]]]:
    """Return measure -> mean over the row's runs, on the pictures and on every draw, and every run's value."""
    found: dict[str, list[Figure]] = {}
    for number, folder in enumerate(row.runs):
        entrant = open_entrant(folder.name, folder, threads=1, quiet=True)
        # each repetition draws pictures of its own, as if none were the same
        own = replace(plan, seed=plan.seed + number) if len(row.runs) > 1 and _pictures_differ(row.runs) else plan
        for measure, by_class in figures_of([entrant], shared_classes([entrant]), own).items():
            found.setdefault(measure, []).append(mean_figure([figures[0] for figures in by_class.values()]))
    return {
        measure: (mean_figure(figures), [figure.value for figure in figures if figure.value is not None])
        for measure, figures in found.items()
    }


def _pictures_differ(runs: Sequence[Path]) -> bool:
    """Tell whether the runs have data of their own, as those on a generator's seeds do."""
    return len({RunFolder(folder).settings().data.root for folder in runs}) > 1


def _interval(figure: Figure) -> dict[str, float | None]:
    """Return a figure's value with its percentile interval over the draws."""
    low, high = np.nanquantile(figure.draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
    return {"value": figure.value, "low": low, "high": high}


def _less(first: Figure | None, other: Figure) -> dict[str, Any] | None:
    """Return how a figure differs from the first row's, unless it is that itself."""
    return None if first is None or first is other else difference(first, other)


def _seconds(runs: Sequence[Path]) -> dict[str, dict[str, float]]:
    """Return stage -> mean CPU and wall seconds of the runs that did it."""
    timings = [RunFolder(folder).timings() for folder in runs]
    stages = dict.fromkeys(stage for entries in timings for stage in entries)
    return {
        stage: {
            kind: round(float(np.mean([entries[stage][kind] for entries in timings if stage in entries])), 1)
            for kind in ("cpu_seconds", "seconds")
        }
        for stage in stages
    }


def write_rows(folder: Path, name: str, table: Mapping[str, Any]) -> None:
    """Write a table as NAME.json and NAME.md into a folder, which is made where it is not there."""
    as_json, as_markdown = table_files(folder, name, "rows")
    write_json(as_json, table)
    write_atomically(as_markdown, rows_markdown(table).encode("utf-8", "backslashreplace"))


def rows_markdown(table: Mapping[str, Any]) -> str:
    """Return the table as Markdown: figures with intervals, then differences to the first row."""
    measures = [name for name in MEASURES if any(name in row["measures"] for row in table["rows"])]
    titles = [TITLES[name] for name in measures]
    lines = [f"| | {' | '.join(titles)} | CPU s |", "|---|" + "---|" * (len(titles) + 1)]
    for row in table["rows"]:
        cells = [_cell(row["measures"].get(name)) for name in measures]
        lines.append(f"| {escape_markdown(row['name'])} | {' | '.join(cells)} | {_cpu(row['seconds'])} |")
    lines += [
        "",
        f"| less {escape_markdown(table['rows'][0]['name'])} | {' | '.join(titles)} |",
        "|---|" + "---|" * len(titles),
    ]
    for row in table["rows"][1:]:
        cells = [_difference_cell(row["measures"].get(name)) for name in measures]
        lines.append(f"| {escape_markdown(row['name'])} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(figure: Mapping[str, Any] | None) -> str:
    """Return a value, its interval, and how far the row's runs lie apart."""
    if figure is None or figure["value"] is None:
        return "-"
    values = figure["values"]
    apart = f", sd {np.std(values, ddof=1):.3f}" if len(values) > 1 else ""
    return f"{figure['value']:.3f} [{figure['low']:.3f}, {figure['high']:.3f}]{apart}"


def _difference_cell(figure: Mapping[str, Any] | None) -> str:
    """Return a difference with its interval."""
    found = None if figure is None else figure["difference"]
    return "-" if found is None else f"{found['difference']:+.3f} [{found['low']:+.3f}, {found['high']:+.3f}]"


def _cpu(seconds: Mapping[str, Mapping[str, float]]) -> str:
    """Return the CPU seconds of training and refinement."""
    return f"{sum(seconds[stage]['cpu_seconds'] for stage in LEARNING if stage in seconds):.0f}"
