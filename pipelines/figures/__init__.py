"""Figures of a run: computed from its detections, boxes and masks, and printed."""
