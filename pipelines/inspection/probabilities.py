"""The probabilities of pictures beside their labels: figures of all classes as one, and alarm rates."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Float64, Index
from lapsvm.evaluation import MeasuredClass, Ranking
from lapsvm.inspection.alarm_rate import AlarmRate
from lapsvm.inspection.decision import OK
from lapsvm.inspection.histogram import DISTANCE, PROBABILITY, Histogram

Rule = Callable[[str, Sequence[str], Float64], Any]
"""(class, pictures, scores of their best windows) -> probabilities (n,)."""


@dataclass(frozen=True, eq=False)
class PictureProbabilities:
    """The probabilities of pictures, and what they show.

    Attributes
    ----------
    classes : tuple of str
    probabilities : (n, k) float64
        Of every class: that of the best box, or of best box and whole picture.
    shown : (n, k) int8
        Labels: 1, -1, or 0 where it is not known.
    ids : tuple of n str
    distances : (n,) float64, optional
        To good pictures.
    """

    classes: tuple[str, ...]
    probabilities: Float64
    shown: NDArray[np.int8]
    ids: tuple[str, ...]
    distances: Float64 | None = None

    @classmethod
    def joined(
        cls,
        ids: Iterable[str],
        scores: Mapping[str, Mapping[str, float]],
        labels: Mapping[str, Mapping[str, int]],
        rule: Rule,
    ) -> Self:
        """Return the probabilities of pictures that have a score of every class.

        Parameters
        ----------
        ids : iterable of str
        scores, labels : mapping of class name to (mapping of picture to number)
        rule : function
            From scores to probabilities.
        """
        known = tuple(image_id for image_id in ids if all(image_id in of_class for of_class in scores.values()))
        columns = [
            rule(name, known, np.array([of_class[image_id] for image_id in known], np.float64))
            for name, of_class in scores.items()
        ]
        shown = [[labels[name][image_id] for image_id in known] for name in scores]
        return cls(tuple(scores), np.array(columns, np.float64).T, np.array(shown, np.int8).T, known)

    @classmethod
    def of_no_class(cls, ids: Iterable[str]) -> Self:
        """Return the probabilities of good pictures where there is no class yet: none."""
        known = tuple(ids)
        none = np.empty((len(known), 0))
        return cls((), none, none.astype(np.int8), known)

    def among(self, rows: NDArray[np.bool_]) -> Self:
        """Return the probabilities of some of the n pictures."""
        ids = tuple(compress(self.ids, rows.tolist()))
        return replace(self, probabilities=self.probabilities[rows], shown=self.shown[rows], ids=ids)

    @property
    def best(self) -> Float64:
        """The highest probability of each picture, (n,); 0 without classes."""
        return np.asarray(self.probabilities.max(axis=1, initial=0.0))

    @property
    def is_ok(self) -> NDArray[np.bool_]:
        """Which pictures show no class, (n,)."""
        return np.asarray((self.shown == -1).all(axis=1))

    @property
    def any_shown(self) -> NDArray[np.int8]:
        """Labels of all classes as one, (n,): 1 where a picture shows a class, -1 where none, 0 if it is not known."""
        return np.where(self.is_ok, -1, (self.shown == 1).any(axis=1).astype(np.int8))

    @property
    def measured(self) -> MeasuredClass | None:
        """All classes as one, ranked by the highest probability; None without good pictures and others."""
        labels = self.any_shown
        if not {-1, 1} <= {*labels.tolist()}:
            return None
        return MeasuredClass(ranking=Ranking(self.ids, self.best, labels), has_none=True)

    def histograms(self, probability: float, distance: float = math.inf) -> tuple[Histogram, ...]:
        """Return the histograms of the pictures with their thresholds, of the known probabilities and distances."""
        found = []
        if self.classes:
            found.append(Histogram.among(PROBABILITY, self.best, self.any_shown, probability, 1.0))
        if self.distances is not None:
            found.append(Histogram.among(DISTANCE, self.distances, self.any_shown, distance, 3 * distance))
        return tuple(found)

    def alarm_rates(self, probability: float, groups: Index, distance: float = math.inf) -> dict[str, AlarmRate]:
        """Return the alarm rates at thresholds of pictures in groups (n,): false ones under "ok", hits by class.

        Among good pictures each group counts the same, as in the promise.
        """
        alarms = self.best >= probability
        if self.distances is not None:
            alarms |= self.distances >= distance
        kinds = {OK: self.is_ok, **{name: self.shown[:, row] == 1 for row, name in enumerate(self.classes)}}
        return {
            name: AlarmRate.among(alarms[rows], groups[rows], by_picture=name != OK) for name, rows in kinds.items()
        }
