"""Compiles Triton's kernels for a GPU that need not be there: ``python -m tests.twins.kernels_for_cards 80``.

The number is NVIDIA's compute capability without its point. Nothing is launched: the ways to solve a batch and the pass
over windows are called as ever, on tensors of the processor, and what they would launch is compiled to machine code
instead. Writes a JSON object: for each kernel, the bytes of shared memory of each variant by its hash.
"""

import json
import sys
from collections import defaultdict
from contextlib import suppress

import numpy as np
import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from lapsvm.bags.selection import Selection
from lapsvm.bags.stores import gpu_kernels
from lapsvm.bags.stores.gpu_weights import DeviceWeights
from lapsvm.bags.stores.gpu_windows import MOST_COLUMNS
from lapsvm.bfloat16 import BFLOAT16
from lapsvm.nn.device.losses import closed_form
from lapsvm.nn.device.operator import read_call, solve
from lapsvm.nn.device.ways import DeviceCall, DeviceOptions
from lapsvm.ranking.losses import NAMED

LOSSES = ("ap", "ndcg", "auc", "pos_at_top")
SHARED = defaultdict(dict)


class Card:
    """Stands in for Triton's driver of a GPU."""

    def __init__(self, capability):
        self.capability = capability

    def get_current_target(self):
        return GPUTarget("cuda", self.capability, 32)

    def get_current_device(self):
        return 0

    def get_current_stream(self, _):
        return 0


def compile_only(self, *args, plain=JITFunction.run, warmup=True, **options):
    """Stand in for the launch of a kernel."""
    if "WIDE" in options:  # for the interpreter alone
        options["WIDE"] = False
    try:
        kernel = plain(self, *args, warmup=True, **options)
    except Exception as error:  # its message is the whole kernel
        raise SystemExit(f"{self.fn.__name__} does not compile with {options}: {error.__cause__ or error}") from error
    assert kernel.asm["cubin"]
    SHARED[self.fn.__name__][kernel.hash] = kernel.metadata.shared
    return kernel


def losses(bound, dtype):
    """Compile the launches of rankings in rows for every loss, each for labels of two kinds."""
    n = 3000
    for number, loss in enumerate(LOSSES):
        shape = (n, 3) if number % 2 else (n,)
        labels, mask = torch.rand(shape) < 0.3, torch.rand(shape) < 0.8
        calls = [(labels, mask), (labels.to(dtype), None), (labels.long(), None)]
        for chosen, reduction in ((number, "mean"), (number + 2, "none")):
            kind, kept = calls[chosen % len(calls)]
            call = read_call(DeviceCall(torch.randn(shape, dtype=dtype), kind, kept, None, None))
            with suppress(RuntimeError, IndexError):  # of numbers that no kernel has written
                solve(call, DeviceOptions(bound, 1.5, reduction, -1, -1), closed_form(NAMED[loss]), "rows")


def windows(torch_type, dtype, dim):
    """Compile the kernels of passes over windows."""
    stride = -(-dim * torch_type.itemsize // 16) * 16 // torch_type.itemsize
    held, lengths = torch.zeros((300, stride), dtype=torch_type), torch.ones(300)
    for k, excluded in ((1, None), (33, np.zeros(300, dtype=np.bool_)), (MOST_COLUMNS, None)):
        selection = Selection(np.array([0, 100]), np.array([100, 300]), excluded)
        sections = gpu_kernels.Sections.of(selection, range(2), torch, "cpu")
        weights = DeviceWeights.of(np.random.default_rng(0).normal(size=(dim, k)), dtype).on(torch, "cpu")
        gpu_kernels.best_windows(torch, held, lengths, sections, weights)
    gpu_kernels.means(torch, held, dim, selection.starts, selection.stops)
    gpu_kernels.score_rows(torch, held, torch.arange(40), torch.zeros(dim, dtype=torch.float64))


def main(capability):
    """Compile all."""
    driver.set_active(Card(capability))
    JITFunction.run = compile_only
    windows(torch.float16, np.float16, 512)
    windows(torch.bfloat16, BFLOAT16, 512)
    windows(torch.float32, np.float32, 75)
    for bound, dtype in (("hinge", torch.float16), ("up", torch.bfloat16), ("delta", torch.float64)):
        losses(bound, dtype)
    sys.stdout.write(json.dumps(SHARED))


if __name__ == "__main__":
    main(int(sys.argv[1]))
