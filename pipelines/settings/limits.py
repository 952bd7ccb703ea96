"""Limits of settings and options."""

MAX_SEED = 2**32 - 1
MAX_JOBS = 1024
MAX_DRAWS = 1_000_000
MAX_SIZE = 8192
"""Longest side in pixels at which a network sees a picture: a square of this side has as many pixels as may be read."""
