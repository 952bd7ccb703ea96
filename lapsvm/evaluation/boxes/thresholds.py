"""Thresholds of detection scores: that of the best F1, and that of a wanted precision."""

from dataclasses import dataclass

import numpy as np

from lapsvm.arrays import Float64, Index
from lapsvm.errors import InputError
from lapsvm.evaluation.boxes.voc import ClassResult
from lapsvm.evaluation.detections import Detections


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
    rows = _cuts(result, detections)
    f1 = _f1(result.precision[rows], result.recall[rows])
    return _threshold(result, detections, rows[np.argmax(f1)]) if (f1 > 0).any() else None


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
    rows = _cuts(result, detections)
    precise = rows[result.precision[rows] >= precision]
    return _threshold(result, detections, precise[-1]) if len(precise) else None


def _cuts(result: ClassResult, detections: Detections) -> Index:
    """Return the last rank of every different score, from the highest, where the class has an object."""
    scores = detections.scores[result.order]
    last = np.append(scores[1:] != scores[:-1], True)[: len(scores)]  # equal scores are taken or left together
    return np.flatnonzero(last & (result.npos > 0))


def _threshold(result: ClassResult, detections: Detections, row: np.intp) -> Threshold:
    """Return the threshold that takes the detections up to a rank."""
    precision, recall = result.precision[row], result.recall[row]
    score, f1 = detections.scores[result.order[row]], _f1(precision, recall)
    return Threshold(float(score), float(precision), float(recall), float(f1))


def _f1(precision: Float64, recall: Float64) -> Float64:
    """Return F1, 0 where both are."""
    both = precision + recall
    return np.asarray(2 * precision * recall / np.where(both > 0, both, 1.0))
