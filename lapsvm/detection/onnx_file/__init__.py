"""The detector as one ONNX file for ONNX Runtime alone: a picture in, boxes out."""

from lapsvm.detection.onnx_file.assembly import FORMAT, INPUTS, detector_file
from lapsvm.detection.onnx_file.content import FileContent, network_passes
from lapsvm.detection.onnx_file.quantisation import check_packages
from lapsvm.detection.onnx_file.running import OnnxDetector
from lapsvm.detection.onnx_file.thresholds import with_thresholds

__all__ = [
    "FORMAT", "INPUTS", "FileContent", "OnnxDetector", "check_packages", "detector_file", "network_passes",
    "with_thresholds",
]  # fmt: skip
