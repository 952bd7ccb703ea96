"""Readers of windows and features in other programs' files."""
