"""Detectors, non-maximum suppression and detections."""

from lapsvm.detection.detector import Detector, score_many
from lapsvm.detection.formats import to_json
from lapsvm.detection.suppression import demoted, detect, nms
from lapsvm.detection.voting import voted

__all__ = ["Detector", "demoted", "detect", "nms", "score_many", "to_json", "voted"]
