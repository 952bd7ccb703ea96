"""Choosing constants on the training set: k folds of pictures, image-level average precision of the held-out bags."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold

from lapsvm.bags import Bags
from lapsvm.errors import OneClassError
from lapsvm.evaluation import image_average_precision
from lapsvm.latent import LatentSolution

from .fitting import Constants, Wanted, fit_wanted
from .history import history_rows
from .labels import Labels
from .settings import Settings
from .stages import Context

_AT_ONCE = 512  # weight vectors in one pass


@dataclass(frozen=True)
class Choice:
    """The constants of one class.

    Attributes
    ----------
    constants : Constants
    candidates : list of {"C", "J", "ignored", "folds"}
        The image-level AP on each fold's held-out pictures; empty where there was no choice, without the constants
        that the learner does not have.
    history : list of rows for history.csv
    """

    constants: Constants
    candidates: list[dict[str, Any]]
    history: list[dict[str, Any]]


@dataclass(frozen=True)
class Trial:
    """One training of cross-validation: a class, its constants and its labels, and the pictures that are left out."""

    class_name: str
    constants: Constants
    y: Labels
    held_out: NDArray[np.bool_]
    number: int

    @property
    def seen(self) -> Labels:
        """The labels to train with: 0 leaves a picture out."""
        return np.where(self.held_out, 0, self.y).astype(np.int8)

    def score(self, best: NDArray[np.float64]) -> float:
        """Return the image-level AP of the held-out pictures under every picture's best score."""
        return float(image_average_precision(best[self.held_out], self.y[self.held_out]) or 0.0)


def grid(settings: Settings, y: Labels) -> list[Constants]:
    """Return the constants that one class has to choose from, C by C, each in the order given, each once."""
    train = settings.train
    if train.learner != "latent_svm":
        return [Constants(C) for C in dict.fromkeys(train.C)]
    unit = float(np.count_nonzero(y) / (y > 0).sum()) if train.J_relative else 1.0
    values = product(dict.fromkeys(train.C), dict.fromkeys(train.J), dict.fromkeys(train.ignored))
    return [Constants(C, J * unit, ignored) for C, J, ignored in values]


def choose_constants(context: Context, bags: Bags, labels: dict[str, Labels]) -> dict[str, Choice]:
    """Return the constants of every class.

    Those with the highest mean score over the folds are taken; of equals the smallest C, for it regularises most,
    then the smallest J, then the smallest ignored share.

    Raises
    ------
    OneClassError
        If a class has fewer positives or negatives than folds.
    """
    grids = {name: grid(context.settings, y) for name, y in labels.items()}
    if all(len(candidates) == 1 for candidates in grids.values()):
        return {name: Choice(candidates[0], [], []) for name, candidates in grids.items()}
    trials = [trial for name, y in labels.items() for trial in _trials(context.settings, name, y, grids[name])]
    solutions, scores = fit_trials(context, f"choose {' and '.join(_varied(grids))}", trials, bags)
    return {name: _choice(name, trials, solutions, scores) for name in labels}


def fit_trials(
    context: Context, title: str, trials: Sequence[Trial], bags: Bags
) -> tuple[list[LatentSolution], list[float]]:
    """Train every trial, and return what came out with the image-level AP of the pictures that it did not see."""
    solutions = fit_wanted(context, title, [Wanted(trial.seen, trial.constants) for trial in trials], bags)
    scores: list[float] = []
    for start in range(0, len(trials), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        best = bags.best(np.column_stack([solution.coef for solution in solutions[part]])).score
        scores += [trial.score(best[:, column]) for column, trial in enumerate(trials[part])]
    return solutions, scores


def held_out_folds(y: Labels, folds: int, seed: int, class_name: str, advice: str) -> list[NDArray[np.bool_]]:
    """Return which pictures each fold leaves out, equally many positives in each; label 0 is in no fold.

    Raises
    ------
    OneClassError
        If there are fewer positives or negatives than folds; `advice` says what to do then.
    """
    positives, negatives = int((y > 0).sum()), int((y < 0).sum())
    if min(positives, negatives) < folds:
        raise OneClassError(
            f"class {class_name!r} must have {folds} positive and {folds} negative pictures for {folds} folds, "
            f"got {positives} and {negatives}; {advice}."
        )
    known = np.flatnonzero(y)
    splitter = StratifiedKFold(folds, shuffle=True, random_state=seed)
    parts = [known[part] for _, part in splitter.split(known, y[known])]
    return [np.isin(np.arange(len(y)), part) for part in parts]


def _varied(grids: Mapping[str, Sequence[Constants]]) -> list[str]:
    """Return the names of the constants that have several values."""
    candidates = next(iter(grids.values()))
    return [name for name in Constants._fields if len({getattr(one, name) for one in candidates}) > 1]


def _trials(settings: Settings, name: str, y: Labels, candidates: Sequence[Constants]) -> list[Trial]:
    """Return the trainings that decide on a class's constants, those of one candidate after each other."""
    advice = "lower --folds or give one value of every constant"
    folds = held_out_folds(y, settings.train.folds, settings.seed, name, advice)
    return [
        Trial(name, constants, y, held_out, number)
        for constants in candidates
        for number, held_out in enumerate(folds, start=1)
    ]


def _choice(name: str, trials: Sequence[Trial], solutions: Sequence[LatentSolution], scores: Sequence[float]) -> Choice:
    """Return the constants of one class, with how they were chosen."""
    own = [entry for entry in zip(trials, solutions, scores, strict=True) if entry[0].class_name == name]
    folds: dict[Constants, list[float]] = {}
    for trial, _, score in own:
        folds.setdefault(trial.constants, []).append(score)
    best = min(folds, key=lambda constants: (-round(float(np.mean(folds[constants])), 9), *constants.known().values()))
    rows = [history_rows(name, f"fold {trial.number}", trial.constants, solution) for trial, solution, _ in own]
    candidates = [{**constants.known(), "folds": values} for constants, values in folds.items()]
    return Choice(best, candidates, list(chain.from_iterable(rows)))
