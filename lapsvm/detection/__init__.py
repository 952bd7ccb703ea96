"""Detectors, non-maximum suppression and detections."""

from lapsvm.detection.calibration import Calibration, Reliability, ReliabilityPoint, reliability
from lapsvm.detection.detector import Detector, score_many
from lapsvm.detection.formats import to_json
from lapsvm.detection.smoothing import smooth_scores
from lapsvm.detection.suppression import demote_scores, detect, nms
from lapsvm.detection.voting import box_voting

__all__ = [
    "Calibration",
    "Detector",
    "Reliability",
    "ReliabilityPoint",
    "box_voting",
    "demote_scores",
    "detect",
    "nms",
    "reliability",
    "score_many",
    "smooth_scores",
    "to_json",
]
