"""Choosing C on the training set: k folds of pictures, image-level average precision of the held-out bags."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

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


@dataclass(frozen=True)
class Choice:
    """The C of one class.

    Attributes
    ----------
    C : float
    scores : dict of C to its mean image-level AP on held-out pictures; empty where there was no choice
    history : list of rows for history.csv
    """

    C: float
    scores: dict[str, float]
    history: list[dict[str, Any]]


@dataclass(frozen=True)
class Trial:
    """One training of cross-validation: a class, a C and the labels with a fold left out."""

    class_name: str
    C: float
    y: Labels
    held_out: NDArray[np.bool_]
    number: int


def problem(settings: Settings, y: Labels, C: float) -> LatentProblem:
    """Return the training problem of one class."""
    train = settings.train
    hinge = train.learner == "latent_svm"
    return LatentProblem(
        y=y,
        risk=HingeRisk(train.J) if hinge else RankRisk(train.loss),
        C=C,
        init=train.init,
        tol=train.tol,
        top=train.top,
        seed=settings.seed,
        fit_intercept=hinge,
    )


def choose_constants(context: Context, bags: Bags, labels: dict[str, Labels]) -> dict[str, Choice]:
    """Return the C of every class.

    The value with the highest mean score over the folds is taken; of equals the smallest, for it regularises most.

    Raises
    ------
    OneClassError
        If a class has fewer positives or negatives than folds.
    """
    constants = context.settings.train.C
    if len(constants) == 1:
        return {name: Choice(constants[0], {}, []) for name in labels}
    trials = [trial for name, y in labels.items() for trial in _trials(context.settings, name, y)]
    problems = [problem(context.settings, trial.y, trial.C) for trial in trials]
    solutions = fit_with_progress(context, "choose C", problems, bags)
    scores = _held_out_scores(bags, trials, solutions, labels)
    return {name: _choice(name, trials, solutions, scores) for name in labels}


def fit_with_progress(
    context: Context, title: str, problems: Sequence[LatentProblem], bags: Bags
) -> list[LatentSolution]:
    """Train problems side by side under a line that tells how far the last one to move is."""
    with context.reporter.bar(f"{title} ({len(problems)} trainings, outer steps)", None) as bar:

        def tell(_: int, record: Mapping[str, Any]) -> None:
            bar.step(1, f"objective {record['objective']:.4g}, gap {record['gap']:.1g}, pass {record['passes']}")

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ConvergenceWarning)
            solutions = fit_many(problems, bags, progress=tell)
    for warning in caught:
        context.reporter.say(f"{title}: {warning.message}")
    return solutions


def history_rows(class_name: str, role: str, C: float, solution: LatentSolution) -> list[dict[str, Any]]:
    """Return one row of history.csv per outer step."""
    return [{"class": class_name, "role": role, "C": C, **step} for step in solution.history]


def _trials(settings: Settings, name: str, y: Labels) -> list[Trial]:
    """Return the trainings that decide on a class's C."""
    folds = _held_out(y, settings.train.folds, settings.seed, name)
    return [
        Trial(name, C, np.where(held_out, 0, y).astype(np.int8), held_out, number)
        for C in settings.train.C
        for number, held_out in enumerate(folds, start=1)
    ]


def _held_out(y: Labels, folds: int, seed: int, class_name: str) -> list[NDArray[np.bool_]]:
    """Return which pictures each fold leaves out, equally many positives in each; label 0 is in no fold."""
    positives, negatives = int((y > 0).sum()), int((y < 0).sum())
    if min(positives, negatives) < folds:
        raise OneClassError(
            f"class {class_name!r} must have {folds} positive and {folds} negative pictures to choose C in {folds} "
            f"folds, got {positives} and {negatives}; give one value with --C."
        )
    known = np.flatnonzero(y)
    splitter = StratifiedKFold(folds, shuffle=True, random_state=seed)
    parts = [known[part] for _, part in splitter.split(known, y[known])]
    return [np.isin(np.arange(len(y)), part) for part in parts]


def _held_out_scores(
    bags: Bags, trials: Sequence[Trial], solutions: Sequence[LatentSolution], labels: dict[str, Labels]
) -> list[float]:
    """Return each training's image-level AP on the pictures that it did not see, from one pass over all windows."""
    best = bags.best(np.column_stack([solution.coef for solution in solutions])).score
    return [
        float(image_average_precision(best[trial.held_out, column], labels[trial.class_name][trial.held_out]) or 0.0)
        for column, trial in enumerate(trials)
    ]


def _choice(name: str, trials: Sequence[Trial], solutions: Sequence[LatentSolution], scores: Sequence[float]) -> Choice:
    """Return the C of one class, with how it was chosen."""
    own = [entry for entry in zip(trials, solutions, scores, strict=True) if entry[0].class_name == name]
    constants = sorted({trial.C for trial, _, _ in own})
    means = {C: float(np.mean([score for trial, _, score in own if trial.C == C])) for C in constants}
    best = max(constants, key=lambda C: (round(means[C], 9), -C))
    rows = [history_rows(name, f"fold {trial.number}", trial.C, solution) for trial, solution, _ in own]
    return Choice(best, {f"{C:g}": means[C] for C in constants}, list(chain.from_iterable(rows)))
