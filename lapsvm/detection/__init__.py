"""Detectors, non-maximum suppression and detections, and prediction in new pictures."""

from lapsvm.detection.detector import Detector, score_many
from lapsvm.detection.picture_scores import Detected, box_voting, demote_scores, detect_windows, smooth_scores
from lapsvm.detection.predictor import Predictor
from lapsvm.detection.score_maps import ScoreMap, score_map
from lapsvm.detection.scored_picture import ScoredPicture
from lapsvm.detection.suppression import detect, nms
from lapsvm.inspection.calibration import Calibration, Reliability, reliability
from lapsvm.inspection.decision import Decision
from lapsvm.inspection.shown import Shown
from lapsvm.inspection.threshold import AlarmThreshold

PictureVerdict = Decision  # its former name

__all__ = [
    "AlarmThreshold",
    "Calibration",
    "Decision",
    "Detected",
    "Detector",
    "PictureVerdict",
    "Predictor",
    "Reliability",
    "ScoreMap",
    "ScoredPicture",
    "Shown",
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
