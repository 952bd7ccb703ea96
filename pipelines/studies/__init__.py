"""Experiments that compare methods; their results are tables, not detectors."""
