"""How a pass grows with windows, with classes and with features, beside two floors measured in the same run.

    python benchmarks/passes/growth.py [--largest 10000000] [--rounds 5]

A pass finds every bag's best window for k weight vectors; features are float16 and lie in memory. One floor is the time
in which as many threads sum the same bytes, the other that in which BLAS does as many products of float32, of rows that
are in its cache. CPU seconds, works by turns, the least of the rounds. Needs 11 GB for ten million windows.
"""

import argparse

import numpy as np
from bags_pass import summing
from timing import minimum_times

from lapsvm.bags import Bags

PER_BAG = 500
DIM, WINDOWS, CLASSES = 512, 1_000_000, 20  # where one of them grows, the others stay
BLOCK = 512  # rows and columns of the products that BLAS does


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--largest", type=int, default=10_000_000, help="windows")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    print(
        "| windows | features | classes | GB | 10^9 products | sum of bytes | BLAS | pass | times the greater floor |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for n_windows in (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000):
        if n_windows <= given.largest:
            measure(n_windows, DIM, (1, CLASSES), given.rounds)
    measure(WINDOWS, DIM, (1, 5, CLASSES, 80), given.rounds)
    for dim in (256, 1024, 2048, 4096):
        measure(WINDOWS * DIM // dim, dim, (1, CLASSES), given.rounds)


def measure(n_windows: int, dim: int, classes: tuple[int, ...], rounds: int) -> None:
    """Print a row for each number of classes."""
    rng, n_windows = np.random.default_rng(0), n_windows // PER_BAG * PER_BAG
    features = np.resize(rng.standard_normal((2000, dim)).astype(np.float16), (n_windows, dim))
    bags = Bags(features, np.arange(0, n_windows + 1, PER_BAG))
    square = rng.standard_normal((BLOCK, BLOCK)).astype(np.float32)
    works = {"bytes": summing(features, bags.threads), "BLAS": lambda: [square @ square for _ in range(8)]}
    for k in classes:
        weights = rng.standard_normal((dim, k))
        works[f"{k}"] = lambda weights=weights: bags.best(weights)  # type: ignore[misc]
    seconds = {name: cpu for name, (_, cpu) in minimum_times(works, rounds).items()}
    for k in classes:
        products = n_windows * dim * k
        floors = seconds["bytes"], seconds["BLAS"] * products / (8 * BLOCK**3)
        row = [f"{n_windows:,}", f"{dim:,}", f"{k}", f"{features.nbytes / 1e9:.2f}", f"{products / 1e9:.1f}"]
        row += [f"{one:.3f}" for one in (*floors, seconds[f"{k}"])] + [f"{seconds[f'{k}'] / max(floors):.1f}"]
        print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
