"""Choosing C and J on the training set: k folds of pictures, image-level average precision of the held-out bags."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold

from lapsvm.bags import Bags
from lapsvm.errors import OneClassError
from lapsvm.evaluation import image_average_precision
from lapsvm.latent import HingeRisk, LatentProblem, LatentSolution, RankRisk, fit_many

from .labels import Labels
from .settings import Settings
from .stages import Context
from .starts import started

_SIDE_BY_SIDE = 512  # trainings that share passes: each holds its planes, and a large grid has thousands
_SAID = 3  # warnings spelt out


class Constants(NamedTuple):
    """The constants of one training; J is None where the learner has none."""

    C: float
    J: float | None

    def known(self) -> dict[str, float]:
        """Return the constants that the learner has, by name."""
        return {"C": self.C} if self.J is None else {"C": self.C, "J": self.J}


@dataclass(frozen=True)
class Choice:
    """The constants of one class.

    Attributes
    ----------
    constants : Constants
    candidates : list of {"C", "J", "folds"}
        The image-level AP on each fold's held-out pictures; empty where there was no choice, without J where the
        learner has none.
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


def problem(settings: Settings, y: Labels, constants: Constants) -> LatentProblem:
    """Return the training problem of one class."""
    train = settings.train
    hinge = constants.J is not None
    return LatentProblem(
        y=y,
        risk=RankRisk(train.loss) if constants.J is None else HingeRisk(constants.J),
        C=constants.C,
        init="whole_image" if train.init == "centre" else train.init,  # see starts: there window 0 is the central one
        tol=train.tol,
        top=train.top,
        seed=settings.seed,
        fit_intercept=hinge,
    )


def grid(settings: Settings, y: Labels) -> list[Constants]:
    """Return the constants that one class has to choose from, C by C, each in the order given, each once."""
    train = settings.train
    if train.learner != "latent_svm":
        return [Constants(C, None) for C in dict.fromkeys(train.C)]
    unit = float(np.count_nonzero(y) / (y > 0).sum()) if train.J_relative else 1.0
    return [Constants(C, J * unit) for C, J in product(dict.fromkeys(train.C), dict.fromkeys(train.J))]


def choose_constants(context: Context, bags: Bags, labels: dict[str, Labels]) -> dict[str, Choice]:
    """Return the constants of every class.

    Those with the highest mean score over the folds are taken; of equals the smallest C, for it regularises most,
    then the smallest J.

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
    solutions = fit_with_progress(
        context, title, [problem(context.settings, trial.seen, trial.constants) for trial in trials], bags
    )
    scores: list[float] = []
    for start in range(0, len(trials), _SIDE_BY_SIDE):
        part = slice(start, start + _SIDE_BY_SIDE)
        best = bags.best(np.column_stack([solution.coef for solution in solutions[part]])).score
        scores += [trial.score(best[:, column]) for column, trial in enumerate(trials[part])]
    return solutions, scores


def fit_with_progress(
    context: Context, title: str, problems: Sequence[LatentProblem], bags: Bags
) -> list[LatentSolution]:
    """Train problems side by side under a line that tells how far the last one to move is."""
    solutions: list[LatentSolution] = []
    with context.reporter.bar(f"{title} ({len(problems)} trainings, outer steps)", None) as bar:

        def tell(_: int, record: Mapping[str, Any]) -> None:
            bar.step(1, f"objective {record['objective']:.4g}, gap {record['gap']:.1g}, pass {record['passes']}")

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ConvergenceWarning)
            for start in range(0, len(problems), _SIDE_BY_SIDE):
                part = started(context, problems[start : start + _SIDE_BY_SIDE], bags)
                solutions += fit_many(part, bags, progress=tell)
    for warning in caught[:_SAID]:
        context.reporter.say(f"{title}: {warning.message}")
    if len(caught) > _SAID:
        context.reporter.say(f"{title}: {len(caught) - _SAID} more of {len(problems)} trainings stopped early.")
    return solutions


def history_rows(class_name: str, role: str, constants: Constants, solution: LatentSolution) -> list[dict[str, Any]]:
    """Return one row of history.csv per outer step."""
    return [{"class": class_name, "role": role, **constants.known(), **step} for step in solution.history]


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
