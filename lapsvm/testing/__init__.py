"""Laws that implementations of an interface must keep, shipped as tests."""

from lapsvm.testing.rank_losses import RankLossLaws

__all__ = ["RankLossLaws"]
