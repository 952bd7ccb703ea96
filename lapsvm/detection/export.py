"""Detections as the annotations of other programs."""

from lapsvm.annotations.export import EXPORTED, check_export, read_exported, write_export
from lapsvm.annotations.exported import AnnotatedPicture, Annotations, BoxChoice, clip_boxes

__all__ = [
    "EXPORTED", "AnnotatedPicture", "Annotations", "BoxChoice", "check_export", "clip_boxes", "read_exported",
    "write_export",
]  # fmt: skip
