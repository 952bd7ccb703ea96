"""Detectors, non-maximum suppression and detections."""

from lapsvm.detection.detector import Detector, score_many
from lapsvm.detection.formats import to_json
from lapsvm.detection.suppression import demote_scores, detect, nms
from lapsvm.detection.voting import box_voting

__all__ = ["Detector", "box_voting", "demote_scores", "detect", "nms", "score_many", "to_json"]
