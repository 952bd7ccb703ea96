"""Choosing constants on the training set: k folds of pictures, each judged by a model that has not seen it.

The criterion "image_ap" takes the highest mean image-level AP of the held-out pictures. "agreement" takes, of the
candidates whose mean image-level AP is at most `GUARD` below the best one, that whose held-out models agree best with
the model of all pictures on the windows of the positive pictures. With a margin, candidates that are so little below
the best count as equal, and the smallest C of them is taken: the most regularised model that is about as good (the rule
of one standard error; L. Breiman, J. Friedman, R. Olshen and C. Stone, "Classification and Regression Trees", 1984).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold

from lapsvm.arrays import Index
from lapsvm.bags import Bags
from lapsvm.errors import OneClassError
from lapsvm.evaluation import image_average_precision
from lapsvm.latent import LatentSolution

from ..run.checks import check_choice
from ..run.context import RunContext
from ..run.dataset import Labels
from ..run.settings import Settings
from .agreement import Proposals
from .fit import Constants, FitRequest, fit_requests
from .history import history_rows

GUARD = 0.02  # image-level AP; candidates of real photographs, good and bad ones, differ by about as much
FOLDS_ADVICE = "lower --folds or give one value of every constant"
ALL = 0  # number of the training that leaves no picture out; folds count from 1
_AT_ONCE = 512  # weight vectors in one pass


@dataclass(frozen=True)
class Choice:
    """The constants of one class.

    Attributes
    ----------
    constants : Constants
    candidates : list of {"C", "J", "trim", "folds", "agreement"}
        The image-level AP on each fold's held-out pictures, and how far the windows of the positive ones agree; empty
        where there was no choice, without the constants that the learner does not have, and without the agreement
        unless it is the criterion.
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


class Outcome(NamedTuple):
    """What came out of a trial.

    Attributes
    ----------
    solution : LatentSolution
    image_ap : float
        Of the pictures that were left out; 0 if none was.
    windows : (n_positives,) intp
        The best window of every positive picture, seen or not.
    """

    solution: LatentSolution
    image_ap: float
    windows: Index


def grid(settings: Settings, y: Labels) -> list[Constants]:
    """Return the constants that one class has to choose from, C by C, each in the order given, each once."""
    train = settings.train
    if train.learner != "latent_svm":
        return [Constants(C) for C in dict.fromkeys(train.C)]
    unit = float(np.count_nonzero(y) / (y > 0).sum()) if train.J_relative else 1.0
    values = product(dict.fromkeys(train.C), dict.fromkeys(train.J), dict.fromkeys(train.trim))
    return [Constants(C, J * unit, trim) for C, J, trim in values]


def choose_constants(context: RunContext, bags: Bags, labels: dict[str, Labels]) -> dict[str, Choice]:
    """Return the constants of every class.

    Those that do best by the criterion of the settings are taken; of equals the smallest C, for it regularises most,
    then the smallest J, then the smallest trimmed share.

    Raises
    ------
    OneClassError
        If a class has fewer positives or negatives than folds.
    OptionError
        If windows were kept by models that know the labels which folds hold out.
    """
    grids = {name: grid(context.settings, y) for name, y in labels.items()}
    if all(len(candidates) == 1 for candidates in grids.values()):
        return {name: Choice(candidates[0], [], []) for name, candidates in grids.items()}
    check_choice(context.settings.train)
    trials = [trial for name, y in labels.items() for trial in _trials(context.settings, name, y, grids[name])]
    outcomes = fit_trials(context, f"choose {' and '.join(_varied(grids))}", trials, bags)
    proposals = Proposals.of_training(context) if context.settings.train.criterion == "agreement" else None
    told = list(zip(trials, outcomes, strict=True))
    margin = context.settings.train.margin
    return {
        name: _choice(name, [one for one in told if one[0].class_name == name], proposals, margin) for name in labels
    }


def check_folds(settings: Settings, labels: Mapping[str, Labels]) -> None:
    """Raise OneClassError if a class that has constants to choose has fewer positives or negatives than folds."""
    for name, y in labels.items():
        if len(grid(settings, y)) > 1:
            held_out_folds(y, settings.train.folds, settings.seed, name, FOLDS_ADVICE)


def fit_trials(context: RunContext, title: str, trials: Sequence[Trial], bags: Bags) -> list[Outcome]:
    """Train every trial, and return what came out of it."""
    wanted = [FitRequest(trial.seen, trial.constants) for trial in trials]
    solutions = fit_requests(context, title, wanted, bags, [trial.class_name for trial in trials])
    outcomes: list[Outcome] = []
    for start in range(0, len(trials), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        index, score = bags.best(np.column_stack([solution.coef for solution in solutions[part]]))
        outcomes += [
            Outcome(solution, trial.score(score[:, column]), index[trial.y > 0, column])
            for column, (trial, solution) in enumerate(zip(trials[part], solutions[part], strict=True))
        ]
    return outcomes


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
    held_out = held_out_folds(y, settings.train.folds, settings.seed, name, FOLDS_ADVICE)
    parts = dict(enumerate(held_out, start=1))
    if settings.train.criterion == "agreement":
        parts[ALL] = np.zeros(len(y), dtype=np.bool_)
    return [
        Trial(name, constants, y, held_out, number) for constants in candidates for number, held_out in parts.items()
    ]


def _choice(name: str, told: Sequence[tuple[Trial, Outcome]], proposals: Proposals | None, margin: float) -> Choice:
    """Return the constants of one class, with how they were chosen."""
    shared: dict[Constants, list[tuple[Trial, Outcome]]] = {}
    for trial, outcome in told:
        shared.setdefault(trial.constants, []).append((trial, outcome))
    candidates = [_candidate(constants, own, proposals) for constants, own in shared.items()]
    rows = [
        history_rows(name, f"fold {trial.number}" if trial.number != ALL else "all", trial.constants, outcome.solution)
        for trial, outcome in told
    ]
    return Choice(list(shared)[best_candidate(candidates, margin)], candidates, list(chain.from_iterable(rows)))


def _candidate(
    constants: Constants, own: Sequence[tuple[Trial, Outcome]], proposals: Proposals | None
) -> dict[str, Any]:
    """Return how one candidate did in each fold."""
    folds = [(trial, outcome) for trial, outcome in own if trial.number != ALL]
    entry = {**constants.known(), "folds": [outcome.image_ap for _, outcome in folds]}
    if proposals is None:
        return entry
    (whole,) = (outcome for trial, outcome in own if trial.number == ALL)
    return entry | {"agreement": [_agreement(proposals, *one, whole) for one in folds]}


def _agreement(proposals: Proposals, trial: Trial, outcome: Outcome, whole: Outcome) -> float:
    """Return the mean IoU of a fold's windows with those of the model of all pictures, over its held-out positives."""
    positives = np.flatnonzero(trial.y > 0)
    unseen = trial.held_out[positives]
    overlaps = proposals.overlaps(positives[unseen], outcome.windows[unseen], whole.windows[unseen])
    return float(overlaps.mean())


def best_candidate(candidates: Sequence[Mapping[str, Any]], margin: float = 0.0) -> int:
    """Return the place of the candidate to take: by agreement where it is known, else by image-level AP.

    Candidates at most `margin` below the best count as equally good; of these it is the one with the smallest C, then
    the smallest J, then the smallest trimmed share. Agreement is compared among those whose mean image-level AP is
    within `GUARD` of the best alone.
    """
    image_ap = [mean_score(one["folds"]) for one in candidates]
    values = [mean_score(one.get("agreement", one["folds"])) for one in candidates]
    guarded = [
        place
        for place, value in enumerate(image_ap)
        if "agreement" not in candidates[0] or value >= round(max(image_ap) - GUARD, 9)
    ]
    best = max(values[place] for place in guarded)
    good = [place for place in guarded if values[place] >= round(best - margin, 9)]
    return min(good, key=lambda place: [candidates[place].get(name, 0.0) for name in Constants._fields])


def mean_score(values: Sequence[float]) -> float:
    """Return a mean in which rounding makes no difference."""
    return round(float(np.mean(values)), 9)
