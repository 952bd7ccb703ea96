"""Many rankings in one batch of scores, without torch: which samples belong to which, each solved by itself."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Array, Float64, Index, check_binary, is_binary
from lapsvm.errors import InputError, NotFiniteError, OneClassError
from lapsvm.nn.shapes import check_shapes
from lapsvm.ranking.inference import check_usable

Flags = NDArray[np.bool_]
Labels = Flags | Float64
Solver = Callable[[Float64, Labels], tuple[float, Float64]]

# samples above which the rankings of a batch are worth a thread each
_SAMPLES_FOR_THREADS = 1 << 16


@dataclass(frozen=True, slots=True)
class Batch:
    """The samples of a batch, one row per column of the scores.

    Attributes
    ----------
    scores : (K, B) float64
    labels : (K, B) bool, or float64
        Which samples are positive; gains where they are graded.
    counted : (K, B) bool, or None if all samples count
    groups : list of (m,) int, or None
        The samples of each group, for all columns; None is one group of all samples.
    """

    scores: Float64
    labels: Labels
    counted: Flags | None
    groups: list[Index] | None

    @property
    def shape(self) -> tuple[int, int]:
        """Return the numbers of groups and columns: one ranking each."""
        return 1 if self.groups is None else len(self.groups), len(self.scores)


class Solved(NamedTuple):
    """What a solver found for every ranking of a batch.

    `values` (G, K) are 0 where `valid` (G, K) is False: rankings whose samples are all alike. Each value
    changes with the scores (K, B) as -`coefficients` (K, B).
    """

    values: Float64
    valid: Flags
    coefficients: Float64


class Ranking(NamedTuple):
    """One ranking of a batch: its group, its column, and its samples (None: all)."""

    group: int
    column: int
    samples: Index | None


def make_batch(
    scores: Array,
    labels: Array,
    mask: Array | None = None,
    groups: Array | None = None,
    *,
    ignore_index: int | None = None,
    n_groups: int = -1,
    graded: bool = False,
) -> Batch:
    """Return the batch of the arrays of a loss's call, checked.

    Parameters
    ----------
    scores : (n,) or (B, K) float64
    labels : as scores; or (B,) int, the class of each sample
    mask : bool, as scores or (B,), optional
    groups : (B,) int, optional
        Any whole numbers; with `n_groups` they are 0 .. n_groups - 1, and their order is that of the numbers.
    ignore_index
        As in `RankHingeLoss`.
    graded : bool
        Whether labels may be gains, any numbers of at least 0.

    Raises
    ------
    ShapeError, InputError, NotFiniteError
        If the arrays do not fit.
    """
    check_shapes(scores, labels, mask, groups)
    counted = _counted(scores.shape, labels, mask, ignore_index)
    targets = _targets(scores.shape, labels, counted, graded)
    members = None if groups is None else _members(groups, n_groups)
    return Batch(_rows(scores), targets, counted, members)


def solve_rankings(batch: Batch, solve: Solver, n_threads: int = 1, raise_on_empty: bool = False) -> Solved:
    """Return the solver's values and coefficients for each ranking that has a positive and a negative.

    Raises
    ------
    OneClassError
        If `raise_on_empty` and a ranking has no positive or no negative.
    NotFiniteError
        If a score that counts is not finite.
    """
    solved = Solved(np.zeros(batch.shape), np.zeros(batch.shape, dtype=bool), np.zeros(batch.scores.shape))
    rankings = list(_rankings(batch))

    def run(ranking: Ranking) -> None:
        samples = slice(None) if ranking.samples is None else ranking.samples
        scores, labels = batch.scores[ranking.column][samples], batch.labels[ranking.column][samples]
        try:
            if not len(labels) or labels.min() == labels.max():
                if raise_on_empty:
                    raise OneClassError(
                        f"ranking{_place(batch, ranking)} must hold at least one positive and one negative, "
                        f"got {np.count_nonzero(labels)} positive(s) among {len(labels)} sample(s)."
                    )
                check_usable(scores)
                return
            value, solution = solve(scores, labels)
        except NotFiniteError as error:
            message = str(error).replace("scores", f"scores{_place(batch, ranking)}", 1)  # indices are of the ranking
            raise NotFiniteError(message) from None
        solved.values[ranking.group, ranking.column] = value
        solved.valid[ranking.group, ranking.column] = True
        solved.coefficients[ranking.column][samples] = solution

    if n_threads > 1 and len(rankings) > 1 and batch.scores.size >= _SAMPLES_FOR_THREADS:
        with ThreadPoolExecutor(min(n_threads, len(rankings))) as threads:
            list(threads.map(run, rankings))
    else:
        for ranking in rankings:
            run(ranking)
    return solved


def one_ranking(scores: Array, labels: Array) -> Flags | None:
    """Return which samples are positive if there is one ranking that can be solved as it is; None if not."""
    if scores.ndim != 1 or labels.shape != scores.shape:
        return None
    positive = labels if labels.dtype == np.bool_ else labels > 0
    if not 0 < np.count_nonzero(positive) < len(positive) or not is_binary(labels):
        return None
    return positive


def _rankings(batch: Batch) -> Iterator[Ranking]:
    """Yield every ranking of the batch."""
    for group, members in enumerate([None] if batch.groups is None else batch.groups):
        for column in range(len(batch.scores)):
            samples = members
            if batch.counted is not None:
                inside = batch.counted[column]
                samples = inside.nonzero()[0] if members is None else members[inside[members]]
            yield Ranking(group, column, samples)


def _rows(array: Array) -> Array:
    """Return one row per column, as a view."""
    return array[None] if array.ndim == 1 else array.T


def _counted(shape: tuple[int, ...], labels: Array, mask: Array | None, ignore_index: int | None) -> Flags | None:
    """Return which samples count (K, B), or None for all of them."""
    kept = None if ignore_index is None else labels != ignore_index
    parts = [np.broadcast_to(_over_columns(flags, shape), shape) for flags in (mask, kept) if flags is not None]
    if not parts:
        return None
    return _rows(np.logical_and(*parts) if len(parts) == 2 else np.ascontiguousarray(parts[0]))


def _over_columns(array: Array, shape: tuple[int, ...]) -> Array:
    """Return one value per sample as a column, so that it counts for every column of the scores."""
    return array[:, None] if array.ndim < len(shape) else array


def _targets(shape: tuple[int, ...], labels: Array, counted: Flags | None, graded: bool) -> Labels:
    """Return which samples are positive (K, B), or their gains."""
    if labels.shape == shape:
        rows = _rows(labels)
        if _check_labels(rows, counted, graded):
            return np.ascontiguousarray(rows if counted is None else np.where(counted, rows, 0), dtype=np.float64)
        return np.ascontiguousarray(rows if rows.dtype == np.bool_ else rows > 0)
    outside = (labels < 0) | (labels >= shape[1])
    if counted is not None:
        outside &= counted.any(axis=0)
    if outside.any():
        raise InputError(f"labels must be class indices 0 to {shape[1] - 1}, got {labels[outside][0]}.")
    return np.asarray(labels == np.arange(shape[1])[:, None])


def _check_labels(rows: Array, counted: Flags | None, graded: bool) -> bool:
    """Return whether the labels that count are gains. NotFiniteError if one is NaN; InputError if they are neither."""
    labels = rows if counted is None or is_binary(rows) else rows[counted]
    missing = np.count_nonzero(np.isnan(labels))
    if missing:
        raise NotFiniteError(f"labels must not be NaN, got NaN for {missing} sample(s) that count.")
    if graded and not is_binary(labels):
        wrong = labels[(labels < 0) | np.isinf(labels)]
        if len(wrong):
            raise InputError(f"graded labels must be finite and 0 or more, got {wrong[0]:g}.")
        return True
    check_binary("labels", labels)
    return False


def _members(groups: Array, n_groups: int) -> list[Index]:
    """Return the samples of each group in input order, the group with the least number first."""
    if n_groups < 0:
        numbers, groups = np.unique(groups, return_inverse=True)
        n_groups = len(numbers)
    order = np.argsort(groups, kind="stable")
    return np.split(order, np.searchsorted(groups[order], np.arange(1, n_groups))) if n_groups else []


def _place(batch: Batch, ranking: Ranking) -> str:
    """Return which ranking it is, in words."""
    column = f" of column {ranking.column}" if batch.shape[1] > 1 else ""
    return column + (f" of group {ranking.group}" if batch.shape[0] > 1 else "")
