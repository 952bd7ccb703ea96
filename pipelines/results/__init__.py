"""Results of a run that stages write and comparisons read: detectors, detections, figures."""
