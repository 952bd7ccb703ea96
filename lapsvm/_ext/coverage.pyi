from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

_Whole: TypeAlias = NDArray[np.int32]

def cut(labels: _Whole, count: int, step: int, boxes: _Whole) -> NDArray[np.int64]: ...
def edge_sums(weights: NDArray[np.uint16], step: int, boxes: _Whole) -> NDArray[np.int64]: ...
def cover(boxes: _Whole, weights: _Whole, limit: int) -> _Whole | None: ...
