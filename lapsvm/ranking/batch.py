"""Many rankings at once: several queries, or several classes over the same samples."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Float64, Index, as_array, check_count
from lapsvm.errors import InputError, ShapeError
from lapsvm.ranking.inference import ViolatedRanking, most_violated_ranking
from lapsvm.ranking.losses import RankLoss, ZeroOneLoss


@dataclass(frozen=True, slots=True)
class ViolatedRankings:
    """The most violated ranking of each row of scores.

    Attributes
    ----------
    ranks : tuple of k ndarrays of int, shapes (n_neg,)
        Interleaving ranks of each row's negatives; their number may differ between rows.
    loss, violation : ndarray of float64, shape (k,)
    coefficients : ndarray of float64, shape (k, n)
    """

    ranks: tuple[Index, ...]
    loss: Float64
    violation: Float64
    coefficients: Float64


def most_violated_rankings(
    scores: ArrayLike,
    labels: ArrayLike,
    loss: str | RankLoss | ZeroOneLoss = "ap",
    method: str = "auto",
    n_threads: int = 1,
) -> ViolatedRankings:
    """Return the most violated ranking of every row; equal to one call per row.

    Parameters
    ----------
    scores : array-like of float, shape (k, n)
    labels : array-like of bool, int or float, shape (n,) or (k, n)
        Labels of all rows, or one row of labels per row.
    loss, method
        As in :func:`most_violated_ranking`.
    n_threads : int, default=1
        Rows are independent, so the number of threads changes the time only.

    Returns
    -------
    ViolatedRankings

    Raises
    ------
    ShapeError
        If `scores` does not have two dimensions or `labels` does not fit it.
    InputError
        If `n_threads` is no whole number of 1 or more. Errors of :func:`most_violated_ranking` are raised with the
        row's number.
    """
    rows = as_array("scores", scores)
    if rows.ndim != 2:
        raise ShapeError(f"scores must have 2 dimensions, got shape {rows.shape}.")
    targets = as_array("labels", labels)
    if targets.shape not in (rows.shape, rows.shape[1:]):
        raise ShapeError(f"labels must have shape {rows.shape[1:]} or {rows.shape} like scores, got {targets.shape}.")
    n_threads = min(check_count("n_threads", n_threads), max(len(rows), 1))
    targets = np.broadcast_to(targets, rows.shape)

    def solve(k: int) -> ViolatedRanking:
        try:
            return most_violated_ranking(rows[k], targets[k], loss, method)
        except InputError as error:
            raise type(error)(f"row {k}: {error}") from None

    if n_threads == 1:
        rankings = [solve(k) for k in range(len(rows))]
    else:
        with ThreadPoolExecutor(n_threads) as threads:
            rankings = list(threads.map(solve, range(len(rows))))
    return ViolatedRankings(
        tuple(ranking.ranks for ranking in rankings),
        np.array([ranking.loss for ranking in rankings], dtype=np.float64),
        np.array([ranking.violation for ranking in rankings], dtype=np.float64),
        np.array([ranking.coefficients for ranking in rankings], dtype=np.float64).reshape(rows.shape),
    )
