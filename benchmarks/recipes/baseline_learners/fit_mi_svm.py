"""MI-SVM on the shards of a run: C and J by the image-level AP of held-out pictures, class by class."""

import warnings
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from lapsvm.pipelines.fitting.fit import Constants
from lapsvm.pipelines.fitting.selection import best_candidate
from lapsvm.pipelines.fitting.training_bags import ContextPairs
from lapsvm.pipelines.products.fold_models import FOLDS_ADVICE, held_out_folds
from lapsvm.pipelines.products.models import FitTask
from lapsvm.pipelines.run.dataset import Labels
from lapsvm.pipelines.run.progress import Bar, Reporter
from sklearn.exceptions import ConvergenceWarning

from lapsvm.arrays import Float64
from lapsvm.bags import Bags
from lapsvm.detection import Detector
from lapsvm.evaluation import image_average_precision
from lapsvm.features import Projection

from .mi_svm import MISVM
from .options import BaselineOptions

Record = Mapping[str, Any]


def fit_mi_svm(
    options: BaselineOptions, tasks: Sequence[FitTask], bags: Bags, scale: Float64, pairs: ContextPairs,
    projection: Projection | None, reporter: Reporter,
) -> tuple[list[Detector], Record]:  # fmt: skip
    """Return the detector of every class, and a record of the choice and the training."""
    detectors, classes, grid = [], {}, _grid(options)
    n_trials = len(grid) * options.folds if options.needs_folds else 0
    with reporter.bar("train mi_svm", (n_trials + 1) * len(tasks)) as bar:
        for task in tasks:
            candidates = _candidates(options, bags, task, bar) if options.needs_folds else []
            constants = grid[best_candidate(candidates, options.margin)] if candidates else grid[0]
            model, converged = _fitted(bags, task.y, constants)
            bar.step(note=task.name)
            if not converged:
                reporter.say(f"train: the windows of {task.name} did not converge in {model.n_iter_} rounds")
            chosen = {"C": constants.C, "J": constants.J, "converged": converged}
            classes[task.name] = {**chosen, "held_out_image_ap": candidates, "history": model.history_}
            weights, factors = pairs.unfold(model.coef_), pairs.unfold_scale(scale)
            whole = None if projection is None else projection.unfold(weights * factors)
            detectors.append(Detector(task.name, weights, model.intercept_, factors, task.provenance, whole))
    return detectors, {"classes": classes}


def _grid(options: BaselineOptions) -> list[Constants]:
    """Return the candidate constants without repeats."""
    return [Constants(C, J) for C, J in product(dict.fromkeys(options.C), dict.fromkeys(options.J))]


def _candidates(options: BaselineOptions, bags: Bags, task: FitTask, bar: Bar) -> list[dict[str, Any]]:
    """Return every pair (C, J), with the image-level AP of each fold's held-out pictures."""
    folds = held_out_folds(task.y, options.folds, options.seed, task.name, FOLDS_ADVICE, task.groups)
    candidates = []
    for constants in _grid(options):
        aps = []
        for held_out in folds:
            model, _ = _fitted(bags, np.where(held_out, 0, task.y).astype(np.int8), constants)
            scores = model.decision_function(bags.subset(held_out))
            aps.append(image_average_precision(scores, task.y[held_out]))
            bar.step(note=f"{task.name}, C={constants.C:g}, J={constants.J:g}")
        candidates.append({"C": constants.C, "J": constants.J, "folds": aps})
    return candidates


def _fitted(bags: Bags, y: Labels, constants: Constants) -> tuple[MISVM, bool]:
    """Return a trained MI-SVM, and whether its windows converged."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model = MISVM(constants.C, constants.J, scale=None).fit(bags, y)
    return model, not caught
