"""How a pass grows with windows, with classes and with features, beside two floors measured in the same run.

    python benchmarks/passes/growth.py [--largest 10000000] [--rounds 5]

A pass finds every bag's best window for k weight vectors; features are float16 and lie in memory. One floor is the time
in which as many threads sum the same bytes, the other that in which BLAS does as many products of float32, of rows that
are in its cache. CPU seconds, works by turns, the least of the rounds. Needs 11 GB for ten million windows.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from lapsvm.pipelines.cli.study import Cell, Into, alternate, print_table, study_command

from lapsvm.bags import Bags

PER_BAG = 500
DIM, WINDOWS, CLASSES = 512, 1_000_000, 20  # where one of them grows, the others stay
BLOCK = 512  # rows and columns of the products that BLAS does


@study_command
def main(largest: int = 10_000_000, rounds: int = 5, into: Into = None) -> None:
    """Measure passes over at most a number of windows."""
    titles = "windows|features|classes|bytes, s|BLAS, s|pass, s|times the greater floor"
    print_table(titles.split("|"), rows(largest, rounds), into)


def rows(largest: int, rounds: int) -> Iterator[list[Cell]]:
    """Yield the rows of the table."""
    for n_windows in (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000):
        if n_windows <= largest:
            yield from measured(n_windows, DIM, (1, CLASSES), rounds)
    few = min(WINDOWS, largest)
    yield from measured(few, DIM, (1, 5, CLASSES, 80), rounds)
    for dim in (256, 1024, 2048, 4096):
        yield from measured(few * DIM // dim, dim, (1, CLASSES), rounds)


def measured(n_windows: int, dim: int, classes: tuple[int, ...], rounds: int) -> Iterator[list[Cell]]:
    """Yield a row for each number of classes."""
    rng, n_windows = np.random.default_rng(0), n_windows // PER_BAG * PER_BAG
    features = np.resize(rng.standard_normal((2000, dim)).astype(np.float16), (n_windows, dim))
    bags = Bags(features, np.arange(0, n_windows + 1, PER_BAG))
    square = rng.standard_normal((BLOCK, BLOCK)).astype(np.float32)
    works = {"bytes": summing(features, bags.threads), "BLAS": lambda: [square @ square for _ in range(8)]}
    for k in classes:
        weights = rng.standard_normal((dim, k))
        works[f"{k}"] = lambda weights=weights: bags.best(weights)  # type: ignore[misc]
    seconds = alternate(works, rounds, summary=min)
    for k in classes:
        floors = seconds["bytes"], seconds["BLAS"] * n_windows * dim * k / (8 * BLOCK**3)
        yield [f"{n_windows:,}", dim, k, *floors, seconds[f"{k}"], f"{seconds[f'{k}'] / max(floors):.1f}"]


def summing(features: np.ndarray, threads: int) -> Callable[[], object]:
    """Return the work of summing the bytes as 64-bit integers."""
    parts = np.array_split(features.reshape(-1).view(np.uint64), threads)

    def work() -> None:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(np.sum, parts))

    return work


if __name__ == "__main__":
    main()
