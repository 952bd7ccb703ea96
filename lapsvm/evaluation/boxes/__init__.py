"""Boxes against objects: matching, average precision, CorLoc and pointing, kinds of errors, thresholds, windows."""
