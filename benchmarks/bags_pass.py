"""One pass over 400,000 windows of 1,280 features: every bag's best window for k weight vectors.

    python benchmarks/bags_pass.py [float16|float32]

The floor is the time in which as many threads sum the same bytes as 64-bit integers. Needs 1 GB (2 GB for float32).
"""

import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from lapsvm.bags import Bags

WINDOWS, DIM, PER_BAG, REPEATS = 400_000, 1280, 625, 5


def best_of(work: Callable[[], object]) -> tuple[float, float]:
    """Return the least wall and CPU seconds of some repetitions."""
    rows = []
    for _ in range(REPEATS):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        rows.append((time.perf_counter() - wall, time.process_time() - cpu))
    return min(row[0] for row in rows), min(row[1] for row in rows)


def main() -> None:
    dtype = np.dtype(sys.argv[1] if len(sys.argv) > 1 else "float16")
    rng = np.random.default_rng(0)
    features = np.resize(rng.standard_normal((2000, DIM)).astype(dtype), (WINDOWS, DIM))
    bags = Bags(features, np.arange(0, WINDOWS + 1, PER_BAG))
    parts = np.array_split(features.reshape(-1).view(np.uint64), os.cpu_count() or 1)
    print(f"{dtype}, {features.nbytes / 1e9:.2f} GB, {bags.threads} threads\n")
    print("| work | wall ms | CPU ms | times the floor |\n|---|---|---|---|")
    with ThreadPoolExecutor(len(parts)) as pool:
        floor, cpu = best_of(lambda: list(pool.map(np.sum, parts)))
    print(f"| floor: sum of the bytes | {1e3 * floor:.0f} | {1e3 * cpu:.0f} | 1.0 |")
    for k in (1, 2, 4, 8, 20, 60):
        weights = rng.standard_normal((DIM, k))
        wall, cpu = best_of(lambda weights=weights: bags.best(weights))  # type: ignore[misc]
        print(f"| best, k = {k} | {1e3 * wall:.0f} | {1e3 * cpu:.0f} | {wall / floor:.1f} |")


if __name__ == "__main__":
    main()
