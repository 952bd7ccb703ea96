"""Forward and backward of the AP hinge next to other losses, P = 1,000 and N = 100,000 in one ranking.

    python benchmarks/torch_peers.py

Compared where they are installed: torchsort (soft ranks), LibAUC (APLoss, its matrix P x (P + N) needs 3 GB) and
blackbox-backprop (a repository of its authors, not on the package index). What is missing is listed with the reason.
Float32 scores, one thread, process CPU time, medians, in turn within one process. Their values differ: the table
compares costs alone.
"""

import os
from collections.abc import Callable
from functools import partial
from importlib import import_module

import torch
from torch_losses import LARGE, alternate, both_ways, example, header, row

from lapsvm.nn import RankHingeLoss, RankRampLoss

Call = Callable[[], None]
ROUNDS, SLOW_ROUNDS = 15, 2
SLOW = "LibAUC APLoss"


def backward(value: Callable[[], torch.Tensor], scores: torch.Tensor) -> None:
    """Compute a value and propagate its gradient."""
    scores.grad = None
    value().backward()


def ours(scores: torch.Tensor, labels: torch.Tensor) -> dict[str, Call]:
    """Return the losses that are always there."""
    return {
        "BCEWithLogitsLoss": both_ways(torch.nn.BCEWithLogitsLoss(), scores, labels.float()),
        "AP hinge": both_ways(RankHingeLoss(), scores, labels),
        "AP ramp": both_ways(RankRampLoss(), scores, labels),
    }


def soft_ranks(scores: torch.Tensor, labels: torch.Tensor) -> Call:
    """Return the sum of the positives' soft ranks: the least that a loss of ranks needs."""
    soft_rank, positive = import_module("torchsort").soft_rank, labels > 0

    def value() -> torch.Tensor:
        ranks: torch.Tensor = soft_rank(scores[None])[0]
        return ranks[positive].sum()

    return partial(backward, value, scores)


def blackbox(scores: torch.Tensor, labels: torch.Tensor) -> Call:
    """Return the AP loss of Rolinek et al. (CVPR 2020): 1 - AP, differentiated by a second ranking."""
    loss = import_module("blackbox_backprop.mAP").MapLoss(4.0, 0.02, 0.0, 0)
    targets = labels.float()[:, None]
    return partial(backward, lambda: loss.raw_map_computation(scores[:, None], targets), scores)


def libauc(scores: torch.Tensor, labels: torch.Tensor) -> Call:
    """Return LibAUC's loss of probabilities; it wants the index of every sample."""
    loss = import_module("libauc.losses").APLoss(data_len=len(scores))
    targets, index = labels.float(), torch.arange(len(scores))
    return partial(backward, lambda: loss(torch.sigmoid(scores), targets, index), scores)


PEERS = {"torchsort soft ranks": soft_ranks, "blackbox AP": blackbox, SLOW: libauc}


def available(scores: torch.Tensor, labels: torch.Tensor) -> tuple[dict[str, Call], dict[str, str]]:
    """Return the functions to time, and why others are left out."""
    functions, missing = ours(scores, labels), {}
    for name, make in PEERS.items():
        try:
            functions[name] = make(scores, labels)
        except (ImportError, OSError) as error:
            missing[name] = f"{type(error).__name__}: {error}"
    return functions, missing


def main() -> None:
    arrays, truth = example(*LARGE)
    scores, labels = torch.tensor(arrays, requires_grad=True), torch.tensor(truth)
    functions, missing = available(scores, labels)
    fast = {name: function for name, function in functions.items() if name != SLOW}
    found = alternate(fast, ROUNDS)
    if SLOW in functions:
        found[SLOW] = alternate({"AP hinge": functions["AP hinge"], SLOW: functions[SLOW]}, SLOW_ROUNDS)[SLOW]
    header("loss", "forward and backward ms", "over BCE")
    for name, time in found.items():
        row(name, f"{time / 1e3:.3g}", f"{time / found['BCEWithLogitsLoss']:.3g}")
    for name, reason in missing.items():
        print(f"\nleft out: {name} ({reason})")


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, load {os.getloadavg()[0]:.1f}\n")
    main()
