"""What a threshold promises of new good pictures: the share of them that alarms, on average or with a confidence.

On average: of n exchangeable pictures and a new one, each is as likely to be the new one. If floor(share (n + 1)) - 1
of the n have the threshold or more, the new one has it with at most the share: a conformal quantile (V. Vovk, A.
Gammerman and G. Shafer, Algorithmic Learning in a Random World, 2005). The share that alarms at one threshold varies
around this mean as a beta variable does.

With a confidence: the threshold of n independent pictures lets more than the share alarm only if no more than k of them
lie above the share's own quantile, which the binomial distribution says (S. S. Wilks, Determination of Sample Sizes for
Setting Tolerance Limits, 1941).

Of pictures in groups a picture counts as its part of its group, and n is the number of groups. On average that changes
nothing (Y. Lee, R. F. Barber and R. Willett, Distribution-free Inference with Hierarchical Data, 2023). With a
confidence the sum of n parts in [0, 1] takes the place of a binomial number: it is at most k with at most e times its
probability (V. Bentkus, On Hoeffding's Inequalities, 2004), and 0 with at most its own.
"""

import math
from dataclasses import dataclass

import numpy as np

from lapsvm.arrays import as_number
from lapsvm.errors import InputError

ROUNDING = 1e-9  # 0.05 of 20 pictures is 1
_TOLERANCE = 1e-12
FOLDS, MEMORY, FILE = "the models of folds", "the memory of good pictures", "this file"
"""By whose numbers a threshold is chosen."""


@dataclass(frozen=True)
class Promise:
    """At most a share of new good pictures alarms: on average over training sets, or at this very threshold.

    Attributes
    ----------
    share : float
        In (0, 1).
    confidence : float, optional
        In (0, 1): the probability that the promise holds at the threshold. None: it holds on average.

    Raises
    ------
    InputError
        If one of them is not above 0 and below 1.
    """

    share: float
    confidence: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("the share of false alarms", self.share), ("the confidence", self.confidence)):
            if value is not None and not 0 < as_number(name, value) < 1:
                raise InputError(f"{name} must be above 0 and below 1, got {value}.")

    def budget(self, count: int, in_groups: bool = False) -> float:
        """Return how many of `count` pictures, or groups by their parts, may have the threshold; below 0: too few."""
        if self.confidence is None:
            return self.share * (count + 1) - 1 + ROUNDING
        from scipy.special import bdtr

        risks = bdtr(np.arange(count + 1), count, self.share) * ([1.0] + [math.e if in_groups else 1.0] * count)
        within = risks <= 1 - self.confidence + _TOLERANCE
        return float(np.argmin(within)) - 1 + ROUNDING  # `risks` rises up to n, where it is 1 or more

    def check(self, count: int, in_groups: bool) -> None:
        """Raise InputError if the pictures, or groups of them, are too few to promise a share."""
        if self.budget(count, in_groups) >= 0:
            return
        of = "groups of held-out pictures of no class" if in_groups else "held-out pictures of no class"
        least = f"which promise {least_share(count, self.confidence):g} at best" if count else "which promise nothing"
        sure = "" if self.confidence is None else f" with confidence {self.confidence:g}"
        raise InputError(
            f"a share of false alarms of {self.share:g}{sure} needs {self.needed:,} {of}, got {count:,}, {least}."
        )

    @property
    def needed(self) -> int:
        """The least number of pictures, or of groups."""
        if self.confidence is None:
            return math.ceil(1 / self.share - ROUNDING) - 1
        return math.ceil(math.log1p(-self.confidence) / math.log1p(-self.share) - ROUNDING)

    @property
    def half(self) -> "Promise":
        """The promise of each of two thresholds, which together keep this one whatever their orders."""
        return Promise(self.share / 2, None if self.confidence is None else (1 + self.confidence) / 2)

    def too_few_for_two(self, count: int) -> str:
        """Return the sentence that refuses two thresholds on `count` pictures, or groups of them."""
        return f"two thresholds need {self.half.needed:,} good pictures, or groups of them, got {count:,}."

    def sentence(self, in_groups: bool = False, source: str = FOLDS) -> str:
        """Return the promise, which of the two it is, and of what; terminal, page and files say it by this sentence.

        `source` is one of `FOLDS`, `MEMORY` and `FILE`.
        """
        holds = f"on average over {'training sets' if source == FOLDS else 'draws of good pictures'}"
        if self.confidence is not None:
            holds = f"with confidence {100 * self.confidence:g} % of this threshold"
        of = (
            "pictures of new groups like these, where each group counts the same"
            if in_groups
            else "new pictures like these"
        )
        return (
            f"The promise holds {holds}, of {source} and of {of}: at most {100 * self.share:g} % of good ones raise an "
            "alarm."
        )


def least_share(count: int, confidence: float | None = None) -> float:
    """Return the least share of false alarms that a number of pictures or groups promises, up to three digits or more.

    It is rounded up: rounded down it would be refused.

    Parameters
    ----------
    count : int
        1 or more.
    confidence : float, optional
        In (0, 1); without it the promise is on average.
    """
    digits = 10.0 ** (2 + len(str(count + 1)))
    if confidence is None:
        return math.ceil(digits / (count + 1) - ROUNDING) / digits
    return math.ceil(-digits * math.expm1(math.log1p(-confidence) / count)) / digits
