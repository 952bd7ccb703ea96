"""What stages write and studies read: detectors, detections, figures."""
