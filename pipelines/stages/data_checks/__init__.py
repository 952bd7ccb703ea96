"""Checks of the data before a stage runs: pictures, labels, and where the data are."""
