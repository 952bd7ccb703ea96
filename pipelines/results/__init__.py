"""Results of a run that stages write and studies read: detectors, detections, figures."""
