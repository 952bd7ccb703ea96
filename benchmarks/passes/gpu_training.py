"""Training of 20 classes with GPUs and without them, in one run: time, and whether the weights are the same.

    python benchmarks/passes/gpu_training.py                 5,000 pictures of 2,000 windows, 512 features of float16

Windows are drawn; each class has a direction that one window of each of its pictures goes in. "GPU" are all GPUs that
torch sees, with all windows; "a third fits" limits their memory to a third of the windows, so that the others travel in
every pass. Every row trains twice, and the second time counts: the first one compiles kernels, and takes the windows'
lengths and the pictures' means, which the store keeps. "first" is that first time. Needs 14 GB of memory.
"""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from lapsvm.pipelines.cli.study import Cell, print_gpu, print_table, study_command

from lapsvm.arrays import Array
from lapsvm.bags import Bags
from lapsvm.bags.checks import as_threads
from lapsvm.bags.stores.gpu import GpuStore, free_memory
from lapsvm.bags.stores.gpu_windows import row_bytes
from lapsvm.bags.stores.local import MeanCache, Store
from lapsvm.bags.stores.parts import MemoryPart
from lapsvm.latent import LatentProblem, LatentSolution, PassCounts, fit_many

PICTURES, PER_BAG, DIM, CLASSES, SHARE, SHIFT, C = 5000, 2000, 512, 20, 0.06, 4.0, 100.0
TITLES = "passes|first, s|wall s|CPU s|passes over windows|calls on candidates|same weights"


def drawn_labels() -> Array:
    """Return the labels (CLASSES, PICTURES)."""
    return np.where(np.random.default_rng(0).random((CLASSES, PICTURES)) < SHARE, 1, -1)


def drawn(y: Array) -> Bags:
    """Return bags of windows of length about 1, in which the positives' objects are planted."""
    features = np.empty((PICTURES * PER_BAG, DIM), np.float16)
    directions = np.random.default_rng(1).standard_normal((CLASSES, DIM), np.float32)
    directions *= SHIFT / np.linalg.norm(directions, axis=1, keepdims=True)

    def draw(picture: int) -> None:
        rng = np.random.default_rng([2, picture])
        windows = rng.standard_normal((PER_BAG, DIM), np.float32)
        for number in np.flatnonzero(y[:, picture] > 0):
            windows[rng.integers(PER_BAG)] += directions[number]
        features[picture * PER_BAG : (picture + 1) * PER_BAG] = windows / np.sqrt(DIM)

    with ThreadPoolExecutor(as_threads(None)) as pool:
        list(pool.map(draw, range(PICTURES)))
    offsets = np.arange(0, len(features) + 1, PER_BAG)
    bags = Bags.__new__(Bags)
    bags._set(Store([MemoryPart(features)], sizes=np.diff(offsets)), offsets, None, None)
    return bags


def trained(y: Array, bags: Bags) -> tuple[list[LatentSolution], list[Cell]]:
    """Return the solutions for all classes, and the time and counts of the training."""
    counts = PassCounts()
    wall, processor = time.perf_counter(), time.process_time()
    found = fit_many([LatentProblem(row, C=C) for row in y], bags, pass_counts=counts)
    times = [f"{time.perf_counter() - wall:.1f}", f"{time.process_time() - processor:.1f}"]
    return found, [*times, counts.passes, counts.candidate_calls]


def rows(cards: Sequence[tuple[str, int]]) -> Iterator[list[Cell]]:
    """Yield a row for the processor, for these cards, and for cards in which a third of the windows fits."""
    y = drawn_labels()
    bags = drawn(y)
    third = bags.n_windows * row_bytes(bags._store) // 3
    few = [(card, third // len(cards)) for card, _ in cards]
    expected: list[LatentSolution] = []
    for name, rooms in (("processor", []), ("GPU", cards), ("GPU, a third fits", few)):
        bags._store.means = MeanCache(DIM)
        bags._store.device = GpuStore(bags._store, rooms) if rooms else None
        _, (first, *_) = trained(y, bags)
        found, cells = trained(y, bags)
        expected = expected or found
        same = all(np.array_equal(one.coef, other.coef) for one, other in zip(found, expected, strict=True))
        yield [name, first, *cells, "yes" if same else "no"]


@study_command
def main() -> None:
    """Measure training with GPUs and without them."""
    print_gpu(torch)
    print_table(TITLES.split("|"), rows(free_memory(torch)))


if __name__ == "__main__":
    main()
