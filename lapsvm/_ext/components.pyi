import numpy as np
from numpy.typing import NDArray

def components(
    values: NDArray[np.int16], thresholds: NDArray[np.int32], least: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]: ...
