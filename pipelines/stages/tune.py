"""`tune`: training with a larger grid, and a report of every candidate.

The grids are those of the thesis (section 4.1, "Methods"): C in 10^-3, 10^-2, ..., 10^4; for latent SVM the weight J of
the positives in (|P| + |N|) / |P| times 10^-4, 10^-3, ..., 10^1, and the trimmed share c in 0, 0.1, ..., 0.9; five
folds. The models are those of `train` with the same values, because the code is the same.
"""

import statistics
from collections.abc import Mapping
from typing import Any

from lapsvm.detection.detector import provenance_value
from lapsvm.errors import OptionError
from lapsvm.evaluation import write_json

from ..context import RunContext
from ..figures.tables import print_rows
from ..products.history import CONSTANTS
from ..products.models import load_detectors, trained_tasks, training_shards
from ..settings.settings import Settings
from .train import run as train_classes

C_GRID = tuple(10.0**power for power in range(-3, 5))
J_GRID = tuple(10.0**power for power in range(-4, 2))
TRIM_GRID = tuple(tenths / 10 for tenths in range(10))


def thesis_grids(learner: str) -> dict[str, Any]:
    """Return the thesis's grids as settings, J and c where the learner has them."""
    values: dict[str, Any] = {"train.C": C_GRID, "train.folds": 5, "train.path": True}
    if learner == "latent_svm":
        values |= {"train.J": J_GRID, "train.J_relative": True, "train.trim": TRIM_GRID}
    return values


def run(context: RunContext) -> None:
    """Train the classes that have no model yet, write tuning.json, and print the table.

    Raises OptionError if there is only one candidate, and the errors of `train`.
    """
    train = context.settings.train
    if not train.needs_folds:
        raise OptionError(f"tune needs several values to choose from, got C = {train.C[0]:g} alone; use train.")
    train_classes(context)
    tasks = trained_tasks(context.stored, training_shards(context.run, context.settings))
    detectors = load_detectors(context.stored, "tune", tasks)
    results = {detector.class_name: provenance_value(detector, "result") for detector in detectors}
    table = tuning_table(context.settings, results)
    context.run.files.claim([context.run.tuning_file])
    write_json(context.run.tuning_file, table)
    if not context.reporter.quiet:
        print_tuning(table)


def tuning_table(settings: Settings, results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the content of tuning.json: the choice of each class, and the scores of each candidate in the folds."""
    train = settings.train
    return {
        "learner": train.learner,
        "folds": train.folds,
        "margin": train.margin,
        "seed": settings.seed,
        "classes": {name: _class_entry(result) for name, result in results.items()},
    }


def _class_entry(result: Mapping[str, Any]) -> dict[str, Any]:
    candidates = [
        {**entry, "mean": statistics.fmean(entry["folds"]), "std": statistics.stdev(entry["folds"])}
        for entry in result["held_out_image_ap"]
    ]
    return {"chosen": {name: result[name] for name in CONSTANTS if name in result}, "candidates": candidates}


def print_tuning(table: Mapping[str, Any]) -> None:
    """Print the candidates of every class on standard output, the chosen one with a star."""
    for name, entry in table["classes"].items():
        title, chosen = f"{name}: held-out image AP, {table['folds']} folds", entry["chosen"]
        rows = []
        for one in entry["candidates"]:
            star = "*" if chosen.items() <= one.items() else ""
            rows.append([*(f"{one[key]:.4g}" for key in chosen), one["mean"], one["std"], star])
        print_rows(title, [*chosen, "mean", "std", ""], rows, has_means=False)
