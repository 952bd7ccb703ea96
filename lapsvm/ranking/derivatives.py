"""The derivatives of a user's rank loss, with checks of condition C2 and of Delta >= 0.

Inference is exact if d_{j+1}(i) >= d_j(i) (C2). Two checks detect losses that violate C2. `check_loss` evaluates rows
of derivatives once per loss object and size: all rows if there are few, otherwise a sample. `DerivativeCache` checks
all derivatives that one inference evaluated. If these satisfy C2, the result is exact for a loss with the same
evaluated derivatives. Only `check_loss` with few negatives, or :class:`lapsvm.testing.RankLossLaws`, checks the others.
"""

import math
import weakref
from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np

from lapsvm._ext import inference as _kernel
from lapsvm.arrays import Float64, Index
from lapsvm.errors import InputError

# limits of the complete check; each row costs one call of the user's method, once per object and size
_ROWS, _VALUES = 1 << 14, 1 << 22
# size of the sample above these limits
_SAMPLED_ROWS, _SAMPLED_VALUES = 512, 1 << 20
# limit of P N d_j(i): sums of scores and gains must stay finite
_LARGEST = 1e290
# derivatives are differences of values of Delta, which are of the order of 1
_ROUNDING = 1e-12


class UserLoss(Protocol):
    """The part of `lapsvm.ranking.RankLoss` that the checks use."""

    def derivative(self, j: int, i: Index, n_pos: int, n_neg: int) -> Any:
        """Return d_j(i) for ranks i."""

    def value(self, above: Index, n_neg: int) -> Any:
        """Return Delta."""


class DerivativeCache:
    """Evaluates derivatives for the kernels and stores them for the checks.

    Parameters
    ----------
    loss : UserLoss
    n_pos, n_neg : int
    """

    def __init__(self, loss: UserLoss, n_pos: int, n_neg: int) -> None:
        self._loss, self._n_pos, self._n_neg = loss, n_pos, n_neg
        self._rows: list[Float64] = []
        self._starts: list[tuple[int, int]] = []

    def __call__(self, j: int, first: int, count: int) -> Float64:
        """Return d_j(first), ..., d_j(first + count - 1), float64 of shape (count,)."""
        result: Any = self._loss.derivative(j, np.arange(first, first + count), self._n_pos, self._n_neg)
        if type(result) is not np.ndarray or result.dtype != np.float64 or result.shape != (count,):
            result = self._as_row(result, j, count)
        row: Float64 = result.copy()  # the user may change the array later
        self._rows.append(row)
        self._starts.append((j, first))
        return row

    def check_finite(self) -> Float64:
        """Return all stored derivatives; raise InputError if one is not finite."""
        if not self._rows:
            return np.empty(0)
        values = np.concatenate(self._rows)
        finite = np.abs(values) <= _LARGEST / (self._n_pos * self._n_neg)  # False for NaN
        if not finite.all():
            j = self._starts[int(np.searchsorted(self._ends(), np.argmin(finite), side="right"))][0]
            raise InputError(f"derivative of {self._loss!r} must be finite, got another value at j = {j}.")
        return values

    def check(self) -> None:
        """Raise InputError if a stored derivative is not finite or two of them violate C2."""
        values = self.check_finite()
        if not len(values):
            return
        positions, ranks = np.array(self._starts, dtype=np.intp).T
        starts = np.concatenate([[0], self._ends()]).astype(np.intp)
        slack = _ROUNDING * max(1.0, self._n_pos * float(np.abs(values).max()))
        order = np.argsort(positions, kind="stable")
        row, column = _kernel.first_violation(order, np.ascontiguousarray(ranks), starts, values, self._n_pos, slack)
        if row >= 0:
            self._raise_violation(int(positions[row]), int(ranks[row]) + column, float(self._rows[row][column]))

    def check_sign(self) -> None:
        """Raise InputError if Delta of a ranking must be below 0; the rows are complete, in order, and satisfy C2.

        Of all rankings with the least Delta one has every negative at the same rank, because of C2. For the same
        reason a row that was not sampled has derivatives of at least those of the row before.
        """
        positions = [j for j, _ in self._starts]
        largest = np.diff([*positions, self._n_neg + 1]) @ np.stack(self._rows)
        delta = -np.cumsum(largest[::-1])[::-1]
        i = int(np.argmin(delta))
        if delta[i] < -1e-9 * max(1.0, float(np.abs(largest).sum())):
            raise InputError(
                f"Delta of {self._loss!r} must be at least 0, got {delta[i]:.6g} or less with all negatives "
                f"above {self._n_pos - i} of {self._n_pos} positives."
            )

    def check_value(self) -> None:
        """Raise InputError unless Delta of the best and the worst ranking agree with the sum of all rows."""
        total = float(np.sum(self._rows))
        slack = 1e-9 * max(1.0, float(np.abs(self._rows).sum()))
        for above, expected in ((0, 0.0), (self._n_neg, -total)):
            delta = value(self._loss, np.full(self._n_pos, above, dtype=np.intp), self._n_neg)
            if abs(delta - expected) > slack:
                raise InputError(
                    f"value of {self._loss!r} must be the sum of its derivatives, got {delta:.6g} instead of "
                    f"{expected:.6g} with {above} of {self._n_neg} negatives above each of {self._n_pos} positives."
                )

    def _ends(self) -> Index:
        """Return the index behind each row's last derivative."""
        return np.cumsum([len(row) for row in self._rows])

    def _as_row(self, result: Any, j: int, count: int) -> Float64:
        """Return a user's result, one number or one per rank, as float64 of shape (count,)."""
        row = np.empty(count)
        try:
            array = np.asarray(result)
            if array.dtype.kind not in "biufO":
                raise TypeError
            row[...] = array
        except (TypeError, ValueError, OverflowError):
            raise InputError(
                f"derivative of {self._loss!r} must return one number, or one for each of {count} ranks, "
                f"got {_shown(result)} at j = {j}."
            ) from None
        return row

    def _raise_violation(self, j: int, i: int, lower: float) -> None:
        """Raise InputError for the derivative `lower` at j and i, which is below one at an earlier position."""
        stored = zip(self._starts, self._rows, strict=True)
        earlier = [(row[i - first], k) for (k, first), row in stored if k <= j and 0 <= i - first < len(row)]
        higher, position = max(earlier)
        if position == j:
            raise InputError(
                f"derivative of {self._loss!r} must not change between calls, got {higher:.6g} and {lower:.6g} "
                f"at j = {j}, i = {i}."
            )
        raise InputError(
            f"loss {self._loss!r} violates condition C2, so inference is not exact: its derivative at rank "
            f"i = {i} must not decrease with j, got {higher:.6g} at j = {position} and {lower:.6g} at j = {j}."
        )


def value(loss: UserLoss, above: Index, n_neg: int) -> float:
    """Return Delta from the loss's `value` method.

    Raises
    ------
    InputError
        If it is not a finite number.
    """
    result: Any = loss.value(above.copy(), n_neg)
    try:
        delta = float(result)
    except (TypeError, ValueError, OverflowError):
        delta = math.nan
    if not math.isfinite(delta):
        raise InputError(f"value of {loss!r} must be a finite number, got {_shown(result)}.")
    return delta


def evaluated(loss: UserLoss, n_pos: int, n_neg: int, positions: Iterable[int]) -> DerivativeCache:
    """Return the derivatives of all ranks at the positions."""
    cache = DerivativeCache(loss, n_pos, n_neg)
    for j in positions:
        cache(j, 1, n_pos)
    return cache


def check_loss(loss: UserLoss, n_pos: int, n_neg: int) -> None:
    """Raise InputError if the loss violates C2 or falls below 0 for a ranking's size; runs once per object and size.

    Up to 16,384 negatives and 2^22 derivatives the check is complete; above, it compares a sample of rows.
    """
    if (n_pos, n_neg) in _passed.get(id(loss), ()):
        return
    positions = _sampled_positions(n_pos, n_neg)
    cache = evaluated(loss, n_pos, n_neg, positions)
    cache.check()
    cache.check_sign()
    if len(positions) == n_neg:
        cache.check_value()
    if id(loss) not in _passed:
        weakref.finalize(loss, _passed.pop, id(loss), None).atexit = False
    _passed.setdefault(id(loss), set()).add((n_pos, n_neg))


def _sampled_positions(n_pos: int, n_neg: int) -> list[int]:
    """Return the positions to compare in ascending order: all, or a sample that is densest at the first ones."""
    if n_neg <= _ROWS and n_neg * n_pos <= _VALUES:
        return list(range(1, n_neg + 1))
    count = max(16, min(_SAMPLED_ROWS, _SAMPLED_VALUES // n_pos))
    first = range(1, count // 4 + 1)
    later = np.geomspace(count // 4, n_neg - 1, count // 4).astype(int)
    even = np.linspace(1, n_neg, count // 4).astype(int)
    sampled = sorted({*first, *later.tolist(), *(later + 1).tolist(), *even.tolist()})
    return [position for position in sampled if position <= n_neg]


def _shown(result: object) -> str:
    """Return a short description of a user method's result."""
    shape = getattr(result, "shape", ())
    return f"an array of shape {shape}" if shape else f"{type(result).__name__} {str(result)[:40]!r}"


# the sizes for which each living loss object passed `check_loss`, by its id
_passed: dict[int, set[tuple[int, int]]] = {}
