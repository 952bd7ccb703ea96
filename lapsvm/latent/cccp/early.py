"""Easier problems before the one that is meant: soft choices of windows, and the easiest positives first.

CCCP ends in the local minimum next to where it begins. Two ways to begin better are known:

* Annealing. Over the shares q_h of a positive image's windows, each at most 1 / k, the largest ``q @ scores`` is the
  mean of the k best scores; with T times the entropy of q added it is reached by ``min(1 / k, c exp(scores / T))``, for
  k = 1 the softmax. From a high temperature T, where all windows share the image, the choice hardens as T falls.
  (Gehler and Chapelle, "Deterministic annealing for multiple-instance learning", AISTATS 2007, for soft labels of
  instances.)
* Self-paced order. The positives that lose least take part first. Every risk here falls as a positive's score rises, so
  they are those with the highest scores. (Kumar, Packer and Koller, "Self-paced learning for latent variable models",
  NIPS 2010; Sangineto, Nabi, Culibrk and Sebe, "Self paced deep learning for weakly supervised object detection", for
  detectors.)

Measured (docs/benchmarks_learning.md): both reach lower objectives. With one window per positive, bags drawn at random
are ranked better, test AP 0.883 -> 0.898 at ``anneal=0.5``; with the mean of several, the same. On photographs CorLoc
does not rise, and falls with a small `pace`. So both are off unless asked for.
"""

from itertools import zip_longest
from numbers import Real
from typing import NamedTuple

import numpy as np

from lapsvm.arrays import Float64, Index
from lapsvm.bags import Bags
from lapsvm.errors import InputError
from lapsvm.latent.cccp.imputation import ImputedVectors

COOLING = 0.5  # factor of the temperature from step to step
COLDEST = 0.1  # below this share of the scores' spread the best window has nearly all
GROWTH = 1.3  # factor of the share of positives from step to step


class EarlyStep(NamedTuple):
    """How much easier a problem is."""

    temperature: float  # times the spread of the scores; 0 is the hard choice
    share: float  # of the positives


LAST = EarlyStep(0.0, 1.0)


def check_early(anneal: float, pace: float) -> None:
    """Raise InputError unless both are in their ranges."""
    if anneal != 0 and not (isinstance(anneal, Real) and COLDEST <= anneal < np.inf):
        raise InputError(f"anneal must be 0 or a finite number of at least {COLDEST}, got {anneal!r}.")
    if not (isinstance(pace, Real) and 0 < pace <= 1):
        raise InputError(f"pace must be above 0 and at most 1, got {pace!r}.")


def early_steps(anneal: float, pace: float) -> list[EarlyStep]:
    """Return the steps before the hard choice of all positives: none for anneal = 0 and pace = 1."""
    temperatures, shares = [], []
    while anneal >= COLDEST:
        temperatures.append(float(anneal))
        anneal *= COOLING
    while pace < 1:
        shares.append(float(pace))
        pace *= GROWTH
    return [EarlyStep(heat or 0.0, share or 1.0) for heat, share in zip_longest(temperatures, shares)]


def soft_targets(bags: Bags, positives: Index, w: Float64, counts: Index, step: EarlyStep) -> ImputedVectors:
    """Return the weighted means of windows at `w` for the positives of this step, which keep their order.

    Parameters
    ----------
    bags : Bags
        The images.
    positives : (n_pos,) int
        Which of them are positive.
    w : (d,) float
        Weights that score the windows.
    counts : (n_pos,) int
        How many best windows stand for each in the end.
    step : EarlyStep
        The temperature is relative to `spread`; rounded up, the share is at least one positive.
    """
    part = bags.subset(positives)
    scores = np.split(part.score_windows(w), part.offsets[1:-1])
    temperature = step.temperature * spread(scores)
    shares = [soft_shares(own, temperature, count) for own, count in zip(scores, counts, strict=True)]
    best = np.array([np.sort(own)[::-1][:count].mean() for own, count in zip(scores, counts, strict=True)])
    easiest = np.sort(np.argsort(-best, kind="stable")[: int(np.ceil(step.share * len(best) - 1e-9))])
    return ImputedVectors(np.stack([_mean(bags, positives[i], shares[i]) for i in easiest]))


def spread(scores: list[Float64]) -> float:
    """Return the standard deviation of windows' scores within their images."""
    competing = [own[np.isfinite(own)] for own in scores]
    return float(np.sqrt(sum(((own - own.mean()) ** 2).sum() for own in competing) / sum(map(len, competing))))


def soft_shares(scores: Float64, temperature: float, count: int) -> Float64:
    """Return the shares (n,), at most 1 / count each, that maximise shares @ scores + temperature * entropy.

    Windows that do not compete have a score of -inf, at least `count` others compete. At temperature 0 the `count` best
    windows share alike, the earlier of equals first.
    """
    order = np.argsort(-scores, kind="stable")
    shares = np.zeros(len(scores))
    if temperature <= 0:
        shares[order[:count]] = 1 / count
        return shares
    heat = (scores[order] - scores[order[0]]) / temperature
    after = np.logaddexp.accumulate(heat[::-1])[::-1]  # log of the sum of exp(heat) from each window on
    full = np.flatnonzero(count - np.arange(count) <= np.exp(after[:count] - heat[:count]) * (1 + 1e-12))[0]
    shares[order[:full]] = 1 / count
    shares[order[full:]] = np.exp(heat[full:] - after[full]) * (1 - full / count)
    return shares


def _mean(bags: Bags, image: int, shares: Float64) -> Float64:
    windows = np.flatnonzero(shares)
    return bags.sum_rows(shares[windows], np.full(len(windows), image), windows)
