"""Images as bags of windows: (features, offsets), and the best window of every bag for many weight vectors at once."""

from lapsvm.bags.scoring import BestWindows
from lapsvm.bags.store import Bags, as_bags

__all__ = ["Bags", "BestWindows", "as_bags"]
