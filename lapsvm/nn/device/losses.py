"""What inference asks of a rank loss, in closed form: sums of its derivatives, and each positive's part of Delta.

Positions j and ranks r are 1-based. Tables are float64, on the device of the scores. They stay where they are as long
as their loss lives, for a CUDA graph may read them.
"""

# ruff: noqa: ARG001 - all losses have the same signature

import weakref
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from lapsvm.arrays import Float64
from lapsvm.ranking import APLoss, AUCLoss, MRRLoss, NDCGLoss, PosAtTopLoss, RankLoss
from lapsvm.ranking.discounts import tabulate

Tensor = torch.Tensor
Tables = tuple[Tensor, ...]

_KINDS: tuple[type[RankLoss], ...] = (APLoss, NDCGLoss, AUCLoss, MRRLoss, PosAtTopLoss)
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
        """
        if self.name not in ("ap", "ndcg"):
            return ()
        size = 1 << max(n, 1).bit_length()
        kept = _harmonic if self.name == "ap" else _tables.setdefault(self.loss, {})
        if (device, size) not in kept:
            made = _discounts(self.loss, size) if isinstance(self.loss, NDCGLoss) else _harmonic_numbers(size)
            kept[device, size] = tuple(torch.from_numpy(array).to(device) for array in made)
        return kept[device, size]


def closed_form(loss: object) -> ClosedForm | None:
    """Return the closed form of a loss, or None if it has none, as users' losses."""
    for kind in _KINDS:
        if isinstance(loss, kind) and type(loss).kernel is kind.kernel:
            return ClosedForm(kind.name, loss)
    return None


def _harmonic_numbers(n: int) -> tuple[Float64, Float64]:
    """Return H(0 .. n) in float64, and the rest; differences of the pair are exact to their own rounding."""
    exact = np.cumsum(1 / np.arange(1, n + 1, dtype=np.longdouble))
    rounded = exact.astype(np.float64)
    return np.append(0.0, rounded), np.append(0.0, (exact - rounded).astype(np.float64))


def _discounts(loss: NDCGLoss, n: int) -> tuple[Float64, Float64]:
    """Return D(0 .. n), whose first entry is not used, and the sums of D(1 .. k)."""
    table = tabulate(loss.discount, n)
    return table, np.cumsum(table)


def gains(kind: str, tables: Tables, j: Tensor, r: Tensor, sizes: Sizes) -> Tensor:
    """Return P N / 2 times d_j(1) + ... + d_j(r - 1), what rank r adds to Delta beside rank 1."""
    return _GAINS[kind](tables, j, r, sizes)


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


def delta_parts(kind: str, tables: Tables, i: Tensor, above: Tensor, sizes: Sizes) -> Tensor:
    """Return what the i-th best positive, with so many negatives above it, adds to Delta."""
    return _PARTS[kind](tables, i, above, sizes)


def _ap_parts(tables: Tables, i: Tensor, above: Tensor, sizes: Sizes) -> Tensor:
    return above / (i + above).double() / sizes.n_pos


def _ndcg_parts(tables: Tables, i: Tensor, above: Tensor, sizes: Sizes) -> Tensor:
    discounts, sums = tables
    return (discounts[i] - discounts[i + above]) / sums[sizes.n_pos.long()]


def _auc_parts(tables: Tables, i: Tensor, above: Tensor, sizes: Sizes) -> Tensor:
    return above / sizes.n_neg / sizes.n_pos


def _mrr_parts(tables: Tables, i: Tensor, above: Tensor, sizes: Sizes) -> Tensor:
    return torch.where(i == 1, above / (1 + above).double(), 0.0)


def _top_parts(tables: Tables, i: Tensor, above: Tensor, sizes: Sizes) -> Tensor:
    return (above > 0) / sizes.n_pos


_Form = Callable[[Tables, Tensor, Tensor, Sizes], Tensor]
_GAINS: dict[str, _Form] = {
    "ap": _ap_gains, "ndcg": _ndcg_gains, "auc": _auc_gains, "mrr": _mrr_gains, "pos_at_top": _top_gains
}  # fmt: skip
_PARTS: dict[str, _Form] = {
    "ap": _ap_parts, "ndcg": _ndcg_parts, "auc": _auc_parts, "mrr": _mrr_parts, "pos_at_top": _top_parts
}  # fmt: skip
