"""Decisions on the pictures of a run: their probabilities, with and without whole pictures, and its threshold."""
