from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

_Whole: TypeAlias = NDArray[np.int32]

def group(
    counts: _Whole,
    sizes: _Whole,
    boxes: _Whole,
    pairs: _Whole,
    channels: int,
    directions: int,
    texture_start: int,
    pixels: int,
    cues: int,
) -> tuple[_Whole, _Whole]: ...
