"""Neural baselines. Only this package uses torch; it is imported when a model is trained or applied."""

from lapsvm.nn.wsddn import WSDDN

__all__ = ["WSDDN"]
