"""One cell: a learner is tuned by cross-validation, trained on the training set, and evaluated."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from cell_figures import Figures, image_ap, test_figures, train_figures
from cells import Cell
from lapsvm.pipelines.fitting.fit import fit_side_by_side, training_progress
from lapsvm.pipelines.products.fold_models import held_out_folds
from lapsvm.pipelines.run.dataset import Labels
from lapsvm.pipelines.run.progress import Reporter
from lapsvm.pipelines.settings.settings import DetectSettings
from methods import Constants, Grids, Method, Start
from numpy.typing import NDArray
from pictures import Pictures

from lapsvm.arrays import Float64, Index
from lapsvm.bags import Bags
from lapsvm.latent import LatentSolution


@dataclass(frozen=True)
class ProtocolOptions:
    """Learners, grids and repetitions of a protocol."""

    name: str
    methods: tuple[Method, ...]
    shares: tuple[float, ...]
    swap: bool
    grids: Grids
    start: Start
    first: int
    pictures: int | None
    folds: int
    draws: int
    seeds: tuple[int, ...]

    @property
    def titles(self) -> dict[str, str]:
        """The learners' titles by name."""
        return {method.name: method.title for method in self.methods}


@dataclass(frozen=True)
class Study:
    """Data and settings that the cells of one data set share."""

    train: Pictures
    test: Pictures
    options: ProtocolOptions
    seed: int
    detect: DetectSettings
    reporter: Reporter

    def cell(self, method: Method, given: Mapping[str, Index]) -> Cell:
        """Return the results of a learner with the given windows, class by class."""
        before = time.process_time()
        trials = [trial for name in self.train.labels for trial in self._trials(method, name, given[name])]
        bags = method.bags(self.train)
        solutions = self._solved(method, trials, bags)
        seconds = time.process_time() - before
        best = _scores(bags, [solution.coef for solution in solutions])
        values = [trial.score(column) for trial, column in zip(trials, best.T, strict=True)]
        done = list(zip(trials, solutions, values, strict=True))
        classes = {
            name: self._entry(method, name, [entry for entry in done if entry[0].name == name]) for name in given
        }
        return {"cpu_seconds": round(seconds, 2), "classes": classes}

    def _trials(self, method: Method, name: str, given: Index) -> list["Trial"]:
        """Return the trainings of one class: every grid point on every fold, then on all pictures."""
        y = self.train.labels[name]
        folds = held_out_folds(y, self.options.folds, self.seed, name, "lower --folds", self.train.groups)
        nothing = np.zeros(len(y), dtype=bool)
        grid = method.grid(self.options.grids, y)
        return [Trial(name, constants, y, held_out, given) for constants in grid for held_out in [*folds, nothing]]

    def _solved(self, method: Method, trials: Sequence["Trial"], bags: Bags) -> list[LatentSolution]:
        """Train every trial from every start, and return the solution of lowest objective for each trial."""
        first = self.options.start
        options = first.options(self.seed) if not method.on_means else [{"tol": first.tol}]
        problems = [
            method.problem(trial.seen, trial.constants, trial.given, start) for trial in trials for start in options
        ]
        names = [trial.name for trial in trials for _ in options]
        with training_progress(self.reporter, method.title, names) as progress:
            solved = fit_side_by_side(problems, [[problem.C] for problem in problems], bags, progress)
        solutions = [solution for (solution,) in solved]
        return [min(group, key=lambda solution: solution.objective) for group in _batches(solutions, len(options))]

    def _entry(self, method: Method, name: str, done: Sequence[tuple["Trial", LatentSolution, float]]) -> Cell:
        """Return the results of one class: every grid point, and the figures of the chosen one.

        The first grid point with the highest mean over the folds is chosen.
        """
        groups = _batches(done, self.options.folds + 1)
        finals = [group[-1][1] for group in groups]
        scores = _scores(method.bags(self.test), [solution.coef for solution in finals])
        means = [round(float(np.mean([value for _, _, value in group[:-1]])), 9) for group in groups]
        chosen = means.index(max(means))
        figures = [
            self._figures(name, solution.coef, column, self.options.draws if index == chosen else 1)
            for index, (solution, column) in enumerate(zip(finals, scores.T, strict=True))
        ]
        positive = self.train.labels[name] > 0
        return {
            "chosen": chosen,
            "grid": [_grid_point(*entry) for entry in zip(groups, figures, strict=True)],
            "calls": sum(solution.n_calls for _, solution, _ in done),
            "final": {"calls": finals[chosen].n_calls, "steps": len(finals[chosen].history)},
            "windows": np.where(positive, self.train.bags.best(finals[chosen].coef).index, -1).tolist(),
            "figures": figures[chosen],
        }

    def _figures(self, name: str, coef: Float64, scores: Float64, draws: int) -> Figures:
        """Return the figures of the weights of one class on both sets."""
        figures = test_figures(name, coef, scores, self.test, self.detect, draws, self.seed)
        return figures | train_figures(name, coef, self.train, draws, self.seed)


@dataclass(frozen=True)
class Trial:
    """One training: a class, constants, labels, held-out pictures, given windows."""

    name: str
    constants: Constants
    y: Labels
    held_out: NDArray[np.bool_]
    given: Index

    @property
    def seen(self) -> Labels:
        """The labels without those of held-out pictures."""
        return np.where(self.held_out, 0, self.y).astype(np.int8)

    def score(self, scores: Float64) -> float:
        """Return the image-level AP of the held-out pictures, or of all pictures if none is held out."""
        ranked = self.held_out if self.held_out.any() else np.ones(len(self.y), dtype=bool)
        return image_ap(scores[ranked], self.y[ranked])


def _grid_point(group: Sequence[tuple[Trial, LatentSolution, float]], figures: Figures) -> Cell:
    """Return the results of one grid point: its folds, then its training on all pictures."""
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


def _batches(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    """Return consecutive groups of `size` items."""
    return [items[start : start + size] for start in range(0, len(items), size)]


def _scores(bags: Bags, coefs: Sequence[Float64]) -> Float64:
    """Return the best score (n, k) of every picture for each of k weight vectors."""
    return np.asarray(bags.best(np.column_stack(coefs)).score)


def describe(study: Study) -> dict[str, Any]:
    """Return the data and settings that decide the cells of a study."""
    options = study.options
    return {
        "train": [study.train.content, {name: y.tolist() for name, y in study.train.labels.items()}],
        "test": [study.test.content, {name: y.tolist() for name, y in study.test.labels.items()}],
        "options": [options.grids, options.start, options.folds, options.draws, study.seed, study.detect],
    }
