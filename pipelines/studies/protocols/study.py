"""One cell: a learner is tuned by cross-validation, trained on the whole training set, and evaluated."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Float64, Index
from lapsvm.bags import Bags
from lapsvm.latent import LatentSolution

from ...fitting.selection import held_out_folds
from ...fitting.trainer import Trainer, training_progress
from ...run.dataset import Labels
from ...run.progress import Reporter
from ...run.settings import DetectSettings
from .cells import Cell
from .figures import Figures, image_ap, test_figures, train_figures
from .methods import Constants, Grids, Method, Start
from .pictures import Pictures


@dataclass(frozen=True)
class Study:
    """What the cells of one data set share.

    Attributes
    ----------
    train, test : Pictures
    grids : Grids
    start : Start
    folds : int
        Of cross-validation on the training set.
    draws : int
        Of the bootstrap.
    seed : int
    detect : DetectSettings
    """

    train: Pictures
    test: Pictures
    grids: Grids
    start: Start
    folds: int
    draws: int
    seed: int
    detect: DetectSettings
    reporter: Reporter

    def cell(self, method: Method, known: Mapping[str, Index]) -> Cell:
        """Return how one learner does with these known windows, class by class."""
        before = time.process_time()
        trials = [trial for name in self.train.labels for trial in self._trials(method, name, known[name])]
        bags = method.bags(self.train)
        solutions = self._solved(method, trials, bags)
        seconds = time.process_time() - before
        best = _scores(bags, [one.coef for one in solutions])
        values = [trial.score(column) for trial, column in zip(trials, best.T, strict=True)]
        done = list(zip(trials, solutions, values, strict=True))
        classes = {name: self._entry(method, name, [one for one in done if one[0].name == name]) for name in known}
        return {"cpu_seconds": round(seconds, 2), "classes": classes}

    def _trials(self, method: Method, name: str, known: Index) -> list["Trial"]:
        """Return the trainings of one class: every candidate on every fold, and on the whole training set."""
        y = self.train.labels[name]
        outs = held_out_folds(y, self.folds, self.seed, name, "lower --folds")
        nothing = np.zeros(len(y), dtype=bool)
        candidates = method.candidates(self.grids, y)
        return [Trial(name, constants, y, out, known) for constants in candidates for out in [*outs, nothing]]

    def _solved(self, method: Method, trials: Sequence["Trial"], bags: Bags) -> list[LatentSolution]:
        """Train every trial from every start, and return the solution of lowest objective of each."""
        options = self.start.options(self.seed) if not method.on_means else [{"tol": self.start.tol}]
        problems = [method.problem(one.seen, one.constants, one.known, own) for one in trials for own in options]
        names = [trial.name for trial in trials for _ in options]
        with training_progress(self.reporter, method.title, names, self.start.tol) as progress:
            found = Trainer(progress).fit(problems, bags)
        groups = [found[place : place + len(options)] for place in range(0, len(found), len(options))]
        return [min(group, key=lambda one: one.objective) for group in groups]

    def _entry(self, method: Method, name: str, done: Sequence[tuple["Trial", LatentSolution, float]]) -> Cell:
        """Return what is known of one class: every candidate, and the figures of the chosen one.

        The highest mean over the folds is chosen, of equals the earliest candidate.
        """
        size = self.folds + 1
        groups = [done[place : place + size] for place in range(0, len(done), size)]
        finals = [group[-1][1] for group in groups]
        scores = _scores(method.bags(self.test), [one.coef for one in finals])
        means = [round(float(np.mean([value for _, _, value in group[:-1]])), 9) for group in groups]
        chosen = means.index(max(means))
        figures = [
            self._figures(name, one.coef, column, self.draws if place == chosen else 1)
            for place, (one, column) in enumerate(zip(finals, scores.T, strict=True))
        ]
        positive = self.train.labels[name] > 0
        return {
            "chosen": chosen,
            "candidates": [_candidate(group, own) for group, own in zip(groups, figures, strict=True)],
            "calls": sum(one.n_calls for _, one, _ in done),
            "final": {"calls": finals[chosen].n_calls, "steps": len(finals[chosen].history)},
            "windows": np.where(positive, self.train.bags.best(finals[chosen].coef).index, -1).tolist(),
            "figures": figures[chosen],
        }

    def _figures(self, name: str, coef: Float64, scores: Float64, draws: int) -> Figures:
        """Return the figures of one class's weights on both sets."""
        tested = test_figures(name, coef, scores, self.test, self.detect, draws, self.seed)
        return tested | train_figures(name, coef, self.train, draws, self.seed)


@dataclass(frozen=True)
class Trial:
    """One training: a class, constants, labels, the pictures that are left out, the windows that are known."""

    name: str
    constants: Constants
    y: Labels
    held_out: NDArray[np.bool_]
    known: Index

    @property
    def seen(self) -> Labels:
        """The labels to train with."""
        return np.where(self.held_out, 0, self.y).astype(np.int8)

    def score(self, scores: Float64) -> float:
        """Return the image-level AP of the held-out pictures; of all where none is left out."""
        of = self.held_out if self.held_out.any() else np.ones(len(self.y), dtype=bool)
        return image_ap(scores[of], self.y[of])


def _candidate(group: Sequence[tuple[Trial, LatentSolution, float]], figures: Figures) -> Cell:
    """Return what is known of one candidate: its folds, and its training on the whole set, which comes last."""
    trial, solution, train_image_ap = group[-1]
    return {
        "constants": trial.constants,
        "folds": [value for _, _, value in group[:-1]],
        "train_image_ap": train_image_ap,
        "objective": solution.objective,
        "test_image_ap": figures["image_ap"]["value"],
        "ap_area": figures["ap_area"]["value"],
        "corloc": figures["corloc"]["value"],
    }


def _scores(bags: Bags, coefs: Sequence[Float64]) -> Float64:
    """Return every picture's best score (n, k) under each weight vector."""
    return np.asarray(bags.best(np.column_stack(coefs)).score)


def describe(study: Study) -> dict[str, Any]:
    """Return what decides the cells of a study."""
    return {
        "train": [study.train.content, {name: y.tolist() for name, y in study.train.labels.items()}],
        "test": [study.test.content, {name: y.tolist() for name, y in study.test.labels.items()}],
        "study": [study.grids, study.start, study.folds, study.draws, study.seed, study.detect],
    }
