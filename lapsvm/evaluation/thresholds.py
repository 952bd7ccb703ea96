"""Thresholds of detection scores: that of the best F1, and that of a wanted precision."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lapsvm.errors import InputError
from lapsvm.evaluation.results import Detections
from lapsvm.evaluation.voc import ClassResult


@dataclass(frozen=True)
class Threshold:
    """What detections with a score of at least `score` reach.

    Attributes
    ----------
    score : float
    precision, recall, f1 : float
        Of these detections; difficult objects and what matches them do not count. F1 = 2 PR / (P + R).
    """

    score: float
    precision: float
    recall: float
    f1: float


def best_f1(result: ClassResult, detections: Detections) -> Threshold | None:
    """Return the threshold with the largest F1, the highest of equal ones.

    Parameters
    ----------
    result : ClassResult
        The evaluation of `detections`.
    detections : Detections

    Returns
    -------
    Threshold or None
        None without an object, or without a true positive.
    """
    found = [threshold for threshold in thresholds(result, detections) if threshold.f1 > 0]
    return max(found, key=lambda threshold: threshold.f1, default=None)


def wanted_precision(result: ClassResult, detections: Detections, precision: float) -> Threshold | None:
    """Return the lowest threshold with at least this precision, so the one with the largest recall.

    Parameters
    ----------
    result : ClassResult
        The evaluation of `detections`.
    detections : Detections
    precision : float
        In (0, 1].

    Returns
    -------
    Threshold or None
        None where no threshold reaches it.

    Raises
    ------
    InputError
        If the precision is not in (0, 1].
    """
    if not 0 < precision <= 1:
        raise InputError(f"precision must be greater than 0 and at most 1, got {precision}.")
    return next((one for one in reversed(list(thresholds(result, detections))) if one.precision >= precision), None)


def thresholds(result: ClassResult, detections: Detections) -> Iterator[Threshold]:
    """Yield a threshold at every different score, from the highest, where the class has an object."""
    scores = detections.scores[result.order]
    last = np.append(scores[1:] != scores[:-1], True)[: len(scores)]  # equal scores are taken or left together
    rows = np.flatnonzero(last & (result.npos > 0))
    for score, precision, recall in zip(
        scores[rows].tolist(), result.precision[rows].tolist(), result.recall[rows].tolist(), strict=True
    ):
        yield Threshold(score, precision, recall, _f1(precision, recall))


def _f1(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0
