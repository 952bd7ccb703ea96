"""Refinement: choose the window of every positive picture, train on it against the windows far from it, and again."""
