"""Rank losses of tensors on a GPU: milliseconds of a call and its gradient, and equality with the processor.

    python benchmarks/deep/gpu_rank_losses.py

Times are the wall times of a call until the GPU is done, medians over rounds in which everything takes its turn. "over
the processor" copies the scores there, ranks them with the kernel and copies the gradient back. "graph" is the same
call captured as a CUDA graph. Before, values and gradients are compared with the processor's in float64. Takes less
than a minute.
"""

import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from lapsvm.pipelines.cli.study import print_table, study_command

from lapsvm.nn import RankHingeLoss, RankRampLoss

SIZES = ((20, 180), (1_000, 100_000), (10_000, 1_000_000))
SECONDS = 3.0  # per size
TITLES = ("AP hinge", "AP hinge, graph", "AP ramp", "over the processor", "BCE", "torch.sort")
Call = Callable[[], object]


def example(n_pos: int, n_neg: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Normal float32 scores, positives shifted by .5, in random order."""
    rng = np.random.default_rng(0)
    labels = np.zeros(n_pos + n_neg, dtype=bool)
    labels[rng.choice(n_pos + n_neg, n_pos, replace=False)] = True
    scores = (rng.standard_normal(n_pos + n_neg) + 0.5 * labels).astype(np.float32)
    return torch.from_numpy(scores), torch.from_numpy(labels)


def both_ways(module: Callable[..., torch.Tensor], scores: torch.Tensor, labels: torch.Tensor) -> Call:
    """Return a function that calls the module and propagates the gradient."""

    def call() -> None:
        scores.grad = None
        module(scores, labels).backward()

    return call


def captured(call: Call) -> Call:
    """Return the replay of a call as a CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def over_processor(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the hinge by the processor's kernel; autograd carries the gradient back."""
    return RankHingeLoss()(scores.cpu(), labels.cpu()).to(scores.device)


def alternate(calls: dict[str, Call]) -> dict[str, float]:
    """Median milliseconds of each call, in turn; the first three rounds are not counted."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(times["BCE"]) < 10:
        for name, call in calls.items():
            torch.cuda.synchronize()
            begin = time.perf_counter()
            call()
            torch.cuda.synchronize()
            times[name].append(1e3 * (time.perf_counter() - begin))
    return {name: float(np.median(found[3:])) for name, found in times.items()}


def check(scores: torch.Tensor, labels: torch.Tensor) -> None:
    """Raise AssertionError unless values and gradients of several losses are the processor's."""
    for module in (*(RankHingeLoss(scale=scale) for scale in (1.0, 30.0, 1e3)), RankHingeLoss("ndcg"), RankRampLoss()):
        here = scores.detach().double().cpu().requires_grad_()
        there = scores.detach().double().requires_grad_()
        value, found = module(here, labels.cpu()), module(there, labels)
        value.backward()
        found.backward()
        assert here.grad is not None
        assert there.grad is not None
        difference = abs(found.item() - value.item()) / max(1.0, abs(value.item()))
        assert difference <= 1e-12, (module, difference)
        unlike = int(((there.grad.cpu() - here.grad).abs() > 1e-9 * here.grad.abs().max()).sum())
        assert unlike == 0, f"{module}: {unlike} samples have another rank"


def calls_of(n_pos: int, n_neg: int) -> dict[str, Call]:
    """Return what is timed, by title, after a comparison with the processor."""
    scores, labels = (one.cuda() for one in example(n_pos, n_neg))
    scores.requires_grad_()
    check(scores, labels)
    ours = both_ways(RankHingeLoss(), scores, labels)
    graph = captured(both_ways(RankHingeLoss(), scores.detach().clone().requires_grad_(), labels))
    others = both_ways(RankRampLoss(), scores, labels), both_ways(over_processor, scores, labels)
    bce = both_ways(torch.nn.BCEWithLogitsLoss(), scores, labels.float())
    sort = partial(torch.sort, scores.detach(), descending=True)
    return dict(zip(TITLES, (ours, graph, *others, bce, sort), strict=True))


@study_command
def main() -> None:
    """Time the losses on a GPU."""
    if not torch.cuda.is_available():
        print("Skipped: torch sees no GPU here.")
        return
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; milliseconds, forward and backward\n")
    rows = ([f"{P:,}", f"{N:,}", *(f"{ms:.3g}" for ms in alternate(calls_of(P, N)).values())] for P, N in SIZES)
    print_table(["P", "N", *TITLES], rows)


if __name__ == "__main__":
    main()
