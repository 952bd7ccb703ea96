"""Neural baselines; the one room that imports torch, and only when something is trained or scored with it."""

from lapsvm.nn.wsddn import WSDDN

__all__ = ["WSDDN"]
