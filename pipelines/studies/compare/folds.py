"""Learners compared by cross-validation on the training set: the same folds for every run, paired t-tests.

Each run trains with its own settings and the constants that training chose for each class; these were chosen on the
same training set, so that every run's values are a little too good, alike for all. Refinement is no part of it: a
refined run takes part with its training.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from lapsvm.arrays import Float64
from lapsvm.detection import Detector
from lapsvm.errors import SettingsError
from lapsvm.evaluation import holm, paired_t_test
from lapsvm.features import open_shards

from ...fitting.fit import Constants
from ...fitting.selection import Trial, fit_trials, held_out_folds
from ...fitting.tasks import FitTask, fit_tasks, training_difference
from ...fitting.training_bags import training_bags
from ...fitting.window_subset import groups
from ...results.detectors import load_detectors
from ...results.provenance import provenance_value
from ...run.context import RunContext
from ...run.dataset import label_vector

LEVEL = 0.95
Folding = dict[str, list[frozenset[str]]]  # class -> the pictures that each fold leaves out


def compare_folds(
    contexts: Sequence[RunContext], classes: Sequence[str], folds: int, seeds: int, seed: int
) -> dict[str, Any]:
    """Return held-out image APs of every run, class, seed and fold, with tests of their differences to the first run.

    Raises
    ------
    OneClassError
        If a class has fewer positives or negatives than folds.
    StageError
        If a run has no shards or no trained model of a class.
    SettingsError
        If a run's models were trained with other settings than it has now, or on windows that were kept by models
        which know the labels of the pictures that folds leave out.
    """
    chosen = [_chosen(context, classes) for context in contexts]
    folding = _folding(contexts[0], classes, folds, seeds, seed)
    values = np.stack([_held_out_scores(*pair, classes, folding) for pair in zip(contexts, chosen, strict=True)])
    rows = {name: _row(values[:, place], folds) for place, name in enumerate(classes)}
    for place in range(len(contexts) - 1):
        for kind in ("plain", "corrected"):
            tests = [row["differences"][place][kind] for row in rows.values()]
            for test, adjusted in zip(tests, holm([test["p_value"] for test in tests]).tolist(), strict=True):
                test["p_holm"] = adjusted
    return {"folds": folds, "seeds": seeds, "classes": rows, "mean": _row(values.mean(axis=1), folds)}


def _folding(context: RunContext, classes: Sequence[str], folds: int, seeds: int, seed: int) -> Folding:
    """Return the folds of every class, those of one seed after the other."""
    ids = np.array(open_shards(context.run.shards(context.settings.data.train_set)).image_ids)
    labels = _labels(context, ids.tolist(), classes)
    return {
        name: [
            frozenset(ids[held_out].tolist())
            for number in range(seeds)
            for held_out in held_out_folds(y, folds, seed + number, name, "lower --folds")
        ]
        for name, y in labels.items()
    }


def _labels(context: RunContext, ids: Sequence[str], classes: Sequence[str]) -> dict[str, NDArray[np.int8]]:
    """Return class -> label of every picture."""
    records = {record.id: record for record in context.data.records[context.settings.data.train_set]}
    return {name: label_vector([records[image] for image in ids], name) for name in classes}


def _held_out_scores(
    context: RunContext, chosen: Mapping[str, Constants], classes: Sequence[str], folding: Folding
) -> Float64:
    """Return one run's values (classes, seeds * folds), all trained side by side."""
    shards = open_shards(context.run.shards(context.settings.data.train_set))
    labels = _labels(context, shards.image_ids, classes)
    bags, scale, _ = training_bags(context, shards)
    scores: list[float] = []
    for kept, names in groups(context, shards, bags, scale, classes):
        trials = [
            Trial(name, chosen[name], labels[name], np.array([image in out for image in shards.image_ids]), number)
            for name in names
            for number, out in enumerate(folding[name], start=1)
        ]
        scores += [one.image_ap for one in fit_trials(context, f"{context.run.path.name}: folds", trials, kept)]
    return np.array(scores).reshape(len(classes), -1)


def _chosen(context: RunContext, classes: Sequence[str]) -> dict[str, Constants]:
    """Return the constants that training chose for each class, whatever refinement took after it."""
    if context.settings.train.keep_by:
        raise SettingsError(
            f"compare --folds must not have run {context.run.path}, whose windows were kept by models that know the "
            "labels of all pictures (--keep-by)."
        )
    shards = open_shards(context.run.shards(context.settings.data.train_set))
    models = {one.class_name: one for one in load_detectors(context, "compare --folds", context.trained_model)}
    tasks = {task.name: task for task in fit_tasks(context, shards)}
    return {name: _constants(models[name], tasks[name]) for name in classes}


def _constants(model: Detector, task: FitTask) -> Constants:
    """Return a trained model's constants; SettingsError unless it was trained with the settings of its run."""
    difference = training_difference(model.provenance, task)
    if difference:
        raise SettingsError(
            f"compare --folds trains with the settings of a run, but {task.path} was trained with {difference}."
        )
    C, result = provenance_value(model, "result", "C"), provenance_value(model, "result")
    return Constants(C, result.get("J"), result.get("ignored"))


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
    return {"plain": _test(first, other, 0.0), "corrected": _test(first, other, 1 / (folds - 1))}


def _test(first: Float64, other: Float64, overlap: float) -> dict[str, Any]:
    """Return a paired t-test and the interval of the differences that it does not reject, inside [-1, 1]."""
    found, n = paired_t_test(first, other, overlap=overlap), len(first)
    error = float((other - first).std(ddof=1) * np.sqrt(1 / n + overlap))
    half = float(stdtrit(n - 1, (1 + LEVEL) / 2)) * error
    middle = found.difference
    return {**asdict(found), "low": max(-1.0, middle - half), "high": min(1.0, middle + half)}
