"""Pictures that show nothing: transparent, of one colour, or of 16 bits with a small part of the range."""

from enum import Enum

import numpy as np
from numpy.typing import NDArray

FLAT = 2
"""Levels of 256 by which the channels of a picture of one colour may vary, as lossy compression leaves them."""

NARROW = 64
"""Levels of 256 that the samples of a 16-bit picture must exceed, unless it is one that hardly shows anything."""


class Nothing(Enum):
    """Why a picture shows nothing, or hardly anything.

    Its value is the reason, and what to do, both in words that follow "pictures:" and their names.
    """

    TRANSPARENT = (
        "transparent all over, so that they are seen white",
        "save them without their alpha channel if their colours are meant to be seen",
    )
    NARROW = (
        "16-bit samples that use less than a quarter of their range, so that they are seen all dark (or all bright)",
        "scale them to the whole range, or declare theirs in the file (MaxSampleValue in TIFF, sBIT in PNG)",
    )
    PLAIN = ("of one colour, so that there is nothing to see", "leave them out unless they belong to no class")

    @property
    def reason(self) -> str:
        """What is odd about the picture."""
        return self.value[0]

    @property
    def remedy(self) -> str:
        """What may be done about it."""
        return self.value[1]


def is_plain(pixels: NDArray[np.uint8]) -> bool:
    """Return whether a picture (h, w, 3) is of one colour: no channel varies by more than `FLAT` levels."""
    return _spread(pixels[::16, ::16]) <= FLAT and _spread(pixels) <= FLAT  # a few pixels tell of most pictures


def _spread(pixels: NDArray[np.uint8]) -> int:
    """Return by how many levels the channel that varies most does."""
    return int((pixels.max(axis=(0, 1)) - pixels.min(axis=(0, 1))).max())
