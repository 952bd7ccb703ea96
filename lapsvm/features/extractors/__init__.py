"""Extractors: what is measured in the windows of a picture."""
