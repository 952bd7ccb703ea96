"""A picture whose windows are scored: its detections and its score maps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lapsvm.arrays import Array, Float64, check_known
from lapsvm.catalog import Pixels
from lapsvm.detection.detector import Detector
from lapsvm.detection.picture_scores import Detected, detect_windows, ranking_scores
from lapsvm.detection.score_maps import ScoreMap, score_map
from lapsvm.inspection.decision import UNKNOWN, Decision
from lapsvm.inspection.shown import Shown
from lapsvm.inspection.threshold import AlarmThreshold
from lapsvm.settings import DetectSettings

if TYPE_CHECKING:
    from lapsvm.objectness.good_pictures import Unlike


@dataclass(frozen=True, eq=False)
class ScoredPicture:
    """The windows of a picture with the scores of some detectors; detections and maps share them.

    Attributes
    ----------
    size : tuple of int
        Height and width of the picture.
    boxes : ndarray of shape (n, 4), float32
        Its windows.
    scores : ndarray of shape (n, k), float64
    detectors : sequence of k Detector
    detection : sequence of k DetectSettings
    shown : Shown
        The rule by which `detections` shows boxes; with an alarm's threshold it decides whether the picture is ok, too.
    is_plain : bool
        Whether the picture is of one colour. It shows no class then, so all probabilities are 0: scores of features of
        nothing are no evidence, and calibration has seen no such picture.
    picture_scores : mapping of class name to float
        The scores of the whole picture by the picture models of the alarm: the mean of its windows' scores by each.
    unlike : Unlike, optional
        How unlike good pictures it is, where the alarm's threshold knows them.
    pixels : (h, w, 3) uint8, optional
        The picture; without it boxes take no extent of what stands out of it.
    """

    size: tuple[int, int]
    boxes: Array
    scores: Float64
    detectors: Sequence[Detector]
    detection: Sequence[DetectSettings]
    shown: Shown = field(default_factory=Shown)
    is_plain: bool = False
    picture_scores: Mapping[str, float] = field(default_factory=dict)
    unlike: "Unlike | None" = None
    pixels: Pixels | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        names, (height, width) = ", ".join(detector.class_name for detector in self.detectors), self.size
        return f"ScoredPicture({names}: {len(self.boxes):,} windows of {width:,} x {height:,} pixels)"

    def detections(self) -> dict[str, Detected]:
        """Return the shown boxes of every class, as a call of `Predictor` does."""
        probabilities = {name: of_class.probabilities for name, of_class in self._detected.items()}
        rows = self.shown.rows(probabilities, self._picture_probabilities)
        return {name: of_class.taken(rows[name]) for name, of_class in self._detected.items()}

    def decision(self) -> Decision | None:
        """Decide whether the picture is ok, or which class it shows; None without an alarm's threshold."""
        if self.shown.alarm is None:
            return None
        distance = None if self.unlike is None else self.unlike.distance
        decided = self.shown.alarm.decide(self._picture_probabilities, distance)
        if self.unlike is None or decided.class_name != UNKNOWN:
            return decided
        return replace(decided, box=self.unlike.box)

    @property
    def _picture_probabilities(self) -> dict[str, float]:
        """The probability of each class that decides: with the whole picture, where its score is known.

        A picture of one colour has no such score.
        """
        alarm, bests = self.shown.alarm, self._best_probabilities
        if alarm is None or self.is_plain:
            return bests
        known = (name for name in self.picture_scores if name in bests)
        return bests | {name: self._joined_probability(alarm, name) for name in known}

    def _joined_probability(self, alarm: AlarmThreshold, name: str) -> float:
        best = self._detected[name].scores[:1]
        return float(alarm.pictures[name].probability(best, [self.picture_scores[name]])[0])

    @cached_property
    def _detected(self) -> dict[str, Detected]:
        """The boxes of every class, of whatever probability."""
        detected = {}
        for column, (detector, settings) in enumerate(zip(self.detectors, self.detection, strict=True)):
            boxes, values = detect_windows(self.scores[:, column], self.boxes, settings, detector.prior, self.pixels)
            detected[detector.class_name] = Detected(boxes, values, self._probabilities(detector, values))
        return detected

    @property
    def _best_probabilities(self) -> dict[str, float]:
        """The highest probability of each class that has probabilities, in a picture with windows."""
        shares = {name: detected.probabilities for name, detected in self._detected.items()}
        return {name: float(of_class[0]) for name, of_class in shares.items() if of_class is not None and len(of_class)}

    def best_class(self) -> str:
        """Return the most probable class, one that raises an alarm first; the best-scored one without probabilities."""
        decision = self.decision()
        if decision is not None and decision.class_name not in (None, UNKNOWN):
            return decision.class_name
        bests = self.scores.max(axis=0)
        shares = [self._probabilities(detector, bests[[column]]) for column, detector in enumerate(self.detectors)]
        keys = [(0, best) if of is None else (1, of[0]) for of, best in zip(shares, bests, strict=True)]
        return self.detectors[keys.index(max(keys))].class_name

    def score_map(self, class_name: str) -> ScoreMap:
        """Return the score map of a class, of the scores by which detection ranks windows, smoothed and demoted.

        That of "unknown" has the distances to good pictures, as distance / (distance + least one of an alarm).

        Raises
        ------
        OptionError
            If there is no such class.
        InputError
            As `lapsvm.detection.score_map`.
        """
        if class_name == UNKNOWN and self.unlike is not None:
            return self._unlike_map(self.unlike)
        names = [detector.class_name for detector in self.detectors]
        check_known(f"class {class_name!r}", class_name, names)
        column = names.index(class_name)
        detector, settings = self.detectors[column], self.detection[column]
        scores = ranking_scores(self.scores[:, column], self.boxes, settings, detector.prior)
        calibration = detector.calibration
        scored = score_map(self.boxes, scores, self.size, calibration)
        return replace(scored, values=np.zeros_like(scored.values)) if self.is_plain and calibration else scored

    def _unlike_map(self, unlike: "Unlike") -> ScoreMap:
        least = 0.0 if self.shown.alarm is None or self.shown.alarm.unlike is None else self.shown.alarm.unlike.distance
        values = unlike.values
        return ScoreMap(values / np.maximum(values + np.float32(least), np.finfo(np.float32).tiny), True)

    def _probabilities(self, detector: Detector, scores: Float64) -> Float64 | None:
        """Return the probability of each score by a detector's calibration, if it has one."""
        probabilities = detector.probability(scores)
        return probabilities if probabilities is None or not self.is_plain else np.zeros_like(probabilities)
