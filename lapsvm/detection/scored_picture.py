"""A picture whose windows are scored: its detections and its score maps."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lapsvm.arrays import Array, Float64, check_known
from lapsvm.detection.detector import Detector
from lapsvm.detection.picture_scores import Detected, detect_windows, ranking_scores
from lapsvm.detection.score_maps import ScoreMap, score_map
from lapsvm.settings import DetectSettings


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
    threshold : float or None
        Least probability of a box.
    is_plain : bool
        Whether the picture is of one colour. It shows no class then, so all probabilities are 0: what a model gives to
        features of nothing is no evidence, and calibration has seen no such picture.
    """

    size: tuple[int, int]
    boxes: Array
    scores: Float64
    detectors: Sequence[Detector]
    detection: Sequence[DetectSettings]
    threshold: float | None = None
    is_plain: bool = False

    def detections(self) -> dict[str, Detected]:
        """Return the boxes of every class, as a call of `Predictor` does."""
        detected = {}
        for column, (detector, settings) in enumerate(zip(self.detectors, self.detection, strict=True)):
            found, values = detect_windows(self.scores[:, column], self.boxes, settings)
            own = Detected(found, values, self._probabilities(detector, values))
            detected[detector.class_name] = own.at_least(self.threshold)
        return detected

    def best_class(self) -> str:
        """Return the most probable class; that of the highest score where no class has probabilities."""
        bests = self.scores.max(axis=0)
        probabilities = [self._probabilities(one, bests[[column]]) for column, one in enumerate(self.detectors)]
        keys = [(0, best) if one is None else (1, one[0]) for one, best in zip(probabilities, bests, strict=True)]
        return self.detectors[keys.index(max(keys))].class_name

    def score_map(self, class_name: str) -> ScoreMap:
        """Return the score map of a class, of the scores by which detection ranks windows, smoothed and demoted.

        Raises
        ------
        OptionError
            If there is no such class.
        InputError
            As `lapsvm.detection.score_map`.
        """
        names = [detector.class_name for detector in self.detectors]
        check_known(f"class {class_name!r}", class_name, names)
        column = names.index(class_name)
        scores = ranking_scores(self.scores[:, column], self.boxes, self.detection[column])
        calibration = self.detectors[column].calibration
        found = score_map(self.boxes, scores, self.size, calibration)
        return replace(found, values=np.zeros_like(found.values)) if self.is_plain and calibration else found

    def _probabilities(self, detector: Detector, scores: Float64) -> Float64 | None:
        """Return the probability of each score by a detector's calibration, if it has one."""
        probabilities = detector.probability(scores)
        return probabilities if probabilities is None or not self.is_plain else np.zeros_like(probabilities)
