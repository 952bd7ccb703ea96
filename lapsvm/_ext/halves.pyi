import numpy as np
from numpy.typing import NDArray

def to_halves(numbers: NDArray[np.float32], out: NDArray[np.uint16]) -> bool: ...
