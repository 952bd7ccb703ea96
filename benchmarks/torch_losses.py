"""Rank losses in torch: what a call costs over its inference, and how exact it is.

    python benchmarks/torch_losses.py time         forward and backward of a large batch, with inference alone
    python benchmarks/torch_losses.py overhead     one call with 200 samples
    python benchmarks/torch_losses.py memory       peak extra memory of a large batch
    python benchmarks/torch_losses.py agreement    value and gradient against the readable twin, ties included
    python benchmarks/torch_losses.py head         a linear head against RankSVM's certified objective
    python benchmarks/torch_losses.py passes       two passes against one, and two processes against one
    python benchmarks/torch_losses.py gpu          milliseconds of a call and its gradient on a GPU
    python benchmarks/torch_losses.py peers        beside other packages' losses, where they are installed

Times are process CPU time, one thread (set OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1), everything compared timed in
alternation within one process. On a GPU they are the wall times of a call until the GPU is done, after a comparison of
values and gradients with the processor's in float64; "over the processor" copies the scores there, ranks them with the
kernel and copies the gradient back. Peers are torchsort (soft ranks), LibAUC (APLoss, whose matrix needs 3 GB) and
blackbox-backprop (a repository of its authors); their values differ, so that costs alone are compared.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module

import numpy as np
import torch
from lapsvm.pipelines.cli.study import Cell, Into, alternate, gpu_clock, print_gpu, print_table, study_command
from papers import scores as made

from lapsvm.models import RankSVM
from lapsvm.nn import DirectLoss, RankHingeLoss, RankRampLoss, rank_hinge_loss, two_pass_backward
from lapsvm.ranking import most_violated_ranking, predicted_ranking, reference
from lapsvm.ranking.losses import NAMED, RankLoss

LARGE = (1_000, 100_000)
SIZES = ((20, 180), LARGE, (10_000, 1_000_000))  # on a GPU
STEPS, CASES = 20_000, 60  # of a linear head; of the comparison with the twin
ROUNDS, CALLS = 41, 100  # of the time of a small call
GPU_ROUNDS = 100
ON_GPU = ("AP hinge", "as a CUDA graph", "AP ramp", "over the processor", "BCE", "`torch.sort`")
Call = Callable[[], object]


def example(n_pos: int, n_neg: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Normal float32 scores, positives shifted by .5, in random order; labels are int8."""
    scores, labels = made.example(n_pos, n_neg, 0.5, seed)
    return scores.astype(np.float32), labels


def microseconds(functions: dict[str, Call], rounds: int, repeats: int = 1) -> dict[str, float]:
    """Return the median microseconds of each function."""
    return {name: 1e6 * seconds for name, seconds in alternate(functions, rounds, repeats).items()}


def both_ways(module: Callable[..., torch.Tensor], scores: torch.Tensor, labels: torch.Tensor) -> Call:
    """Return a function that calls the module and propagates the gradient."""

    def call() -> None:
        scores.grad = None
        module(scores, labels).backward()

    return call


def time(into: Into = None) -> None:
    """Time losses of AP and NDCG, forward and backward."""
    print_table(["loss", "inference ms", "forward and backward ms"], time_rows(), into)


def time_rows() -> Iterator[list[Cell]]:
    """Yield the row of every loss."""
    scores, labels = example(*LARGE)
    tensor, targets = torch.tensor(scores, requires_grad=True), torch.tensor(labels)
    modules: dict[str, torch.nn.Module] = {f"hinge {name}": RankHingeLoss(name) for name in NAMED}
    modules |= {f"ramp {name}": RankRampLoss(name) for name in ("ap", "ndcg")}
    modules |= {f"down {name}": DirectLoss(name, direction="down") for name in ("ap", "ndcg")}
    for name, module in modules.items():
        kernel = partial(most_violated_ranking, scores, labels, name.split()[1])
        times = microseconds({"kernel": kernel, "ours": both_ways(module, tensor, targets)}, 15)
        yield [name, *(f"{spent / 1e3:.3g}" for spent in times.values())]
    bce = both_ways(torch.nn.BCEWithLogitsLoss(), tensor, targets.float())
    yield ["BCE", "", f"{microseconds({'bce': bce}, 20)['bce'] / 1e3:.3g}"]


def overhead() -> None:
    """Time a call with 200 samples."""
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
    found = microseconds(functions, ROUNDS, CALLS)
    print_table(["call with 200 samples", "us"], ([name, f"{spent:.1f}"] for name, spent in found.items()))


def memory() -> None:
    """Measure the peak of extra memory."""
    prepare = """
import torch
from torch_losses import LARGE, RankHingeLoss, RankRampLoss, DirectLoss, example
module = {"hinge": RankHingeLoss(), "ramp": RankRampLoss(), "down": DirectLoss(direction="down")}[sys.argv[1]]
small, few = map(torch.tensor, example(20, 180))
module(small.requires_grad_(), few).backward()
scores, labels = map(torch.tensor, example(*LARGE))
scores.requires_grad_()
"""
    peaks = {name: made.peak_memory(prepare, "module(scores, labels).backward()", name)
             for name in ("hinge", "ramp", "down")}  # fmt: skip
    rows = ([f"{name} ap", f"{peak / 2**20:.1f}"] for name, peak in peaks.items())
    print_table(["loss", "peak extra memory MiB, the gradient of 0.4 MiB included"], rows)


def agreement() -> None:
    """Compare value and gradient with the readable twin's."""
    named = {name: worst(name, loss) for name, loss in NAMED.items() if isinstance(loss, RankLoss)}
    rows = ([name, *(f"{value:.1e}" for value in found)] for name, found in named.items())
    print_table(["loss", "largest relative difference of the value", "of the gradient"], rows)


def worst(name: str, loss: RankLoss) -> np.ndarray:
    """Return the largest differences of a loss and its bounds in random cases, with ties and without."""
    rng, found = np.random.default_rng(0), np.zeros(2)
    bounds = {"hinge": RankHingeLoss(name), "up": RankRampLoss(name), "down": DirectLoss(name, direction="down")}
    for case in range(CASES):
        scores, labels = example(int(rng.integers(1, 30)), int(rng.integers(1, 200)), case)
        values = np.round(scores, 1 if case % 2 else 6).astype(float) * (1, 100)[case % 3 == 0]
        for bound, module in bounds.items():
            found = np.maximum(found, differences(bound, module, loss, values, labels))
    return found


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
    """Compare a linear head with RankSVM's certified objective."""
    titles = ["loss", "C", "RankSVM's objective", "its duality gap", "linear head's objective", "above by"]
    print_table(titles, (head_row(loss, C) for loss in ("ap", "ndcg", "auc") for C in (1.0, 100.0)))


def head_row(loss: str, C: float) -> list[Cell]:
    rng = np.random.default_rng(0)
    labels = rng.random(1000) < 0.1
    X = rng.standard_normal((1000, 20)) + 0.5 * labels[:, None] * rng.standard_normal(20)
    solver = RankSVM(loss=loss, C=C, tol=1e-5).fit(X, np.where(labels, 1, -1))
    found = train_head(torch.tensor(X), torch.tensor(labels), loss, C, STEPS)
    solved = f"{solver.objective_:.6g}", f"{solver.duality_gap_:.1e}", f"{found:.6g}"
    return [loss, f"{C:g}", *solved, f"{100 * (found / solver.objective_ - 1):.3f} %"]


def train_head(X: torch.Tensor, labels: torch.Tensor, loss: str, C: float, steps: int) -> float:
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
    """Compare two passes, and two processes, with one pass."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(30, 40), torch.nn.Tanh(), torch.nn.Linear(40, 5))
    rng = np.random.default_rng(0)
    X = torch.tensor(rng.standard_normal((2000, 30)), dtype=torch.float32)
    labels = torch.tensor(rng.random((2000, 5)) < 0.1)
    rank_hinge_loss(model(X), labels).backward()
    expected = flat_gradient(model)
    two_pass_backward(model, list(zip(X.split(100), labels.split(100), strict=True)), RankHingeLoss())
    rows = [["two passes over 20 chunks, float32", f"{difference(flat_gradient(model), expected):.1e}"]]
    with tempfile.TemporaryDirectory() as folder:
        torch.save((model, X, labels), f"{folder}/data.pt")
        torch.multiprocessing.spawn(work, (folder,), nprocs=2)
        rows += [["two processes, float32", f"{difference(torch.load(f'{folder}/0.pt'), expected):.1e}"]]
    print_table(["compared", "largest difference of a gradient, relative to the largest"], rows)


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


def gpu(into: Into = None) -> None:
    """Time the losses on a GPU: milliseconds, forward and backward."""
    print_gpu(torch)
    times = ((P, N, alternate(calls_of(P, N), GPU_ROUNDS, clock=gpu_clock(torch))) for P, N in SIZES)
    rows = ([f"{P:,}", f"{N:,}", *(f"{1e3 * seconds:.3g}" for seconds in of.values())] for P, N, of in times)
    print_table(["P", "N", *ON_GPU], rows, into)


def calls_of(n_pos: int, n_neg: int) -> dict[str, Call]:
    """Return the timed calls by title, after a comparison with the processor."""
    scores, labels = (torch.from_numpy(array).cuda() for array in example(n_pos, n_neg))
    scores.requires_grad_()
    check(scores, labels)
    ours = both_ways(RankHingeLoss(), scores, labels)
    graph = captured(both_ways(RankHingeLoss(), scores.detach().clone().requires_grad_(), labels))
    others = both_ways(RankRampLoss(), scores, labels), both_ways(over_processor, scores, labels)
    bce = both_ways(torch.nn.BCEWithLogitsLoss(), scores, labels.float())
    sort = partial(torch.sort, scores.detach(), descending=True)
    return dict(zip(ON_GPU, (ours, graph, *others, bce, sort), strict=True))


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


def peers() -> None:
    """Time forward and backward of a large batch beside other packages' losses."""
    arrays, truth = example(*LARGE)
    scores, labels = torch.tensor(arrays, requires_grad=True), torch.tensor(truth)
    bce = both_ways(torch.nn.BCEWithLogitsLoss(), scores, labels.float())
    calls = {
        "AP hinge": both_ways(RankHingeLoss(), scores, labels),
        "AP ramp": both_ways(RankRampLoss(), scores, labels),
    }
    left_out = {}
    for name, make in PEERS.items():
        try:
            calls[name] = both_ways(make(len(scores)), scores, labels)
        except (ImportError, OSError) as error:
            left_out[name] = error
    print_table(["loss", "forward and backward ms", "over BCE"], peer_rows(bce, calls))
    for name, error in left_out.items():
        print(f"\nleft out: {name} ({type(error).__name__}: {error})")


def peer_rows(bce: Call, calls: dict[str, Call]) -> Iterator[list[Cell]]:
    """Yield the row of each loss, timed in turn with BCE."""
    for name, call in calls.items():
        found = microseconds({"BCE": bce, name: call}, 2 if name == "LibAUC APLoss" else 15)
        yield [name, f"{found[name] / 1e3:.3g}", f"{found[name] / found['BCE']:.3g}"]


def soft_ranks(_: int) -> Callable[..., torch.Tensor]:
    """Return the sum of the positives' soft ranks: the least that a loss of ranks needs."""
    soft_rank = import_module("torchsort").soft_rank
    return lambda scores, labels: soft_rank(scores[None])[0][labels > 0].sum()


def blackbox(_: int) -> Callable[..., torch.Tensor]:
    """Return the AP loss of Rolinek et al. (CVPR 2020): 1 - AP, differentiated by a second ranking."""
    loss = import_module("blackbox_backprop.mAP").MapLoss(4.0, 0.02, 0.0, 0)
    return lambda scores, labels: loss.raw_map_computation(scores[:, None], labels.float()[:, None])


def libauc(n: int) -> Callable[..., torch.Tensor]:
    """Return LibAUC's loss of probabilities; it wants the index of every sample."""
    loss, index = import_module("libauc.losses").APLoss(data_len=n), torch.arange(n)
    return lambda scores, labels: loss(torch.sigmoid(scores), labels.float(), index)


PEERS = {"torchsort soft ranks": soft_ranks, "blackbox AP": blackbox, "LibAUC APLoss": libauc}

main = study_command(time, overhead, memory, agreement, head, passes, gpu, peers)

if __name__ == "__main__":
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, load {os.getloadavg()[0]:.1f}\n")
    main()
