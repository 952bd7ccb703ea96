"""Reusable tests of the properties that implementations of an interface must have."""

from lapsvm.testing.rank_losses import RankLossLaws

__all__ = ["RankLossLaws"]
