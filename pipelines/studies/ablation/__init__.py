"""Contributions of the settings of a recipe."""
