"""The learners that protocols compare, each with its grid and what it minimises."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from lapsvm.arrays import Index
from lapsvm.bags import Bags
from lapsvm.errors import OptionError
from lapsvm.latent import HingeRisk, LatentProblem, RankRisk, StructuralProblem

from ...run.dataset import Labels
from .pictures import Pictures

Constants = dict[str, float]


@dataclass(frozen=True)
class Grids:
    """The values to choose from; those of J are multiples of a class's labelled pictures per positive one."""

    C: tuple[float, ...]
    C_hinge: tuple[float, ...]
    J: tuple[float, ...]
    c: tuple[float, ...]

    def rank(self, _: Labels) -> list[Constants]:
        """Return the candidates of a rank loss."""
        return [{"C": C} for C in self.C]

    def hinge(self, y: Labels) -> list[Constants]:
        """Return the candidates of the hinge loss."""
        unit = float(np.count_nonzero(y) / (y > 0).sum())
        return [{"C": C, "J": J * unit, "c": c} for C, J, c in product(self.C_hinge, self.J, self.c)]


@dataclass(frozen=True)
class Start:
    """Where training starts: from the means of the windows, or from random windows, so many times."""

    random: int = 0
    top: float = 1.0
    tol: float = 1e-3

    def options(self, seed: int) -> list[dict[str, Any]]:
        """Return the options of every start."""
        shared = {"tol": self.tol, "top": self.top}
        if not self.random:
            return [shared]
        return [{**shared, "init": "random", "seed": seed * self.random + number} for number in range(self.random)]


Problem = Callable[[Labels, Constants, Index, dict[str, Any]], LatentProblem]


@dataclass(frozen=True)
class Method:
    """One learner.

    Attributes
    ----------
    name, title : str
    hinge : bool
        Whether its candidates are those of the hinge loss.
    problem : callable
        (labels, constants, known windows, options) -> LatentProblem.
    on_means : bool
        Whether it trains on the means of the pictures' windows, and ranks pictures by them.
    """

    name: str
    title: str
    hinge: bool
    problem: Problem
    on_means: bool = False

    def candidates(self, grids: Grids, y: Labels) -> list[Constants]:
        """Return the constants to choose from."""
        if self.on_means:
            return [one for one in grids.hinge(y) if one["c"] == grids.c[0]]
        return grids.hinge(y) if self.hinge else grids.rank(y)

    def bags(self, pictures: Pictures) -> Bags:
        """Return what is trained on, and what pictures are ranked by."""
        return pictures.means if self.on_means else pictures.bags


def _ranking(loss: str) -> Problem:
    """Return the problem of a latent rank loss."""

    def problem(y: Labels, constants: Constants, known: Index, options: dict[str, Any]) -> LatentProblem:
        return LatentProblem(y, RankRisk(loss), constants["C"], fixed_windows=known, **options)

    return problem


def _latent_svm(y: Labels, constants: Constants, known: Index, options: dict[str, Any]) -> LatentProblem:
    """Return the problem of latent SVM."""
    return LatentProblem(
        y,
        HingeRisk(constants["J"]),
        constants["C"],
        fit_intercept=True,
        fixed_windows=known,
        trim=constants["c"],
        **options,
    )


def _mean_svm(y: Labels, constants: Constants, _: Index, options: dict[str, Any]) -> LatentProblem:
    """Return the problem of a linear SVM: one vector a picture leaves nothing to choose."""
    risk = HingeRisk(constants["J"])
    return LatentProblem(y, risk, constants["C"], fit_intercept=True, tol=options["tol"])


def _latent_struct(y: Labels, constants: Constants, known: Index, options: dict[str, Any]) -> LatentProblem:
    """Return the problem of the latent structural SVM, which knows no `top`."""
    own = {name: value for name, value in options.items() if name != "top"}
    return StructuralProblem(y, RankRisk("ap"), constants["C"], fixed_windows=known, **own)


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


def methods_named(names: Sequence[str]) -> list[Method]:
    """Return learners by name.

    Raises
    ------
    OptionError
        If one is not known, or named twice.
    """
    for name in names:
        if name not in METHODS:
            raise OptionError(f"option --methods must name some of {', '.join(METHODS)}, got {name!r}.")
    if len(set(names)) < len(names):
        raise OptionError(f"option --methods must name each learner once, got {', '.join(names)}.")
    return [METHODS[name] for name in names]
