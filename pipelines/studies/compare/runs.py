"""Two or more finished runs on the same pictures, class by class, with intervals and tests.

Differences are to the first run. Pictures are drawn with replacement, the same for all runs: those of the test set for
the APs, those of the training set for CorLoc. P-values are corrected (Holm) over the classes of a measure and a run;
the mean over the classes is one hypothesis of its own.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lapsvm.arrays import Float64
from lapsvm.catalog import ImageRecord
from lapsvm.errors import OptionError, SettingsError, StageError
from lapsvm.evaluation import (
    bootstrap_difference,
    detection_ap_draws,
    draw_pictures,
    holm,
    image_ap_draws,
    share_draws,
    write_json,
)
from lapsvm.evaluation.tables import mean
from lapsvm.features import open_shards
from lapsvm.files import write_atomically

from ...results.detections import is_up_to_date
from ...results.evaluation import SetEvaluation, best_scores, evaluate_set
from ...run.checks import check_settings
from ...run.context import RunContext
from ...run.dataset import label_vector
from ...run.files import check_outside
from ...run.folder import RunFolder
from ...run.ownership import table_files
from ...run.progress import Reporter
from .folds import LEVEL, compare_folds
from .plot import comparison_svg
from .tables import comparison_markdown, print_comparison

MEASURES = ("ap_11point", "ap_area", "corloc", "image_ap")
ROLES = ("test", "train")


@dataclass(frozen=True)
class ComparisonOptions:
    """How runs are compared: bootstrap draws, seed, and folds (None: none are trained) with that many seeds."""

    draws: int = 2000
    seed: int = 0
    folds: int | None = None
    seeds: int = 1


@dataclass(frozen=True)
class ComparedRun:
    """One run of a comparison."""

    name: str
    context: RunContext

    def set_name(self, role: str) -> str | None:
        """Return the name of the run's "test" or "train" set; None if the data have none."""
        data = self.context.settings.data
        name = data.train_set if role == "train" else data.test_set
        return name if name in self.context.data.records else None

    def records(self, role: str) -> list[ImageRecord]:
        """Return the pictures of a set; none where there is no such set."""
        name = self.set_name(role)
        return [] if name is None else self.context.data.records[name]

    def evaluation(self, role: str) -> SetEvaluation | None:
        """Return what is known of a set."""
        name = self.set_name(role)
        if name is None:
            return None
        found = evaluate_set(self.context, name)
        if not is_up_to_date(self.context, name):
            raise StageError(
                f"compare needs detections by the models that are there, but {self.context.run.detections(name)} "
                "holds older ones; run lapsvm detect first."
            )
        return found

    def about(self) -> dict[str, Any]:
        """Return what tells the run from others."""
        train = self.context.settings.train
        loss = {"loss": train.loss} if train.learner == "latent_rank_svm" else {}
        rounds = self.context.settings.refine.rounds
        refined = {"refinement": f"{rounds} round(s) of refinement"} if rounds else {}
        return {"name": self.name, "learner": train.learner, **loss, **refined}


@dataclass(frozen=True)
class Figure:
    """A figure of one run and class: on the pictures as they are, and on every draw of them."""

    value: float | None
    draws: Float64


Figures = dict[str, dict[str, list[Figure]]]  # measure -> class -> one per run


def compare_runs(folders: Sequence[Path], out: Path, plan: ComparisonOptions, threads: int, quiet: bool) -> None:
    """Write comparison.json, comparison.md and comparison.svg into `out` and print the table.

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
        raise OptionError(f"compare needs two or more run folders, each named once, got {len(folders)}.")
    if plan.folds is None and plan.seeds != 1:
        raise OptionError(f"option --seeds needs --folds, got --seeds {plan.seeds} alone.")
    entrants = [
        open_compared_run(name, folder, threads, quiet) for name, folder in zip(_names(folders), folders, strict=True)
    ]
    _check_out(out, entrants)
    classes = shared_classes(entrants)
    for role in ROLES:
        _check_same_pictures(entrants, role, classes)
    figures = figures_of(entrants, classes, plan)
    if not figures and plan.folds is None:
        raise StageError("compare needs a test set, or boxes of the training set, or --folds; here is none of them.")
    table = _table(entrants, figures, classes, plan)
    if plan.folds is not None:
        contexts = [entrant.context for entrant in entrants]
        table["folds"] = compare_folds(contexts, classes, plan.folds, plan.seeds, plan.seed)
        refined = [entrant.name for entrant in entrants if entrant.context.settings.refine.rounds]
        table["folds"] |= {"without_refinement": refined} if refined else {}
    _write(out, table)
    if not quiet:
        print_comparison(table)


def _check_out(out: Path, entrants: Sequence[ComparedRun]) -> None:
    """Raise OptionError or SettingsError if the comparison may not be written into a folder."""
    if out.exists() and not out.is_dir():
        raise OptionError(f"option --out must name a folder, got the file {out}.")
    for entrant in entrants:
        check_outside(out, entrant.context.settings.data)
    table_files(out, "comparison", "measures", (".md", ".svg"), write=False)


def _write(out: Path, table: dict[str, Any]) -> None:
    """Write the three files."""
    as_json, as_markdown, as_svg = table_files(out, "comparison", "measures", (".md", ".svg"))
    write_json(as_json, table)
    write_atomically(as_markdown, comparison_markdown(table).encode("utf-8", "backslashreplace"))
    write_atomically(as_svg, comparison_svg(table).encode("utf-8", "backslashreplace"))


def _names(folders: Sequence[Path]) -> list[str]:
    """Return the folders' own names, or their paths where two have the same name."""
    names = [folder.resolve().name for folder in folders]
    return names if len(set(names)) == len(names) else [str(folder) for folder in folders]


def open_compared_run(name: str, folder: Path, threads: int, quiet: bool) -> ComparedRun:
    """Return one run, its settings checked."""
    run = RunFolder(folder)
    return ComparedRun(name, RunContext(run, check_settings(run.require_settings("compare")), threads, Reporter(quiet)))


def shared_classes(entrants: Sequence[ComparedRun]) -> list[str]:
    """Return the classes of all runs, in the first one's order; those that a run lacks are told."""
    first = entrants[0].context
    shared = [name for name in first.data.classes if all(name in one.context.data.classes for one in entrants)]
    if not shared:
        raise SettingsError("compare needs runs with a class in common, got none.")
    others = {name for one in entrants for name in one.context.data.classes} - set(shared)
    if others:
        first.reporter.say(f"not in every run and left out: {', '.join(sorted(others))}")
    return shared


def _check_same_pictures(entrants: Sequence[ComparedRun], role: str, classes: Sequence[str]) -> None:
    """Raise SettingsError unless every run has the first one's pictures, labels and boxes in a set."""
    first = entrants[0]
    for other in entrants[1:]:
        for what, read in (("pictures", _pictures), ("labels", _labels), ("boxes", _boxes)):
            if read(first, role, classes) != read(other, role, classes):
                raise SettingsError(
                    f"compare needs runs on the same data, but the {role} sets of {first.name} and {other.name} "
                    f"differ in their {what}."
                )


def _pictures(entrant: ComparedRun, role: str, _: Sequence[str]) -> dict[str, str]:
    """Return picture -> hash of its pixels."""
    name = entrant.set_name(role)
    if name is None:
        return {}
    shards = open_shards(entrant.context.run.shards(name))
    return dict(zip(shards.image_ids, shards.pixel_hashes, strict=True))


def _labels(entrant: ComparedRun, role: str, classes: Sequence[str]) -> dict[str, list[int]]:
    """Return picture -> label of every class."""
    return {record.id: [record.labels.get(name, 0) for name in classes] for record in entrant.records(role)}


def _boxes(entrant: ComparedRun, role: str, classes: Sequence[str]) -> Any:
    """Return class -> picture -> objects, as plain lists; None where they are not known."""
    name = entrant.set_name(role)
    truth = None if name is None else entrant.context.data.dataset.ground_truth(name)
    if truth is None:
        return None
    return {
        name: {image: (np.asarray(one.boxes).tolist(), one.difficult.tolist()) for image, one in truth[name].items()}
        for name in classes
    }


def figures_of(entrants: Sequence[ComparedRun], classes: Sequence[str], plan: ComparisonOptions) -> Figures:
    """Return every figure of every class and run, in the order of MEASURES; what is not known is left out."""
    figures: Figures = {}
    for role in ROLES:
        numbers = {record.id: number for number, record in enumerate(entrants[0].records(role))}
        if not numbers:
            continue
        counts = draw_pictures(len(numbers), plan.draws, plan.seed)
        for entrant in entrants:
            found = entrant.evaluation(role)
            for name in classes if found is not None else ():
                figured = _test_figures if role == "test" else _train_figures
                for measure, figure in figured(found, entrant.records(role), name, numbers, counts).items():
                    figures.setdefault(measure, {}).setdefault(name, []).append(figure)
    return {measure: figures[measure] for measure in MEASURES if measure in figures}


def _test_figures(
    found: SetEvaluation, records: Sequence[ImageRecord], name: str, numbers: dict[str, int], counts: Any
) -> dict[str, Figure]:
    """Return the APs of one class; pictures without a window are not ranked."""
    best = best_scores(found.detections[name])
    ids = sorted(numbers, key=numbers.__getitem__)
    y = dict(zip([record.id for record in records], label_vector(records, name).tolist(), strict=True))
    labels = [y[image] if image in best else 0 for image in ids]
    draws = image_ap_draws([best.get(image, 0.0) for image in ids], labels, counts)
    figures = {"image_ap": Figure(found.image_ap[name], draws)}
    if found.voc is not None and found.truth is not None:
        result, truth = found.voc.classes[name], found.truth[name]
        images = found.detections[name].image_ids
        npos = [int((~np.asarray(truth[image].difficult, dtype=bool)).sum()) for image in ids]
        places = [numbers[images[i]] for i in result.order]
        points, areas = detection_ap_draws(result.matches.outcome, places, npos, counts)
        figures["ap_11point"], figures["ap_area"] = Figure(result.ap_11point, points), Figure(result.ap_area, areas)
    return figures


def _train_figures(
    found: SetEvaluation, _: Sequence[ImageRecord], name: str, numbers: dict[str, int], counts: Any
) -> dict[str, Figure]:
    """Return the CorLoc of one class, where boxes are known."""
    if found.corloc is None:
        return {}
    located = found.corloc.classes[name]
    draws = share_draws(located.hits, [numbers[image] for image in located.image_ids], counts)
    return {"corloc": Figure(located.corloc, draws)}


def _table(
    entrants: Sequence[ComparedRun], figures: Figures, classes: Sequence[str], plan: ComparisonOptions
) -> dict[str, Any]:
    """Return what comparison.json holds."""
    return {
        "runs": [entrant.about() for entrant in entrants],
        "classes": list(classes),
        "pictures": {role: len(entrants[0].records(role)) for role in ROLES},
        "draws": plan.draws,
        "level": LEVEL,
        "seed": plan.seed,
        "measures": {measure: measure_table(by_class) for measure, by_class in figures.items()},
    }


def measure_table(by_class: dict[str, list[Figure]]) -> dict[str, Any]:
    """Return one measure's classes and mean: values of the runs, differences to the first."""
    rows = {name: _row(figures) for name, figures in by_class.items()}
    correct_over_classes([row["differences"] for row in rows.values()], "p_value", "p_holm")
    runs = zip(*by_class.values(), strict=True)
    return {"classes": rows, "mean": _row([mean_figure(figures) for figures in runs])}


def mean_figure(figures: Sequence[Figure]) -> Figure:
    """Return the mean of one run over the classes that are defined, on the pictures and on every draw."""
    draws = np.stack([figure.draws for figure in figures])
    known = ~np.isnan(draws)
    sums, sizes = np.where(known, draws, 0.0).sum(axis=0), known.sum(axis=0)
    means = np.divide(sums, sizes, out=np.full(len(sums), np.nan), where=sizes > 0)
    return Figure(mean(figure.value for figure in figures), means)


def _row(figures: Sequence[Figure]) -> dict[str, Any]:
    """Return the values of the runs, and how each but the first differs from it; None where undefined."""
    first = figures[0]
    return {
        "values": [figure.value for figure in figures],
        "differences": [difference(first, other) for other in figures[1:]],
    }


def difference(first: Figure, other: Figure) -> dict[str, Any] | None:
    """Return how the other figure differs from the first, pictures drawn alike; None where one has no value."""
    if first.value is None or other.value is None:
        return None
    found = bootstrap_difference(other.value - first.value, first.draws, other.draws, LEVEL)
    return None if found is None else asdict(found)


def correct_over_classes(rows: Sequence[Sequence[dict[str, Any] | None]], raw: str, corrected: str) -> None:
    """Add Holm's correction to the differences of every class, run by run."""
    for of_run in zip(*rows, strict=True):
        known = [difference for difference in of_run if difference is not None]
        for difference, value in zip(known, holm([one[raw] for one in known]).tolist(), strict=True):
            difference[corrected] = value
