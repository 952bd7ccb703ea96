"""Images as bags of windows: (features, offsets), and the best window of every bag for many weight vectors at once."""

from lapsvm.bags.bags import Bags, as_bags
from lapsvm.bags.patch_files import Patches, bags_of_patches, read_patches
from lapsvm.bags.scoring import BestWindows
from lapsvm.bags.selection import top_mask
from lapsvm.bags.stores.parts import Buffer

__all__ = [
    "Bags",
    "BestWindows",
    "Buffer",
    "Patches",
    "as_bags",
    "bags_of_patches",
    "read_patches",
    "top_mask",
]
