"""Convex solvers that know nothing of rankings: a problem is an oracle."""
