"""Choose constants on the training set by cross-validation over pictures.

The highest mean image-level AP of the held-out pictures is taken. With a margin, candidates at most so much below the
best count as equal, and the smallest C of them is taken: the most regularised model that is about as good (the rule of
one standard error; L. Breiman, J. Friedman, R. Olshen and C. Stone, "Classification and Regression Trees", 1984).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lapsvm.bags import Bags
from lapsvm.evaluation import image_average_precision
from lapsvm.latent import LatentSolution

from ..products.fold_models import FOLDS_ADVICE, fold_numbers, held_out_folds
from ..run.dataset import Labels
from ..run.groups import Groups
from ..settings.settings import Settings
from .fit import Constants, FitRequest, Trainer, batches, fit_requests
from .history import history_rows

PERFECT = 0.999  # image-level AP that leaves nothing to choose by


@dataclass(frozen=True)
class Choice:
    """The constants of one class, the constants of each candidate with the scores of its "folds", rows for history.csv.

    Both lists are empty where there was only one candidate. `of_folds` has the constants of the model without each
    fold, chosen without the scores of the fold's own pictures; it is empty for a class without folds.
    """

    constants: Constants
    of_folds: list[Constants]
    candidates: list[dict[str, Any]]
    history: list[dict[str, Any]]


@dataclass(frozen=True)
class Trial:
    """One training of cross-validation: a class, its constants and labels, and the pictures that are held out."""

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


class Outcome(NamedTuple):
    """A trained trial, and the image-level AP of the held-out pictures; 0 if none."""

    solution: LatentSolution
    image_ap: float


def grid(settings: Settings, y: Labels) -> list[Constants]:
    """Return the candidate constants of one class without repeats, in the order of the settings, C by C."""
    train = settings.train
    if train.learner != "latent_svm":
        return [Constants(C) for C in dict.fromkeys(train.C)]
    unit = float(np.count_nonzero(y) / (y > 0).sum()) if train.J_relative else 1.0
    values = product(dict.fromkeys(train.C), dict.fromkeys(train.J), dict.fromkeys(train.trim))
    return [Constants(C, J * unit, trim) for C, J, trim in values]


def choose_constants(
    trainer: Trainer, bags: Bags, labels: dict[str, Labels], groups: Groups = None
) -> dict[str, Choice]:
    """Return the constants of every class.

    The best are taken; of equals the smallest C, then J, then trimmed share. Raises
    OneClassError if a class has fewer positives or negatives than folds.
    """
    settings = trainer.settings
    grids = {name: grid(settings, y) for name, y in labels.items()}
    if all(len(candidates) == 1 for candidates in grids.values()):
        n_folds = {name: int(fold_numbers(settings, y, groups).max(initial=0)) for name, y in labels.items()}
        return {name: Choice(only, [only] * n_folds[name], [], []) for name, (only,) in grids.items()}
    trials = [trial for name, y in labels.items() for trial in _trials(settings, name, y, grids[name], groups)]
    outcomes = fit_trials(trainer, f"choose {' and '.join(_varied(grids))}", trials, bags)
    results = groupby(zip(trials, outcomes, strict=True), lambda pair: pair[0].class_name)
    return {name: _choice(name, list(of_class), settings.train.margin) for name, of_class in results}


def check_folds(settings: Settings, labels: Mapping[str, Labels], groups: Groups) -> None:
    """Raise OneClassError if folds choose constants and a class has fewer positives or negatives than folds."""
    for name, y in labels.items() if settings.train.needs_folds else ():
        held_out_folds(y, settings.train.folds, settings.seed, name, FOLDS_ADVICE, groups)


def fit_trials(trainer: Trainer, title: str, trials: Sequence[Trial], bags: Bags) -> list[Outcome]:
    """Train every trial and return its outcome."""
    requests = [FitRequest(trial.seen, trial.constants) for trial in trials]
    solutions = fit_requests(trainer, title, requests, bags, [trial.class_name for trial in trials])
    outcomes: list[Outcome] = []
    for part in batches(len(trials)):
        score = bags.best(np.column_stack([solution.coef for solution in solutions[part]])).score
        trained = zip(trials[part], solutions[part], score.T, strict=True)
        outcomes += [Outcome(solution, trial.score(best)) for trial, solution, best in trained]
    return outcomes


def _varied(grids: Mapping[str, Sequence[Constants]]) -> list[str]:
    """Return the names of the constants that have several values."""
    candidates = next(iter(grids.values()))
    return [name for name in Constants._fields if len({getattr(constants, name) for constants in candidates}) > 1]


def _trials(settings: Settings, name: str, y: Labels, candidates: Sequence[Constants], groups: Groups) -> list[Trial]:
    """Return the trials of one class, candidate by candidate."""
    held_out = held_out_folds(y, settings.train.folds, settings.seed, name, FOLDS_ADVICE, groups)
    folds = list(enumerate(held_out, start=1))
    return [Trial(name, constants, y, fold, number) for constants in candidates for number, fold in folds]


def _choice(name: str, results: Sequence[tuple[Trial, Outcome]], margin: float) -> Choice:
    shared: dict[Constants, list[float]] = {}
    for trial, outcome in results:
        shared.setdefault(trial.constants, []).append(outcome.image_ap)
    candidates: list[dict[str, Any]] = [
        {**constants.known(), "folds": image_aps} for constants, image_aps in shared.items()
    ]
    rows = [history_rows(name, f"fold {trial.number}", trial.constants, outcome.solution) for trial, outcome in results]
    grid, of_folds = list(shared), []
    for k in range(len(candidates[0]["folds"])):
        unseen = [{**entry, "folds": entry["folds"][:k] + entry["folds"][k + 1 :]} for entry in candidates]
        of_folds.append(grid[best_candidate(unseen, margin)])
    return Choice(grid[best_candidate(candidates, margin)], of_folds, candidates, list(chain.from_iterable(rows)))


def best_candidate(candidates: Sequence[Mapping[str, Any]], margin: float = 0.0) -> int:
    """Return the index of the candidate to take.

    Of the candidates whose mean score is at most `margin` below the best, the one with the smallest C is taken, then
    the smallest J, then the smallest trimmed share.
    """
    values = [mean_score(entry["folds"]) for entry in candidates]
    threshold = round(max(values) - margin, 9)
    good = [index for index, value in enumerate(values) if value >= threshold]
    return min(good, key=lambda index: [candidates[index].get(name, 0.0) for name in Constants._fields])


def mean_score(values: Sequence[float]) -> float:
    """Return the mean of scores, rounded so that equal candidates compare equal."""
    return round(float(np.mean(values)), 9)


def undecided_message(class_name: str, candidates: Sequence[Mapping[str, Any]]) -> str:
    """Return a warning if image AP could not choose between several candidates, which have their "folds"; else ""."""
    perfect = sum(mean_score(entry["folds"]) >= PERFECT for entry in candidates)
    if perfect < 2:
        return ""
    return (
        f"{class_name}: held-out image AP is 1.000 for {perfect} of {len(candidates)} candidates and cannot choose "
        "between them; --set train.margin=0.05 takes the smallest C of those about as good."
    )
