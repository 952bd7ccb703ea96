"""Passes on a GPU beside the rate of its memory: windows made on the card, and winners beside a processor's.

    python benchmarks/passes/gpu.py                 10 million x 512 float16, 4 million of bfloat16 and of float32

The floor is the time in which torch sums the same bytes on the card as 64-bit integers. "kernels" are both kernels, the
answer left on the card, as a multiple of the floor; "pass" is the whole call of `Bags.best`, its answer in the memory
of the processor, so it contains copies and Python. Bags hold 2,000 windows, or 100, as in training on candidates. The
least time of the rounds counts. It ends with an error where a pass on the processor finds one of the sampled winners
elsewhere, or scores it differently in any bit. Needs a card with 16 GB.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Annotated, Any

import numpy as np
import torch
from lapsvm.pipelines.cli.parsing import split_names
from lapsvm.pipelines.cli.study import Cell, Given, Into, alternate, gpu_clock, print_gpu, print_table, study_command

from lapsvm.bags import Bags
from lapsvm.bags.stores import gpu as on_gpu
from lapsvm.bags.stores import gpu_plain
from lapsvm.bags.stores.gpu_weights import DeviceWeights
from lapsvm.bags.stores.gpu_windows import has_kernels
from lapsvm.bags.stores.local import Store
from lapsvm.bfloat16 import BFLOAT16
from lapsvm.errors import StageError

DIM, PER_BAG, SAMPLED, ROUNDS = 512, 2000, 40, 5
TYPES: dict[str, Any] = {"float16": np.float16, "bfloat16": BFLOAT16, "float32": np.float32}
RUNS = (
    ("float16", 10_000_000, (1, 20, 60, 80)),
    ("bfloat16", 4_000_000, (1, 20, 60)),
    ("float32", 4_000_000, (1, 20, 60)),
)
TITLES = ("windows", "in a bag", "weight vectors", "floor", "kernels", "pass")


class OnCard:
    """A part of a store whose windows are made on the card."""

    resident, dim = True, DIM

    def __init__(self, n_rows: int, dtype: Any):
        self.n_rows, self.dtype = n_rows, np.dtype(dtype)


def drawn(name: str, n_rows: int) -> Bags:
    """Return bags whose windows are drawn on the card, each the sum of one of its bag and one of its own."""
    store = Store([OnCard(n_rows, TYPES[name])])  # type: ignore[list-item]
    device = on_gpu.GpuStore(store, [("cuda:0", 0)])
    windows = torch.empty((n_rows, DIM), dtype=getattr(torch, name), device="cuda")
    lengths = torch.empty(n_rows, device="cuda")
    generator = torch.Generator("cuda").manual_seed(0)
    step = 100 * PER_BAG
    for first in range(0, n_rows, step):
        own = torch.randn((min(step, n_rows - first), DIM), device="cuda", generator=generator)
        own.view(-1, PER_BAG, DIM).add_(torch.randn((len(own) // PER_BAG, 1, DIM), device="cuda", generator=generator))
        windows[first : first + step] = own
        lengths[first : first + step] = gpu_plain.upper_lengths(torch, windows[first : first + step])
    store.device = device
    held = on_card(store)
    held._held, held._lengths = windows, lengths
    bags = Bags.__new__(Bags)
    bags._set(store, np.arange(0, n_rows + 1, PER_BAG), None, None)
    return bags


def on_card(store: Store) -> Any:
    """Return the windows on the one card of a store."""
    device: Any = store.device
    return device.shares[0].windows


def milliseconds(work: Callable[[], object]) -> float:
    """Return the least wall time until the card is idle again; the first call is not counted."""
    return 1e3 * alternate({"": work}, ROUNDS, clock=gpu_clock(torch), summary=min)[""]


def differing(bags: Bags, best: Any, weights: np.ndarray) -> int:
    """Return how many winners and scores of some bags differ from those of a pass on the processor."""
    count = 0
    for bag in np.linspace(0, bags.n_bags - 1, SAMPLED).astype(int).tolist():
        rows = bags._store.device.rows(np.arange(bags.offsets[bag], bags.offsets[bag + 1]))  # type: ignore[union-attr]
        there = Bags.from_arrays([rows]).best(weights)
        count += int(((there.index[0] != best.index[bag]) | (there.score[0] != best.score[bag])).sum())
    return count


def prepared(bags: Bags, k: int) -> tuple[np.ndarray, Any, tuple[Any, ...]]:
    """Return weights, the kernels' module and the arguments of its kernels."""
    from lapsvm.bags.stores import gpu_kernels

    device = on_card(bags._store)
    weights = np.random.default_rng(k).standard_normal((DIM, k))
    sections = gpu_kernels.Sections.of(bags._selection, range(bags.n_bags), torch, "cuda")
    columns = DeviceWeights.of(weights, bags._store.dtype).on(torch, "cuda")
    return weights, gpu_kernels, (torch, device._held, device._lengths, sections, columns)


def pass_row(name: str, bags: Bags, k: int, floor: float) -> list[Cell]:
    """Return the row of one kind of pass."""
    weights, kernels, arguments = prepared(bags, k)
    alone = milliseconds(lambda: kernels.best_windows(*arguments))
    complete = milliseconds(lambda: bags.best(weights))
    wrong = differing(bags, bags.best(weights), weights)
    assert not wrong, f"{name}, {k} weight vectors: {wrong} of {SAMPLED * k} winners differ from the processor's"
    sizes = f"{bags.n_windows:,}, {name}", f"{bags.n_windows // bags.n_bags:,}"
    return [*sizes, k, f"{floor:.2f} ms", f"{alone / floor:.2f}", f"{complete:.2f} ms"]


def passes(name: str, whole: Bags, vectors: tuple[int, ...]) -> Iterator[list[Cell]]:
    """Yield the row of every kind of pass."""
    held = on_card(whole._store)._held
    floor = milliseconds(held.view(torch.int64).sum)
    for bags, k in product((whole, whole.subdivided(PER_BAG // 100)), vectors):
        yield pass_row(name, bags, k, floor)


def rows(types: Sequence[str]) -> Iterator[list[Cell]]:
    """Yield the rows of the table."""
    for name, n_rows, vectors in RUNS:
        if name in types:
            yield from passes(name, drawn(name, n_rows), vectors)
            torch.cuda.empty_cache()


@study_command
def main(
    types: Annotated[str, Given(help="Of the windows, separated by commas.")] = ",".join(TYPES),
    into: Into = None,
) -> None:
    """Measure passes on a GPU."""
    chosen = split_names("option --types", types, TYPES)
    print_gpu(torch)
    if not has_kernels("cuda:0"):
        raise StageError("the kernels need Triton and a card of compute capability 8.0 or more.")
    print_table(TITLES, rows(chosen), into)


if __name__ == "__main__":
    main()
