"""Detectors, non-maximum suppression and detections, and prediction in new pictures."""

from lapsvm.detection.calibration import Calibration, Reliability, reliability
from lapsvm.detection.detected import Detected
from lapsvm.detection.detector import Detector, score_many
from lapsvm.detection.picture_scores import detect_windows
from lapsvm.detection.predictor import Predictor
from lapsvm.detection.smoothing import smooth_scores
from lapsvm.detection.suppression import demote_scores, detect, nms
from lapsvm.detection.voting import box_voting

__all__ = [
    "Calibration",
    "Detected",
    "Detector",
    "Predictor",
    "Reliability",
    "box_voting",
    "demote_scores",
    "detect",
    "detect_windows",
    "nms",
    "reliability",
    "score_many",
    "smooth_scores",
]
