from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

_Whole: TypeAlias = NDArray[np.int32]

def smooth(planes: NDArray[np.uint8]) -> NDArray[np.int16]: ...
def edge_weights(smoothed: NDArray[np.int16]) -> NDArray[np.uint16]: ...
def segment(weights: NDArray[np.uint16], ks: _Whole, min_sizes: _Whole) -> tuple[_Whole, _Whole]: ...
