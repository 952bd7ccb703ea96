"""Wall and CPU seconds of functions, for the benchmarks of this folder."""

import time
from collections.abc import Callable


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return the wall and CPU seconds of one call."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def minimum_times(works: dict[str, Callable[[], object]], rounds: int) -> dict[str, tuple[float, float]]:
    """Return the minimum wall and CPU seconds of each function over `rounds`; every round calls each one once."""
    rows = [{name: timed(work) for name, work in works.items()} for _ in range(rounds)]
    return {name: tuple(min(row[name][i] for row in rows) for i in (0, 1)) for name in works}  # type: ignore[misc]
