from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

_Bytes: TypeAlias = NDArray[np.uint8]
_Whole: TypeAlias = NDArray[np.int32]

def hsv(image: _Bytes) -> _Bytes: ...
def lab(image: _Bytes, linear: _Whole, root: _Whole, matrix: _Whole) -> _Bytes: ...
def rgi(image: _Bytes) -> _Bytes: ...
