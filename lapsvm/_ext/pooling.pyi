from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

_Float64: TypeAlias = NDArray[np.float64]

def mixed_means(cells: NDArray[np.float32], windows: _Float64, mixes: _Float64) -> NDArray[np.float32]: ...
def squared_lengths(cells: NDArray[np.float32], windows: _Float64, mixes: _Float64) -> _Float64: ...
