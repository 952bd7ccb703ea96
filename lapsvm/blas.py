"""One BLAS thread where the work is cut up by ourselves.

A BLAS with threads of its own waits for them by spinning; on the small products of a solver, and on blocks that our
threads share out, that costs more than it gains, and on a busy machine many times more.
"""

from contextlib import AbstractContextManager
from functools import cache

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # looking for the loaded libraries takes milliseconds, so it is done once


def one_blas_thread() -> AbstractContextManager[object]:
    """Return a context in which BLAS uses one thread, in the whole process; afterwards as many as before."""
    limited: AbstractContextManager[object] = _controller().limit(limits=1, user_api="blas")
    return limited
