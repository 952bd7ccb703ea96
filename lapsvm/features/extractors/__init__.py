"""Extractors of features for the windows of a picture."""
