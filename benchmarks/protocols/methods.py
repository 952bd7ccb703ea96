"""The learners of the protocols, each with its grid of constants and its training problem."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from lapsvm.pipelines.run.dataset import Labels
from pictures import Pictures

from lapsvm.arrays import Index
from lapsvm.bags import Bags
from lapsvm.latent import HingeRisk, LatentProblem, RankRisk, StructuralProblem

Constants = dict[str, float]


@dataclass(frozen=True)
class Grids:
    """Grids of constants; J is multiplied by the ratio of labelled to positive pictures of a class."""

    C: tuple[float, ...]
    C_hinge: tuple[float, ...]
    J: tuple[float, ...]
    c: tuple[float, ...]

    def rank(self, _: Labels) -> list[Constants]:
        """Return the grid of a rank loss."""
        return [{"C": C} for C in self.C]

    def hinge(self, y: Labels) -> list[Constants]:
        """Return the grid of the hinge loss."""
        unit = float(np.count_nonzero(y) / (y > 0).sum())
        return [{"C": C, "J": J * unit, "c": c} for C, J, c in product(self.C_hinge, self.J, self.c)]


@dataclass(frozen=True)
class Start:
    """Initialisation: the means of the windows (`random` is 0), or `random` starts from random windows."""

    random: int = 0
    top: float = 1.0
    tol: float = 1e-3

    def options(self, seed: int) -> list[dict[str, Any]]:
        """Return the options of the training problem, one entry per start."""
        shared = {"tol": self.tol, "top": self.top}
        if not self.random:
            return [shared]
        return [{**shared, "init": "random", "seed": seed * self.random + number} for number in range(self.random)]


Problem = Callable[[Labels, Constants, Index, dict[str, Any]], LatentProblem]
"""(labels, constants, given windows, options) -> the problem."""


@dataclass(frozen=True)
class Method:
    """One learner."""

    name: str
    title: str
    hinge: bool  # whether it uses the grid of the hinge loss
    problem: Problem
    on_means: bool = False  # whether it trains and ranks on the mean of each picture's windows

    def grid(self, grids: Grids, y: Labels) -> list[Constants]:
        """Return the grid of constants of a class."""
        if self.on_means:
            return [constants for constants in grids.hinge(y) if constants["c"] == grids.c[0]]
        return grids.hinge(y) if self.hinge else grids.rank(y)

    def bags(self, pictures: Pictures) -> Bags:
        """Return the bags for training and for ranking pictures."""
        return pictures.means if self.on_means else pictures.bags


def _ranking(loss: str) -> Problem:
    """Return the problem of a latent rank loss."""

    def problem(y: Labels, constants: Constants, given: Index, options: dict[str, Any]) -> LatentProblem:
        return LatentProblem(y, RankRisk(loss), constants["C"], fixed_windows=given, **options)

    return problem


def _latent_svm(y: Labels, constants: Constants, given: Index, options: dict[str, Any]) -> LatentProblem:
    """Return the problem of latent SVM."""
    own = {"fit_intercept": True, "fixed_windows": given, "trim": constants["c"]}
    return LatentProblem(y, HingeRisk(constants["J"]), constants["C"], **own, **options)


def _mean_svm(y: Labels, constants: Constants, _: Index, options: dict[str, Any]) -> LatentProblem:
    """Return the problem of a linear SVM on one vector per picture."""
    risk = HingeRisk(constants["J"])
    return LatentProblem(y, risk, constants["C"], fit_intercept=True, tol=options["tol"])


def _latent_struct(y: Labels, constants: Constants, given: Index, options: dict[str, Any]) -> LatentProblem:
    """Return the problem of the latent structural SVM, which has no option `top`."""
    supported = {name: value for name, value in options.items() if name != "top"}
    return StructuralProblem(y, RankRisk("ap"), constants["C"], fixed_windows=given, **supported)


METHODS = {
    method.name: method
    for method in (
        Method("latent_ap", "latent AP-SVM", False, _ranking("ap")),
        Method("latent_ndcg", "latent NDCG-SVM", False, _ranking("ndcg")),
        Method("latent_auc", "latent AUC-SVM", False, _ranking("auc")),
        Method("latent_svm", "latent SVM", True, _latent_svm),
        Method("latent_struct", "latent structural SVM", False, _latent_struct),
        Method("mean_svm", "linear SVM on means", True, _mean_svm, on_means=True),
    )
}
