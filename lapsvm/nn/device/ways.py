"""The two ways to solve a batch on its device, and when each is taken.

"rows": Triton's kernels, one row per ranking; for rankings without groups of a loss that has a form there
(`FORMS`), where Triton compiles for the device. "torch": torch's operations; for groups, other losses and devices.
"""

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import NamedTuple

import torch

from lapsvm.nn.device.bounds import Bounded, bounded
from lapsvm.nn.device.layout import Sorted, sort_samples
from lapsvm.nn.device.losses import FORMS, ClosedForm
from lapsvm.nn.device.targets import Targets, counted_samples, read_targets
from lapsvm.ranking.inference import LARGEST

Tensor = torch.Tensor


class DeviceCall(NamedTuple):
    """The tensors of a call, all on the device of the scores."""

    scores: Tensor
    labels: Tensor
    mask: Tensor | None
    groups: Tensor | None
    class_weight: Tensor | None


class DeviceOptions(NamedTuple):
    """The operator's other arguments that count here."""

    bound: str
    scale: float
    reduction: str
    ignore_index: int | None
    n_groups: int


class Found(NamedTuple):
    """The values and gradients of all rankings, n for each of K columns.

    Attributes
    ----------
    values : (K, n) float64; in the scores' type if there is one ranking
        0 where there is nothing to rank.
    counting : callable
        Returns which rankings (K, n) have a positive and a negative, or a sample that cannot be used: their values are
        NaN.
    lacking : callable
        Returns which rankings (K, n) exist and lack positives or negatives.
    gradient : callable
        Maps weights that fit to (K, n), or None, to the gradient of the weighted sum of values.
    """

    values: Tensor
    counting: Callable[[], Tensor]
    lacking: Callable[[], Tensor]
    gradient: Callable[[Tensor | None], Tensor]


def choose(call: DeviceCall, form: ClosedForm) -> str:
    """Return the way of WAYS for a call."""
    in_rows = call.groups is None and FORMS[form.name].in_rows
    return "rows" if in_rows and can_compile(call.scores.device) else "torch"


@cache
def can_compile(device: torch.device) -> bool:
    """Return whether Triton's kernels work on a device: Triton, a compiler for its launchers, and NVIDIA's hardware."""
    if device.type != "cuda" or torch.version.hip or find_spec("triton") is None:
        return False
    from lapsvm.nn.device.triton_rows import try_kernel

    try:
        try_kernel(device)
    except Exception:  # noqa: BLE001 - whatever Triton lacks, torch's operations do without it
        return False
    return True


def _by_torch(call: DeviceCall, options: DeviceOptions, form: ClosedForm) -> Found:
    """Solve in plain torch operations."""
    scores = call.scores
    targets = read_targets(scores.shape, call.labels, call.mask, options.ignore_index)
    rows = _rows(scores)
    samples = sort_samples(rows, options.scale, targets.positive, targets.counted, call.groups, options.n_groups)
    result = _spoilt(bounded(options.bound, samples, form), samples, targets)
    valid = (samples.n_pos > 0) & (samples.n_neg > 0)

    def gradient(weights: Tensor | None) -> Tensor:
        slots = result.coefficients * -options.scale
        if weights is not None:
            slots = slots * samples.segments.spread(weights.expand_as(result.values))
        sorted_back = torch.zeros_like(slots).scatter_(1, samples.order, slots)
        return (sorted_back[0] if scores.ndim == 1 else sorted_back.T.contiguous()).to(scores.dtype)

    return Found(
        result.values, lambda: valid | result.values.isnan(), lambda: ~valid & samples.segments.exist(valid), gradient
    )


def _by_rows(call: DeviceCall, options: DeviceOptions, form: ClosedForm) -> Found:
    """Solve by kernels; there are no groups."""
    from lapsvm.nn.device.triton_rows import RowsCall, gradient_of, solve_rows

    shape = call.scores.shape
    counted = counted_samples(shape, call.labels, call.mask, options.ignore_index)
    read = RowsCall(_rows(call.scores), call.labels, counted, classes=call.labels.shape != shape)
    solved = solve_rows(read, options.scale, form, options.bound)

    def gradient(weights: Tensor | None) -> Tensor:
        return gradient_of(solved, options.scale, weights, call.scores)

    return Found(solved.values, lambda: solved.state > 0, lambda: solved.state == 0, gradient)


WAYS: dict[str, Callable[[DeviceCall, DeviceOptions, ClosedForm], Found]] = {
    "torch": _by_torch,
    "rows": _by_rows,
}


def _rows(scores: Tensor) -> Tensor:
    """Return one row per column of the scores."""
    return (scores[None] if scores.ndim == 1 else scores.T).contiguous()


def _spoilt(result: Bounded, samples: Sorted, targets: Targets) -> Bounded:
    """Return values and coefficients, NaN for rankings with a score or a label that cannot be used."""
    counted = samples.positive | samples.negative
    unusable = ~(samples.scores.abs() <= LARGEST)
    if targets.unusable is not None:
        unusable |= targets.unusable.gather(1, samples.order)
    spoilt = samples.segments.sums(torch.where(counted & unusable, torch.nan, 0.0).double())
    coefficients = torch.where(counted, result.coefficients + samples.segments.spread(spoilt), 0.0)
    return Bounded(result.values + spoilt, coefficients)
