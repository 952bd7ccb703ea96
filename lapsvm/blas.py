"""Limit BLAS to one thread, or avoid it, where the caller has its own threads or small products.

A multithreaded BLAS waits for its threads by spinning. For the small products of a solver, and for blocks that threads
already share, this costs more than it gains, especially on a busy machine.
"""

from contextlib import AbstractContextManager
from functools import cache

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # cached, because the search for loaded libraries takes milliseconds


def one_blas_thread() -> AbstractContextManager[object]:
    """Return a context in which BLAS uses one thread in the process; its exit restores the previous number."""
    limited: AbstractContextManager[object] = _controller().limit(limits=1, user_api="blas")
    return limited


def dot(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return the product of two vectors, computed by the calling thread without BLAS."""
    return float(np.einsum("i,i", first, second))
