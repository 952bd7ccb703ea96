"""Object proposals: windows of a picture that may hold an object."""

from lapsvm.windows.methods import METHODS, Source
from lapsvm.windows.proposals import propose, with_whole_image
from lapsvm.windows.selective_search import MODES, Mode

__all__ = ["METHODS", "MODES", "Mode", "Source", "propose", "with_whole_image"]
