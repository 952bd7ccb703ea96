"""Layerwise training of piecewise-linear networks as structural SVMs."""

from lapsvm.nn.layerwise.estimator import LayerwiseSVM

__all__ = ["LayerwiseSVM"]
