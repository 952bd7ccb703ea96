"""Training of a latent head: CCCP around convex problems that the cutting-plane solver certifies."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from lapsvm.arrays import Float64, check_count, check_positive
from lapsvm.errors import InputError
from lapsvm.nn.latent.head import LatentRankHead
from lapsvm.nn.rankings import check_choice
from lapsvm.nn.two_pass import two_pass_backward
from lapsvm.optim import Plane, Solution, cutting_plane
from lapsvm.optim.certificate import allowed_fall

Tensor = torch.Tensor
Batch = Sequence[Tensor]

_FIRST_GAP = 0.1  # of the first outer step, whose windows will change
_TIGHTEN = 0.2  # share of an outer step's fall that the next convex problem may miss


def train_latent_head(
    head: LatentRankHead,
    batches: Iterable[Batch],
    *,
    init: str = "mean",
    tol: float = 1e-3,
    max_iter: int = 50,
    max_calls: int = 1000,
) -> list[dict[str, Any]]:
    """Minimise the objective of a head on fixed features by CCCP, as `lapsvm.models.LatentRankSVM` does.

    Every outer step imputes the positives' windows at the present weights, and minimises the objective over the weights
    by cutting planes. Several batches are ranked together, by two passes over them for every plane
    (`lapsvm.nn.two_pass_backward`). A loop of your own with any torch optimiser minimises the same objective.

    Parameters
    ----------
    head : LatentRankHead
        Its weights change.
    batches : iterable of tuples (features, offsets, labels)
        As `LatentRankHead.objective` takes them. They are iterated many times, in the same order.
    init : "mean" or "weights", default="mean"
        The source of the first windows: the best ones of weights trained on the mean of each bag's windows, or of the
        head's present weights.
    tol : float, default=1e-3
        Relative duality gap of the last convex problem of each class, and relative fall of the objectives below which
        training ends, unless a fall is above a twentieth of the decrease from weights of 0 so far.
    max_iter : int, default=50
        Maximum number of outer steps.
    max_calls : int, default=1000
        Maximum number of evaluations of the loss in one outer step.

    Returns
    -------
    list of dict
        One per outer step: step, objective (the sum over classes, with the windows imputed before the step), gap (the
        largest relative duality gap of a class), changed (pairs of a bag and a class whose windows change after the
        step), calls.

    Raises
    ------
    InputError, OptionError
        If a parameter, or a batch, breaks its rule.
    OneClassError
        If a class has no positive, or no negative bag.

    Warns
    -----
    ConvergenceWarning
        If `max_calls` ended a convex problem.
    """
    check_choice("init", init, ("mean", "weights"))
    tol = check_positive("tol", tol)
    check_count("max_iter", max_iter)
    check_count("max_calls", max_calls)
    _check(batches)
    if init == "mean":
        _solve(head, _Means(batches), max(tol, _FIRST_GAP), max_calls)
    windows, at_zero = [head.impute(*batch) for batch in batches], _at_zero(head, batches)
    history: list[dict[str, Any]] = []
    inner, last = max(tol, _FIRST_GAP), np.full(len(head.weight), np.inf)
    while True:
        found = _solve(head, _Imputed(batches, windows), inner, max_calls)
        following = [head.impute(*batch) for batch in batches]
        changed = sum(int(_differ(old, new).sum()) for old, new in zip(windows, following, strict=True))
        history.append({"step": len(history), **found.record(), "changed": changed})
        falls = last - found.objectives
        allowed = [allowed_fall(*pair, tol) for pair in zip(found.objectives, at_zero, strict=True)]
        converged = changed == 0 or bool((falls <= allowed).all())
        if (converged and inner <= tol) or len(history) >= max_iter:
            return history
        fall = float((falls / np.maximum(found.objectives, np.finfo(float).tiny)).max())
        inner = tol if converged else max(tol, min(inner, _TIGHTEN * fall))
        windows, last = following, found.objectives


@torch.no_grad()
def _at_zero(head: LatentRankHead, batches: Iterable[Batch]) -> Float64:
    """Return the objective of each class at weights of 0, where all windows score alike."""
    labels = torch.cat([labels for _, _, labels in batches])
    risks: Float64 = head.class_risks(head.weight.new_zeros(labels.shape), labels).cpu().double().numpy()
    return head.C * risks


class _Solved(NamedTuple):
    """What the solver found: objectives and duality gaps per class, and the number of evaluations."""

    objectives: Float64
    gaps: Float64
    n_calls: int

    def record(self) -> dict[str, Any]:
        """Return what the history says of an outer step."""
        return {"objective": float(self.objectives.sum()), "gap": float(self.gaps.max()), "calls": self.n_calls}


def _solve(head: LatentRankHead, batches: Iterable[Any], tol: float, max_calls: int) -> _Solved:
    """Minimise the convex objective over the weights, for all classes side by side on the same passes."""
    points = head.weight.detach().cpu().double().numpy()
    solvers = [cutting_plane(len(w), head.C, tol, max_calls=max_calls, start=w.copy(), exact=False) for w in points]
    points = np.stack([next(solver) for solver in solvers])
    solutions: dict[int, Solution] = {}
    n_calls = 0
    while len(solutions) < len(solvers):
        planes = _planes(head, batches, points)
        n_calls += 1
        for k in set(range(len(solvers))) - set(solutions):
            try:
                points[k] = solvers[k].send(planes[k])
            except StopIteration as end:
                solutions[k] = end.value
                points[k] = end.value.w
    _set_weights(head, points)
    ordered = [solutions[k] for k in range(len(solvers))]
    objectives, gaps = ([getattr(solution, name) for solution in ordered] for name in ("objective", "gap"))
    return _Solved(np.array(objectives), np.array(gaps), n_calls)


def _planes(head: LatentRankHead, batches: Iterable[Any], points: Float64) -> list[Plane]:
    """Return the plane that touches each class's risk at its point."""
    _set_weights(head, points)
    head.weight.grad = None
    risks: list[Tensor] = []

    def loss(scores: Tensor, labels: Tensor) -> Tensor:
        each = head.class_risks(scores, labels)
        risks.append(each.detach())
        return each.sum()

    two_pass_backward(lambda inputs: head(*inputs), batches, loss)
    assert head.weight.grad is not None  # noqa: S101 - for the type checker
    gradients = head.weight.grad.cpu().double().numpy()
    touched = head.weight.detach().cpu().double().numpy()  # the point as the weights' type rounds it
    head.weight.grad = None
    offsets = risks[0].cpu().double().numpy() - (gradients * touched).sum(axis=1)
    return [Plane(gradient, float(offset)) for gradient, offset in zip(gradients, offsets, strict=True)]


@torch.no_grad()
def _set_weights(head: LatentRankHead, points: Float64) -> None:
    """Set the weights of all classes."""
    head.weight.copy_(torch.from_numpy(points))


class _Imputed:
    """Batches as `two_pass_backward` takes them, with the imputed windows of each."""

    def __init__(self, batches: Iterable[Batch], windows: list[Tensor]) -> None:
        self._batches, self._windows = batches, windows

    def __iter__(self) -> Iterator[tuple[Any, Tensor]]:
        for (features, offsets, labels), windows in zip(self._batches, self._windows, strict=True):
            yield (features.detach(), offsets, windows), labels  # the first plane would free their graph


class _Means:
    """Batches whose bags are the mean of their windows."""

    def __init__(self, batches: Iterable[Batch]) -> None:
        self._means = [(_means(features.detach(), offsets), labels) for features, offsets, labels in batches]

    def __iter__(self) -> Iterator[tuple[Any, Tensor]]:
        for means, labels in self._means:
            yield (means, torch.arange(len(means) + 1, device=means.device)), labels


def _means(features: Tensor, offsets: Tensor) -> Tensor:
    """Return the mean of each bag's windows."""
    sizes = offsets.diff()
    owners = torch.repeat_interleave(torch.arange(len(sizes), device=offsets.device), sizes)
    return features.new_zeros(len(sizes), features.shape[1]).index_add_(0, owners, features) / sizes[:, None]


def _differ(old: Tensor, new: Tensor) -> Tensor:
    """Return which bags, or pairs of a bag and a class, hold other windows, in any order."""
    return (old.sort(dim=-1).values != new.sort(dim=-1).values).any(dim=-1)


def _check(batches: Iterable[Batch]) -> None:
    """Raise InputError unless the batches can be iterated again and are of three tensors."""
    if iter(batches) is batches:
        raise InputError(f"batches must be iterable many times, as a list is, got {type(batches).__name__}.")
    count = 0
    for batch in batches:
        count += 1
        if not isinstance(batch, tuple | list) or len(batch) != 3:
            raise InputError(f"each batch must be a tuple of features, offsets and labels, got {type(batch).__name__}.")
    if not count:
        raise InputError("batches must hold at least one batch, got none.")
