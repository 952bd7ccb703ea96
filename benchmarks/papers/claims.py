"""A paper's claims beside what is measured here: figures with intervals, and a word on whether the claim holds."""

from collections.abc import Iterable
from typing import NamedTuple, Self

import numpy as np
from lapsvm.pipelines.cli.study import Cell, Into, print_table
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from lapsvm.evaluation import paired_t_test
from lapsvm.evaluation.intervals import LEVEL

TITLES = ("claim", "ours", f"{100 * LEVEL:g} %", "the paper", "word")
REPRODUCED, OPPOSITE, UNSURE, ONE = "reproduced", "not: the opposite", "not: no difference is sure", "one value"


class Mean(NamedTuple):
    """The mean of values, with Student's interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, values: ArrayLike, overlap: float = 0.0) -> Self:
        """Return the mean of values, those of folds with the `overlap` of `paired_t_test`; of one value no interval."""
        array = np.asarray(values, dtype=np.float64)
        mean = float(array.mean())
        if len(array) < 2:
            return cls(mean, -np.inf, np.inf)
        statistic = paired_t_test(np.zeros_like(array), array, overlap).statistic
        half = abs(mean / statistic) * float(stdtrit(len(array) - 1, (1 + LEVEL) / 2)) if statistic else 0.0
        return cls(mean, mean - half, mean + half)

    def exp(self) -> "Mean":
        """Return the geometric mean of ratios, given that of their logarithms."""
        return Mean(*np.exp(self).tolist())

    @property
    def word(self) -> str:
        """Whether a difference is surely above 0."""
        if np.isinf(self.high):
            return ONE
        return REPRODUCED if self.low > 0 else OPPOSITE if self.high < 0 else UNSURE


def claim(what: str, ours: Mean, paper: float | str, form: str = "+.3f", word: str | None = None) -> list[Cell]:
    """Return the row of a claim; without a word, the difference's own if the paper's is above 0."""
    interval = f"[{ours.low:{form}}, {ours.high:{form}}]"
    return [
        what,
        f"{ours.value:{form}}",
        interval,
        paper if isinstance(paper, str) else f"{paper:{form}}",
        word or ours.word,
    ]


def times(what: str, slow: ArrayLike, fast: ArrayLike, paper: float, said: str = "") -> list[Cell]:
    """Return the row of a claim on how many times faster one thing is, pair by pair; `said` is the paper's word."""
    ratio = Mean.of(np.log(np.asarray(slow) / np.asarray(fast))).exp()
    return claim(what, ratio, said or paper, ".1f", REPRODUCED if ratio.value >= paper else "not: less")


def print_claims(rows: Iterable[list[Cell]], into: Into = None) -> None:
    """Print a table of claims."""
    print_table(TITLES, rows, into)
