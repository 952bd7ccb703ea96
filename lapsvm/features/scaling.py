"""Scales for the parts of concatenated features, so that no part outweighs the others.

The plain recipe's rule: after scaling, the windows' mean norm is the same in every part, and such that a window whose
parts all have their mean norm has norm 1. The trainer keeps the scale in the model.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Array, Float64, as_floats
from lapsvm.bfloat16 import as_float32
from lapsvm.errors import InputError, ShapeError

TARGET_NORM = 1.0
_ROWS = 8192
_CACHED_ROWS = 128  # whose squares stay in the cache


def block_scales(mean_norms: ArrayLike, sizes: Sequence[int]) -> Float64:
    """Return the factor of each feature.

    Parameters
    ----------
    mean_norms : array-like of shape (k,)
        Mean norm of the windows in each part (see `mean_block_norms`).
    sizes : sequence of k ints
        Number of features of each part.

    Returns
    -------
    ndarray of shape (d,), float64
        ``TARGET_NORM / (sqrt(k) * mean_norm)``, the same inside a part; 0 for a part that is zero in every window.

    Raises
    ------
    ShapeError
        If there is not one mean norm per part.
    InputError
        If a mean norm is negative.
    NotFiniteError
        If one is NaN or infinite.
    """
    norms = as_floats("mean norms", mean_norms, ndim=1)
    if len(norms) != len(sizes):
        raise ShapeError(f"there must be one mean norm per block, got {len(norms)} for {len(sizes)} blocks.")
    if (norms < 0).any():
        raise InputError(f"mean norms must not be negative, got {norms.min()}.")
    wanted = TARGET_NORM / np.sqrt(len(sizes))
    factors = np.divide(wanted, norms, out=np.zeros_like(norms), where=norms > 0)
    return np.repeat(factors, _checked_sizes(sizes))


def mean_block_norms(features: Array | Iterable[Array], sizes: Sequence[int]) -> Float64:
    """Return the windows' mean Euclidean norm in each part.

    Parameters
    ----------
    features : ndarray of shape (n, d), or an iterable of such, for instance of shards' features
    sizes : sequence of k ints
        Number of features of each part; they sum to d.

    Returns
    -------
    ndarray of shape (k,), float64
        0 where there are no windows.

    Raises
    ------
    ShapeError
        If the parts do not sum to d.
    """
    norms = BlockNorms(sizes)
    for array in [features] if isinstance(features, np.ndarray) else features:
        norms.add(array)
    return norms.means


class BlockNorms:
    """The mean norms of `mean_block_norms`, accumulated array by array.

    Parameters
    ----------
    sizes : sequence of k ints
        Number of features of each part.

    Attributes
    ----------
    n_windows : int
        How many were added.
    """

    def __init__(self, sizes: Sequence[int]):
        self._sizes = sizes
        self._edges = np.concatenate([[0], np.cumsum(_checked_sizes(sizes))])
        self._totals, self.n_windows = np.zeros(len(sizes)), 0

    def add(self, features: Array) -> None:
        """Add windows (n, d). Raises ShapeError if the parts do not sum to d."""
        if features.ndim != 2 or features.shape[1] != self._edges[-1]:
            wanted, sizes = self._edges[-1], self._sizes
            raise ShapeError(f"features must have shape (n, {wanted}) to have blocks {sizes}, got {features.shape}.")
        sums = np.zeros_like(self._totals)
        for start in range(0, len(features), _ROWS):
            sums += _norm_sums(features[start : start + _ROWS], self._edges)
        self._totals += sums
        self.n_windows += len(features)

    def join(self, other: "BlockNorms") -> None:
        """Add the windows of another instance; merging one per array gives the same bits as `add`."""
        self._totals += other._totals
        self.n_windows += other.n_windows

    @property
    def means(self) -> Float64:
        """Mean norm (k,) of all windows so far."""
        return np.asarray(self._totals / max(self.n_windows, 1))


def _norm_sums(rows: Array, edges: Array) -> Float64:
    """Return the sum of the rows' norms in each part."""
    norms = np.empty((len(rows), len(edges) - 1))
    for start in range(0, len(rows), _CACHED_ROWS):
        squares = np.square(as_float32(rows[start : start + _CACHED_ROWS])).astype(np.float64)
        np.sqrt(np.add.reduceat(squares, edges[:-1], axis=1), out=norms[start : start + _CACHED_ROWS])
    return np.asarray(norms.sum(axis=0))


def _checked_sizes(sizes: Sequence[int]) -> Sequence[int]:
    """Return the parts' sizes, all at least 1."""
    if not len(sizes) or min(sizes) < 1:
        raise InputError(f"blocks must be one or more numbers of at least 1, got {list(sizes)}.")
    return sizes
