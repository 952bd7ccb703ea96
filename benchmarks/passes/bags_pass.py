"""One pass over 400,000 windows of 1,280 features: every bag's best window for k weight vectors.

    python benchmarks/passes/bags_pass.py [float16|bfloat16|float32] [features]

The floor is the time in which as many threads sum the same bytes as 64-bit integers; the number of windows depends on
the number of features. All are measured in alternation, and the minimum of the rounds counts. Needs 1 GB, or 2 for
float32.
"""

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from timing import minimum_times

from lapsvm.bags import Bags
from lapsvm.bfloat16 import named_type, narrowed, type_name

NUMBERS, PER_BAG, ROUNDS = 512_000_000, 625, 7
VECTORS = (1, 2, 3, 5, 8, 20, 60)


def summing(features: np.ndarray, threads: int) -> Callable[[], object]:
    """Return the work of summing the bytes as 64-bit integers."""
    parts = np.array_split(features.reshape(-1).view(np.uint64), threads)

    def work() -> None:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(np.sum, parts))

    return work


def main() -> None:
    dtype = named_type(sys.argv[1] if len(sys.argv) > 1 else "float16")
    dim = int(sys.argv[2]) if len(sys.argv) > 2 else 1280
    n_windows = NUMBERS // dim // PER_BAG * PER_BAG
    rng = np.random.default_rng(0)
    features = np.resize(narrowed(rng.standard_normal((2000, dim)), dtype), (n_windows, dim))
    bags = Bags(features, np.arange(0, n_windows + 1, PER_BAG))
    works = {"floor: sum of the bytes": summing(features, bags.threads)}
    for k in VECTORS:
        weights = rng.standard_normal((dim, k))
        works[f"best, k = {k}"] = lambda weights=weights: bags.best(weights)  # type: ignore[misc]
    minima = minimum_times(works, ROUNDS)
    floor, single = minima["floor: sum of the bytes"], minima["best, k = 1"]
    gigabytes = features.nbytes / 1e9
    print(f"{type_name(dtype)}, {n_windows:,} x {dim}, {gigabytes:.2f} GB, {bags.threads} threads\n")
    print("| work | wall ms | CPU ms | GB/s | times the floor | times k = 1 |\n|---|---|---|---|---|---|")
    for name, (wall, cpu) in minima.items():
        ratios = f"{wall / floor[0]:.2f} | {wall / single[0]:.2f}"
        print(f"| {name} | {1e3 * wall:.0f} | {1e3 * cpu:.0f} | {gigabytes / wall:.1f} | {ratios} |")


if __name__ == "__main__":
    main()
