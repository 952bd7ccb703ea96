"""Limit BLAS to one thread where the caller has its own threads or small products.

A multithreaded BLAS waits for its threads by spinning. For the small products of a solver, and for blocks that threads
already share, this costs more than it gains, especially on a busy machine.
"""

from contextlib import AbstractContextManager
from functools import cache

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # cached, because the search for loaded libraries takes milliseconds


def one_blas_thread() -> AbstractContextManager[object]:
    """Return a context in which BLAS uses one thread in the process; its exit restores the previous number."""
    limited: AbstractContextManager[object] = _controller().limit(limits=1, user_api="blas")
    return limited
