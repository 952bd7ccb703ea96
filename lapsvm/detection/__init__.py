"""Detectors, non-maximum suppression and detections, and prediction in new pictures."""

from lapsvm.detection.alarms import AlarmThreshold, PictureVerdict
from lapsvm.detection.calibration import Calibration, Reliability, reliability
from lapsvm.detection.detector import Detector, score_many
from lapsvm.detection.picture_scores import Detected, box_voting, demote_scores, detect_windows, smooth_scores
from lapsvm.detection.predictor import Predictor
from lapsvm.detection.score_maps import ScoreMap, score_map
from lapsvm.detection.scored_picture import ScoredPicture
from lapsvm.detection.suppression import detect, nms

__all__ = [
    "AlarmThreshold",
    "Calibration",
    "Detected",
    "Detector",
    "PictureVerdict",
    "Predictor",
    "Reliability",
    "ScoreMap",
    "ScoredPicture",
    "box_voting",
    "demote_scores",
    "detect",
    "detect_windows",
    "nms",
    "reliability",
    "score_many",
    "score_map",
    "smooth_scores",
]
