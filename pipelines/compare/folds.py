"""Cross-validation of several runs' learners on the training set: the same folds for every run, paired t-tests.

Each run trains with its settings and the constants that training chose for each class. They were chosen on the same
training set, so the values of all runs are slightly optimistic. Cross-validation leaves refinement out.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Float64
from lapsvm.catalog import ImageRecord
from lapsvm.detection import Detector
from lapsvm.detection.detector import provenance_value

from ..context import StoredRun, Workspace
from ..fitting.fit import Constants, Trainer
from ..fitting.selection import Trial, fit_trials
from ..fitting.training_bags import training_bags
from ..products.fold_models import held_out_folds
from ..products.models import load_detectors, trained_tasks
from ..run.dataset import label_vector
from ..run.groups import picture_groups
from .differences import add_holm, t_test_row

Folds = dict[str, list[frozenset[str]]]  # class -> the held-out pictures of each fold


def compare_folds(
    runs: Sequence[tuple[StoredRun, Workspace]], classes: Sequence[str], folds: int, seeds: int, seed: int
) -> dict[str, Any]:
    """Return held-out image APs of every run, class, seed and fold, with tests of their differences to the first run.

    Raises
    ------
    OneClassError
        If a class has fewer positives or negatives than folds.
    StageError
        If a run has no shards or no trained model of a class.
    SettingsError
        If the settings of a run differ from those of its models.
    """
    chosen = [_chosen(stored, classes) for stored, _ in runs]
    held_out = _class_folds([stored for stored, _ in runs], classes, folds, seeds, seed)
    scores = [_held_out_scores(*run, constants, held_out) for run, constants in zip(runs, chosen, strict=True)]
    values = np.stack(scores)
    rows = {name: _row(values[:, index], folds) for index, name in enumerate(classes)}
    for kind in ("plain", "corrected"):
        add_holm([difference[kind] for difference in row["differences"]] for row in rows.values())
    return {"folds": folds, "seeds": seeds, "classes": rows, "mean": _row(values.mean(axis=1), folds)}


def _class_folds(runs: Sequence[StoredRun], classes: Sequence[str], folds: int, seeds: int, seed: int) -> Folds:
    """Return the held-out pictures of every class and fold, seed by seed; what one run keeps together stays so."""
    first = runs[0]
    shards = first.shards(first.train_set)
    ids, records = np.array(shards.image_ids), [first.training_pictures[name] for name in shards.image_ids]
    groups = picture_groups(records, shards.pixel_hashes, *(run.settings.data.group for run in runs))
    labels = _labels(first.training_pictures, ids.tolist(), classes)
    return {
        name: [
            frozenset(ids[held_out].tolist())
            for number in range(seeds)
            for held_out in held_out_folds(y, folds, seed + number, name, "lower --folds", groups)
        ]
        for name, y in labels.items()
    }


def _labels(
    pictures: Mapping[str, ImageRecord], ids: Sequence[str], classes: Iterable[str]
) -> dict[str, NDArray[np.int8]]:
    """Return class -> label of every picture."""
    records = [pictures[image] for image in ids]
    return {name: label_vector(records, name) for name in classes}


def _held_out_scores(
    stored: StoredRun, workspace: Workspace, chosen: Mapping[str, Constants], held_out: Folds
) -> Float64:
    """Return one run's held-out image APs (classes, seeds * folds); all models train together."""
    shards, settings = stored.shards(stored.train_set), stored.settings
    labels = _labels(stored.training_pictures, shards.image_ids, chosen)
    bags = training_bags(workspace, settings, shards)[0]
    trainer = Trainer(settings, workspace.reporter, stored.folder, shards.provenance)
    trials = [
        Trial(name, chosen[name], labels[name], np.array([image in fold for image in shards.image_ids]), number)
        for name in chosen
        for number, fold in enumerate(held_out[name], start=1)
    ]
    scores = [fit.image_ap for fit in fit_trials(trainer, f"{stored.folder.path.name}: folds", trials, bags)]
    return np.array(scores).reshape(len(chosen), -1)


def _chosen(stored: StoredRun, classes: Sequence[str]) -> dict[str, Constants]:
    """Return the constants that training, not refinement, chose for each class."""
    shards = stored.shards(stored.train_set)
    detectors = load_detectors(stored, "compare --folds", trained_tasks(stored, shards))
    models = {detector.class_name: detector for detector in detectors}
    return {name: _constants(models[name]) for name in classes}


def _constants(model: Detector) -> Constants:
    """Return a model's constants."""
    C, result = provenance_value(model, "result", "C"), provenance_value(model, "result")
    return Constants(C, result.get("J"), result.get("trim"))


def _row(values: Float64, folds: int) -> dict[str, Any]:
    """Return the entry of one class, or of the mean, from values (runs, seeds * folds)."""
    return {
        "values": values.tolist(),
        "means": values.mean(axis=1).tolist(),
        "stds": values.std(axis=1, ddof=1).tolist(),
        "differences": [_tests(values[0], other, folds) for other in values[1:]],
    }


def _tests(first: Float64, other: Float64, folds: int) -> dict[str, Any]:
    """Return the plain test, as the thesis reports it, and the one corrected for overlapping training sets."""
    tests = {"plain": t_test_row(first, other), "corrected": t_test_row(first, other, 1 / (folds - 1))}
    for test in tests.values():  # a difference of two APs lies in [-1, 1]
        test["low"], test["high"] = max(-1.0, test["low"]), min(1.0, test["high"])
    return tests
