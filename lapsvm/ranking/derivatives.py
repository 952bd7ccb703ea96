"""The derivatives of a user's rank loss: asked for once, checked, and held to condition C2.

Inference is exact if d_{j+1}(i) >= d_j(i) (C2). Two checks look for a loss that breaks it. `check_loss` asks for whole
rows of derivatives, once for each loss object and size: all of them where there are few, else a sample.
`DerivativeCache` compares all derivatives that an inference asked for. Where these satisfy C2 the answer is the exact
one of a loss that agrees with the user's in every derivative asked for; that the others satisfy it too, only
`check_loss` on few negatives, or :class:`lapsvm.testing.RankLossLaws`, can say.
"""

import math
import weakref
from typing import Any, Protocol

import numpy as np

from lapsvm._ext import inference as _kernel
from lapsvm.arrays import Float64, Index
from lapsvm.errors import InputError

# rows, and derivatives, up to which all are compared; a row costs a call of the user's method, once per object and size
_ROWS, _VALUES = 1 << 14, 1 << 22
# rows, and derivatives, of the sample that is compared otherwise
_SAMPLED_ROWS, _SAMPLED_VALUES = 512, 1 << 20
# P N d_j(i) beyond it is as good as infinite: sums of scores and gains must stay finite
_LARGEST = 1e290
# Delta is of the order of 1, and derivatives are often differences of such numbers
_ROUNDING = 1e-12


class UserLoss(Protocol):
    """What the checks need of a `lapsvm.ranking.RankLoss`."""

    @property
    def identity(self) -> object:
        """The object that defines the loss."""

    def derivative(self, j: int, i: Index, n_pos: int, n_neg: int) -> Any:
        """Return d_j(i) for ranks i."""

    def value(self, above: Index, n_neg: int) -> Any:
        """Return Delta."""


class DerivativeCache:
    """Answers the kernels' questions for derivatives and keeps the answers.

    Parameters
    ----------
    loss : UserLoss
    n_pos, n_neg : int
    """

    def __init__(self, loss: UserLoss, n_pos: int, n_neg: int) -> None:
        self._loss, self._n_pos, self._n_neg = loss, n_pos, n_neg
        self._rows: list[Float64] = []
        self._asked: list[tuple[int, int]] = []

    def __call__(self, j: int, first: int, count: int) -> Float64:
        """Return d_j(i) for `count` ranks from `first` on, float64 of shape (count,)."""
        answer: Any = self._loss.derivative(j, np.arange(first, first + count), self._n_pos, self._n_neg)
        if type(answer) is not np.ndarray or answer.dtype != np.float64 or answer.shape != (count,):
            answer = self._numbers(answer, j, count)
        row: Float64 = answer.copy()  # the user's array may change
        self._rows.append(row)
        self._asked.append((j, first))
        return row

    def check(self) -> None:
        """Raise InputError if one of the derivatives asked for is not finite, or two of them break C2."""
        if not self._rows:
            return
        values = np.concatenate(self._rows)
        starts = np.cumsum([0, *map(len, self._rows)]).astype(np.intp)
        positions, ranks = np.array(self._asked, dtype=np.intp).T
        largest = float(np.abs(values).max())
        limit = _LARGEST / (self._n_pos * self._n_neg)
        if not largest <= limit:  # NaN is not either
            row = int(np.searchsorted(starts, np.argmin(np.abs(values) <= limit), side="right")) - 1
            raise InputError(f"derivative of {self._loss!r} must be finite, got another value at j = {positions[row]}.")
        slack = _ROUNDING * max(1.0, self._n_pos * largest)
        order = np.argsort(positions, kind="stable")
        row, place = _kernel.first_fall(order, np.ascontiguousarray(ranks), starts, values, self._n_pos, slack)
        if row >= 0:
            self._refuse(int(positions[row]), int(ranks[row]) + place, float(self._rows[row][place]))

    def check_value(self) -> None:
        """Raise InputError unless Delta of the best and the worst ranking are what all rows, if whole, sum to."""
        total = float(np.sum(self._rows))
        slack = 1e-9 * max(1.0, float(np.abs(self._rows).sum()))
        for above, expected in ((0, 0.0), (self._n_neg, -total)):
            delta = value(self._loss, np.full(self._n_pos, above, dtype=np.intp), self._n_neg)
            if abs(delta - expected) > slack:
                raise InputError(
                    f"value of {self._loss!r} must be the sum of its derivatives, got {delta:.6g} instead of "
                    f"{expected:.6g} with {above} of {self._n_neg} negatives above each of {self._n_pos} positives."
                )

    def _numbers(self, answer: Any, j: int, count: int) -> Float64:
        """Return as float64 what is one number or one per rank."""
        row = np.empty(count)
        try:
            array = np.asarray(answer)
            if array.dtype.kind not in "biufO":
                raise TypeError
            row[...] = array
        except (TypeError, ValueError, OverflowError):
            raise InputError(
                f"derivative of {self._loss!r} must return one number, or one for each of {count} ranks, "
                f"got {_shown(answer)} at j = {j}."
            ) from None
        return row

    def _refuse(self, j: int, i: int, fallen: float) -> None:
        """Raise InputError for the derivative `fallen` at j and i, which one at an earlier position exceeds."""
        asked = zip(self._asked, self._rows, strict=True)
        earlier = [(row[i - first], k) for (k, first), row in asked if k <= j and 0 <= i - first < len(row)]
        higher, before = max(earlier)
        if before == j:
            raise InputError(
                f"derivative of {self._loss!r} must not change between calls, got {higher:.6g} and {fallen:.6g} "
                f"at j = {j}, i = {i}."
            )
        raise InputError(
            f"loss {self._loss!r} breaks condition C2, so inference is not exact for it: its derivative at rank "
            f"i = {i} must not fall as j grows, got {higher:.6g} at j = {before} and {fallen:.6g} at j = {j}."
        )


def value(loss: UserLoss, above: Index, n_neg: int) -> float:
    """Return Delta as the loss gives it.

    Raises
    ------
    InputError
        If that is not a finite number.
    """
    answer: Any = loss.value(above.copy(), n_neg)
    try:
        delta = float(answer)
    except (TypeError, ValueError, OverflowError):
        delta = math.nan
    if not math.isfinite(delta):
        raise InputError(f"value of {loss!r} must be a finite number, got {_shown(answer)}.")
    return delta


def check_loss(loss: UserLoss, n_pos: int, n_neg: int) -> None:
    """Raise InputError if the loss breaks C2 for so many positives and negatives; done once per object and size.

    Up to 16,384 negatives and 2^22 derivatives the check is a proof, beyond that it compares a sample of rows.
    """
    if _passed.holds(loss.identity, (n_pos, n_neg)):
        return
    asked, positions = DerivativeCache(loss, n_pos, n_neg), _sampled_positions(n_pos, n_neg)
    for j in positions:
        asked(j, 1, n_pos)
    asked.check()
    if len(positions) == n_neg:
        asked.check_value()
    _passed.add(loss.identity, (n_pos, n_neg))


def _sampled_positions(n_pos: int, n_neg: int) -> list[int]:
    """Return the positions whose derivatives are compared, ascending: all, or the first ones and ever fewer later."""
    if n_neg <= _ROWS and n_neg * n_pos <= _VALUES:
        return list(range(1, n_neg + 1))
    count = max(16, min(_SAMPLED_ROWS, _SAMPLED_VALUES // n_pos))
    first = range(1, count // 4 + 1)
    later = np.geomspace(count // 4, n_neg - 1, count // 4).astype(int)
    even = np.linspace(1, n_neg, count // 4).astype(int)
    sampled = sorted({*first, *later.tolist(), *(later + 1).tolist(), *even.tolist()})
    return [position for position in sampled if position <= n_neg]


def _shown(answer: object) -> str:
    """Return what a user's method gave, in few words."""
    shape = getattr(answer, "shape", ())
    return f"an array of shape {shape}" if shape else f"{type(answer).__name__} {str(answer)[:40]!r}"


class _Passed:
    """Remembers, as long as an object lives, for which sizes it passed `check_loss`."""

    def __init__(self) -> None:
        self._sizes: dict[int, set[tuple[int, int]]] = {}

    def holds(self, loss: object, size: tuple[int, int]) -> bool:
        """Tell whether it passed."""
        return size in self._sizes.get(id(loss), ())

    def add(self, loss: object, size: tuple[int, int]) -> None:
        """Remember that it passed; one that takes no weak reference is checked again each time."""
        if id(loss) not in self._sizes:
            try:
                weakref.finalize(loss, self._sizes.pop, id(loss), None).atexit = False
            except TypeError:
                return
        self._sizes.setdefault(id(loss), set()).add(size)


_passed = _Passed()
