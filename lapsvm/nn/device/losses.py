"""Closed forms of rank losses for inference: sums of derivatives, and the part of Delta of each positive.

Positions j and ranks r are 1-based. Tables are float64, on the device of the scores. They stay where they are as long
as their loss lives, for a CUDA graph may read them.
"""

# ruff: noqa: ARG001 - all losses have the same signature

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from lapsvm.arrays import Float64
from lapsvm.ranking import NDCGLoss, PartialAUCLoss, RankLoss
from lapsvm.ranking.discounts import tabulate
from lapsvm.ranking.losses import NAMED

Tensor = torch.Tensor
Tables = tuple[Tensor, ...]

_tables: "weakref.WeakKeyDictionary[RankLoss, dict[tuple[torch.device, int], Tables]]" = weakref.WeakKeyDictionary()
_harmonic: dict[tuple[torch.device, int], Tables] = {}  # of all losses of AP


class Sizes(NamedTuple):
    """The numbers of positives and of negatives of each entry's ranking, in float64."""

    n_pos: Tensor
    n_neg: Tensor


class ClosedForm(NamedTuple):
    """A loss that has a closed form, and the form's name."""

    name: str
    loss: RankLoss

    def tables(self, n: int, device: torch.device) -> Tables:
        """Return the tables for rankings of up to n samples, from the cache if they are there.

        "ap": the harmonic numbers H(0) .. H(n), and what rounding took from them. "ndcg": D(0) .. D(n), and their sums.
        "partial_auc": the largest false positive rate.
        """
        make = FORMS[self.name].tables
        if make is None:
            return ()
        size = 1 << max(n, 1).bit_length()
        kept = _harmonic if self.name == "ap" else _tables.setdefault(self.loss, {})
        if (device, size) not in kept:
            kept[device, size] = tuple(torch.from_numpy(array).to(device) for array in make(self.loss, size))
        return kept[device, size]


def closed_form(loss: object) -> ClosedForm | None:
    """Return the closed form of a loss. None if it has none, as users' losses."""
    if not isinstance(loss, RankLoss) or loss.name not in FORMS:
        return None
    named = type(NAMED[loss.name])
    is_named = isinstance(loss, named) and type(loss).kernel is getattr(named, "kernel", None)
    return ClosedForm(loss.name, loss) if is_named else None


def _harmonic_numbers(loss: RankLoss, n: int) -> tuple[Float64, Float64]:
    """Return H(0 .. n) in float64, and the rest; differences of the pair are exact to their own rounding."""
    exact = np.cumsum(1 / np.arange(1, n + 1, dtype=np.longdouble))
    rounded = exact.astype(np.float64)
    return np.append(0.0, rounded), np.append(0.0, (exact - rounded).astype(np.float64))


def _discounts(loss: NDCGLoss, n: int) -> tuple[Float64, Float64]:
    """Return D(0 .. n), whose first entry is not used, and the sums of D(1 .. k)."""
    table = tabulate(loss.discount, n)
    return table, np.cumsum(table)


def _largest_rate(loss: PartialAUCLoss, n: int) -> tuple[Float64]:
    """Return the largest false positive rate, a table of one number for every n."""
    return (np.array(loss.max_fpr),)


def _ap_gains(tables: Tables, j: Tensor, r: Tensor, sizes: Sizes) -> Tensor:
    high, low = tables
    last, first = r + j - 2, j - 1
    harmonic = (high[last] - high[first]) + (low[last] - low[first])
    return -0.5 * sizes.n_neg * (harmonic - (r - 1) / (r + j - 1).double())


def _ndcg_gains(tables: Tables, j: Tensor, r: Tensor, sizes: Sizes) -> Tensor:
    discounts, sums = tables
    return (discounts[r + j - 1] - discounts[j]) * (0.5 * sizes.n_pos * sizes.n_neg / sums[sizes.n_pos.long()])


def _auc_gains(tables: Tables, j: Tensor, r: Tensor, sizes: Sizes) -> Tensor:
    return -0.5 * (r - 1).double()


def _mrr_gains(tables: Tables, j: Tensor, r: Tensor, sizes: Sizes) -> Tensor:
    return torch.where(r > 1, -0.5 * sizes.n_pos * sizes.n_neg / (j * (j + 1)).double(), 0.0)


def _top_gains(tables: Tables, j: Tensor, r: Tensor, sizes: Sizes) -> Tensor:
    return torch.where(j == 1, -0.5 * sizes.n_neg * (r - 1), 0.0)


def _budget(tables: Tables, sizes: Sizes) -> Tensor:
    """Return the number of negatives that count, B."""
    return (tables[0] * sizes.n_neg).clamp(min=1)


def _partial_auc_gains(tables: Tables, j: Tensor, r: Tensor, sizes: Sizes) -> Tensor:
    budget = _budget(tables, sizes)
    return -0.5 * sizes.n_neg * (r - 1) * (budget - (j - 1)).clamp(0, 1) / budget


def _ap_parts(tables: Tables, i: Tensor, above: Tensor, sizes: Sizes) -> Tensor:
    return above / (i + above).double() / sizes.n_pos


def _ndcg_parts(tables: Tables, i: Tensor, above: Tensor, sizes: Sizes) -> Tensor:
    discounts, sums = tables
    return (discounts[i] - discounts[i + above]) / sums[sizes.n_pos.long()]


def _auc_parts(tables: Tables, i: Tensor, above: Tensor, sizes: Sizes) -> Tensor:
    return above / sizes.n_neg / sizes.n_pos


def _partial_auc_parts(tables: Tables, i: Tensor, above: Tensor, sizes: Sizes) -> Tensor:
    budget = _budget(tables, sizes)
    return torch.minimum(above.double(), budget) / budget / sizes.n_pos


def _mrr_parts(tables: Tables, i: Tensor, above: Tensor, sizes: Sizes) -> Tensor:
    return torch.where(i == 1, above / (1 + above).double(), 0.0)


def _top_parts(tables: Tables, i: Tensor, above: Tensor, sizes: Sizes) -> Tensor:
    return (above > 0) / sizes.n_pos


class Form(NamedTuple):
    """The closed form of a loss.

    Attributes
    ----------
    gains : callable
        Maps the tables, positions j, ranks r and sizes to P N / 2 times d_j(1) + ... + d_j(r - 1), what rank r adds to
        Delta beside rank 1.
    parts : callable
        Maps the tables, numbers i of positives, numbers of negatives above them, and sizes to what these add to Delta.
    in_rows : bool
        Whether `kernels.py` has the loss, too.
    tables : callable, optional
        Maps a loss and n to its tables for rankings of up to n samples.
    """

    gains: Callable[[Tables, Tensor, Tensor, Sizes], Tensor]
    parts: Callable[[Tables, Tensor, Tensor, Sizes], Tensor]
    in_rows: bool
    tables: Callable[[Any, int], tuple[Float64, ...]] | None = None


FORMS = {
    "ap": Form(_ap_gains, _ap_parts, in_rows=True, tables=_harmonic_numbers),
    "ndcg": Form(_ndcg_gains, _ndcg_parts, in_rows=True, tables=_discounts),
    "auc": Form(_auc_gains, _auc_parts, in_rows=True),
    "mrr": Form(_mrr_gains, _mrr_parts, in_rows=False),
    "pos_at_top": Form(_top_gains, _top_parts, in_rows=True),
    "partial_auc": Form(_partial_auc_gains, _partial_auc_parts, in_rows=False, tables=_largest_rate),
}
"""The losses that are solved on a GPU; the processor solves the others."""
