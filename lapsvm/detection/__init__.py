"""Detectors, non-maximum suppression and detections."""
