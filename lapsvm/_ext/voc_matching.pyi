import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Float64, Index

def match(
    boxes: Float64,
    images: Index,
    objects: Float64,
    offsets: Index,
    difficult: NDArray[np.uint8],
    threshold: float,
    strict: bool,
    pixel: float,
) -> tuple[NDArray[np.int8], Index, Float64]: ...
