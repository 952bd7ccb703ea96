"""Object proposals: windows of a picture that may hold an object."""

from lapsvm.windows.proposals import METHODS, propose, with_whole_image
from lapsvm.windows.selective_search import MODES, Mode

__all__ = ["METHODS", "MODES", "Mode", "propose", "with_whole_image"]
