"""Rank losses in torch: what a call costs over its inference, and how exact it is.

    python benchmarks/torch_losses.py time         forward and backward, next to inference alone and to BCE
    python benchmarks/torch_losses.py bar          the hinge of AP alone, three times, also with BCE in the alternation
    python benchmarks/torch_losses.py overhead     one call with 200 samples
    python benchmarks/torch_losses.py memory       peak extra memory of a large batch
    python benchmarks/torch_losses.py agreement    value and gradient against the readable twin, ties included
    python benchmarks/torch_losses.py head         a linear head against RankSVM's certified objective
    python benchmarks/torch_losses.py passes       two passes against one, and two processes against one

Times are process CPU time, one thread (set OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1), everything compared timed in
alternation within one process. `torch_peers.py` times the losses of other packages.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from lapsvm.models import RankSVM
from lapsvm.nn import DirectLoss, RankHingeLoss, RankRampLoss, rank_hinge_loss, two_pass_backward
from lapsvm.ranking import most_violated_ranking, predicted_ranking, reference
from lapsvm.ranking.losses import NAMED, RankLoss

LARGE = (1_000, 100_000)


def example(n_pos: int, n_neg: int, shift: float = 0.5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Normal float32 scores, positives shifted, in random order; labels are int8."""
    rng = np.random.default_rng(seed)
    labels = np.zeros(n_pos + n_neg, dtype=np.int8)
    labels[rng.choice(n_pos + n_neg, n_pos, replace=False)] = 1
    return (rng.standard_normal(n_pos + n_neg) + shift * labels).astype(np.float32), labels


def alternate(functions: dict[str, Callable[[], object]], rounds: int, repeats: int = 1) -> dict[str, float]:
    """Median microseconds of each function, `repeats` calls at a time in turn; the first round is not counted."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds + 1):
        for name, function in functions.items():
            begin = time.process_time_ns()
            for _ in range(repeats):
                function()
            times[name].append((time.process_time_ns() - begin) / repeats / 1e3)
    return {name: float(np.median(found[1:])) for name, found in times.items()}


def both_ways(module: torch.nn.Module, scores: torch.Tensor, labels: torch.Tensor) -> Callable[[], None]:
    """Return a function that calls the module and propagates the gradient."""

    def call() -> None:
        scores.grad = None
        module(scores, labels).backward()

    return call


def row(*cells: object) -> None:
    print("|", " | ".join(map(str, cells)), "|")


def header(*cells: str) -> None:
    row(*cells)
    row(*["---"] * len(cells))


def time_all() -> None:
    header("P", "N", "loss", "inference ms", "forward and backward ms", "ratio", "over it ms", "BCE ms")
    for n_pos, n_neg in ((20, 180), LARGE):
        scores, labels = example(n_pos, n_neg)
        tensor, targets = torch.tensor(scores, requires_grad=True), torch.tensor(labels)
        modules: dict[str, torch.nn.Module] = {f"hinge {name}": RankHingeLoss(name) for name in NAMED}
        modules |= {"ramp ap": RankRampLoss(), "down ap": DirectLoss(direction="down")}
        modules |= {"ramp ndcg": RankRampLoss("ndcg"), "down ndcg": DirectLoss("ndcg", direction="down")}
        bce = both_ways(torch.nn.BCEWithLogitsLoss(), tensor, targets.float())
        for name, module in modules.items():
            loss, ours = name.split()[1], both_ways(module, tensor, targets)
            inference = partial(most_violated_ranking, scores, labels, loss)
            functions = {"kernel": inference, "ours": ours}
            found = alternate(functions, *((20, 100) if n_neg < 1000 else (15, 1)))
            found |= alternate({"bce": bce}, 20)  # apart: in turn with it, pages are freed and cleared anew
            kernel, whole = found["kernel"], found["ours"]
            cells = (kernel / 1e3, whole / 1e3, whole / kernel, (whole - kernel) / 1e3, found["bce"] / 1e3)
            row(n_pos, n_neg, name, *(f"{cell:.3g}" for cell in cells))


def bar() -> None:
    scores, labels = example(*LARGE)
    tensor, targets = torch.tensor(scores, requires_grad=True), torch.tensor(labels)
    functions = {
        "kernel": partial(most_violated_ranking, scores, labels),
        "ours": both_ways(RankHingeLoss(), tensor, targets),
    }
    bce = {"bce": both_ways(torch.nn.BCEWithLogitsLoss(), tensor, targets.float())}
    header("in the alternation", "inference ms", "forward and backward ms", "ratio")
    for more in ({}, bce) * 3:
        found = alternate(functions | more, 31)
        kernel, ours = found["kernel"] / 1e3, found["ours"] / 1e3
        row(", ".join(["inference", "hinge", *more]), f"{kernel:.3g}", f"{ours:.3g}", f"{ours / kernel:.2f}")


def overhead() -> None:
    scores, labels = example(20, 180)
    tensor, targets = torch.tensor(scores, requires_grad=True), torch.tensor(labels)
    module, wide = RankHingeLoss(), torch.tensor(np.stack([scores] * 8, axis=1))
    columns = targets[:, None].expand(-1, 8).contiguous()
    functions = {
        "inference alone": lambda: most_violated_ranking(scores, labels),
        "forward": lambda: module(tensor, targets),
        "forward and backward": both_ways(module, tensor, targets),
        "BCEWithLogitsLoss, forward and backward": both_ways(torch.nn.BCEWithLogitsLoss(), tensor, targets.float()),
        "forward, 8 columns": lambda: module(wide, columns),
    }
    header("call with 200 samples", "us")
    for name, found in alternate(functions, 41, 100).items():
        row(name, f"{found:.1f}")


def memory() -> None:
    program = """
import re, sys, torch
sys.path.insert(0, "benchmarks")
from torch_losses import LARGE, RankHingeLoss, RankRampLoss, DirectLoss, example
def status(name):
    return 1024 * int(re.search(name + r":\\s+(\\d+)", open("/proc/self/status").read()).group(1))
module = {"hinge": RankHingeLoss(), "ramp": RankRampLoss(), "down": DirectLoss(direction="down")}[sys.argv[1]]
small, few = map(torch.tensor, example(20, 180))
module(small.requires_grad_(), few).backward()
scores, labels = map(torch.tensor, example(*LARGE))
scores.requires_grad_()
open("/proc/self/clear_refs", "w").write("5")  # the peak starts from here
before = status("VmRSS")
module(scores, labels).backward()
print((status("VmHWM") - before) / 2**20)
"""
    header("loss", "peak extra memory MiB, the gradient of 0.4 MiB included")
    for name in ("hinge", "ramp", "down"):
        ran = subprocess.run([sys.executable, "-c", program, name], capture_output=True, text=True, check=True)
        row(f"{name} ap", f"{float(ran.stdout):.1f}")


def agreement() -> None:
    header("loss", "largest relative difference of the value", "of the gradient")
    rng = np.random.default_rng(0)
    for name, loss in NAMED.items():
        if not isinstance(loss, RankLoss):
            continue
        worst = np.zeros(2)
        for case in range(60):
            scores, labels = example(int(rng.integers(1, 30)), int(rng.integers(1, 200)), 0.5, case)
            values = np.round(scores, 1 if case % 2 else 6).astype(float) * (1, 100)[case % 3 == 0]
            for bound, module in (
                ("hinge", RankHingeLoss(name)),
                ("up", RankRampLoss(name)),
                ("down", DirectLoss(name, direction="down")),
            ):
                worst = np.maximum(worst, differences(bound, module, loss, values, labels))
        row(name, *(f"{value:.1e}" for value in worst))


def differences(bound: str, module: torch.nn.Module, loss: RankLoss, scores: np.ndarray, labels: np.ndarray) -> tuple:
    """Relative differences of value and gradient from those of the twin."""
    tensor = torch.tensor(scores, requires_grad=True)
    value = module(tensor, torch.tensor(labels))
    (gradient,) = torch.autograd.grad(value, tensor)
    high = most_violated_ranking(scores, labels, loss, "reference")
    plain = predicted_ranking(scores, labels, loss, "reference")
    positive = np.flatnonzero(labels)
    if bound == "down":
        _, low, above = reference.predicted(scores, positive, loss)
        delta, coefficients = loss.value(above, len(scores) - len(positive)), plain.coefficients - low
    else:
        delta, coefficients = high.loss, high.coefficients - (plain.coefficients if bound == "up" else 0)
    expected = delta - coefficients @ (scores - scores[positive].min())
    size = max(1.0, np.abs(coefficients).max())
    return (
        abs(value.item() - expected) / max(1.0, abs(expected)),
        float(np.abs(gradient.numpy() + coefficients).max()) / size,
    )


def head() -> None:
    header("loss", "C", "RankSVM's objective", "its duality gap", "linear head's objective", "above by")
    rng = np.random.default_rng(0)
    labels = rng.random(1000) < 0.1
    X = rng.standard_normal((1000, 20)) + 0.5 * labels[:, None] * rng.standard_normal(20)
    for loss in ("ap", "ndcg", "auc"):
        for C in (1.0, 100.0):
            solver = RankSVM(loss=loss, C=C, tol=1e-5).fit(X, np.where(labels, 1, -1))
            found = train_head(torch.tensor(X), torch.tensor(labels), loss, C)
            cells = (loss, C, f"{solver.objective_:.6g}", f"{solver.duality_gap_:.1e}", f"{found:.6g}")
            row(*cells, f"{100 * (found / solver.objective_ - 1):.3f} %")


def train_head(X: torch.Tensor, labels: torch.Tensor, loss: str, C: float, steps: int = 20_000) -> float:
    """Return the best objective of |w|^2 / 2 + C hinge by steps of 1 / t along subgradients, averaged late."""
    module = RankHingeLoss(loss)
    w = torch.zeros(X.shape[1], dtype=X.dtype, requires_grad=True)
    mean = torch.zeros_like(w)
    for t in range(1, steps + 1):
        (gradient,) = torch.autograd.grad(module(X @ w, labels), w)
        with torch.no_grad():
            w -= (w + C * gradient) * 2 / (t + 1)
            mean += (w - mean) * 2 / (t + 1)
    with torch.no_grad():
        return float(mean @ mean / 2 + C * module(X @ mean, labels))


def passes() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(30, 40), torch.nn.Tanh(), torch.nn.Linear(40, 5))
    rng = np.random.default_rng(0)
    X = torch.tensor(rng.standard_normal((2000, 30)), dtype=torch.float32)
    labels = torch.tensor(rng.random((2000, 5)) < 0.1)
    rank_hinge_loss(model(X), labels).backward()
    expected = flat_gradient(model)
    two_pass_backward(model, list(zip(X.split(100), labels.split(100), strict=True)), RankHingeLoss())
    header("compared", "largest difference of a gradient, relative to the largest")
    row("two passes over 20 chunks, float32", f"{difference(flat_gradient(model), expected):.1e}")
    with tempfile.TemporaryDirectory() as folder:
        torch.save((model, X, labels), f"{folder}/data.pt")
        torch.multiprocessing.spawn(work, (folder,), nprocs=2)
        row("two processes, float32", f"{difference(torch.load(f'{folder}/0.pt'), expected):.1e}")


def work(rank: int, folder: str) -> None:
    """One of two processes: its share of the data, and the gradient that both agree on."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    model, X, labels = torch.load(f"{folder}/data.pt", weights_only=False)
    model.zero_grad()
    parallel, own = torch.nn.parallel.DistributedDataParallel(model), slice(700) if rank else slice(700, None)
    rank_hinge_loss(parallel(X[own]), labels[own], gather=True).backward()
    torch.save(flat_gradient(model), f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


def flat_gradient(model: torch.nn.Module) -> torch.Tensor:
    """Return the gradients of all parameters, which are cleared."""
    found = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    model.zero_grad()
    return found


def difference(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found - expected).abs().max() / expected.abs().max())


COMMANDS = {
    "time": time_all,
    "bar": bar,
    "overhead": overhead,
    "memory": memory,
    "agreement": agreement,
    "head": head,
    "passes": passes,
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    if len(sys.argv) != 2 or not re.fullmatch("|".join(COMMANDS), sys.argv[1]):
        sys.exit(__doc__)
    print(f"torch {torch.__version__}, load {os.getloadavg()[0]:.1f}\n")
    COMMANDS[sys.argv[1]]()
