"""Detections as the annotations of other programs."""

from lapsvm.detection.export.annotations import AnnotatedPicture, Annotations, BoxChoice, clip_boxes
from lapsvm.detection.export.formats import EXPORT_FORMATS, EXPORTED, check_export, read_exported, write_export

__all__ = [
    "EXPORTED",
    "EXPORT_FORMATS",
    "AnnotatedPicture",
    "Annotations",
    "BoxChoice",
    "check_export",
    "clip_boxes",
    "read_exported",
    "write_export",
]
