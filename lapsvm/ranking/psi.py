"""Psi of the most violated ranking: a weighted sum of features."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from lapsvm._ext import psi as _kernel
from lapsvm.arrays import Array, Float64, as_array, as_floats
from lapsvm.errors import InputError, ShapeError

_CHUNK = 1024  # rows converted at a time if the kernel does not support their type


def psi(X: Any, coefficients: ArrayLike) -> Float64:
    """Return sum_k coefficients[k] X[k], touching only rows whose coefficient is not 0.

    With the coefficients of :func:`lapsvm.ranking.most_violated_ranking` the sum is Psi(R*) - Psi(R), the cutting
    plane. Late in training almost all coefficients are 0.

    Parameters
    ----------
    X : array-like of shape (n, d), or scipy.sparse matrix or array in CSR form
        Features of any real type. float32 and float64 rows are not copied.
    coefficients : array-like of float, shape (n,)

    Returns
    -------
    ndarray of float64, shape (d,)
        Accumulated in float64. Features are not checked for NaN.

    Raises
    ------
    ShapeError
        If `X` does not have two dimensions, or one row per coefficient.
    InputError
        If `X` is not an array of real numbers, or is sparse but not valid CSR.
    NotFiniteError
        If a coefficient is NaN or infinite.
    """
    weights = as_floats("coefficients", coefficients, ndim=1)
    if sparse.issparse(X):
        return _sparse(X, weights)
    rows = as_array("X", X)
    if rows.ndim != 2:
        raise ShapeError(f"X must have 2 dimensions, got shape {rows.shape}.")
    _check_rows(rows, weights)
    if rows.dtype in (np.float32, np.float64) and rows.strides[1] == rows.itemsize:
        return _kernel.dense(rows, np.ascontiguousarray(weights))
    used = np.flatnonzero(weights)
    total: Float64 = np.zeros(rows.shape[1])
    for start in range(0, len(used), _CHUNK):
        chunk = used[start : start + _CHUNK]
        total += weights[chunk] @ rows[chunk].astype(np.float64)
    return total


def _sparse(X: Any, weights: Float64) -> Float64:
    """Return the weighted sum of the rows of a CSR matrix."""
    if X.format != "csr":
        raise InputError(f"X must be dense or in CSR form, got the sparse form {X.format!r}.")
    _check_rows(X, weights)
    data = X.data if X.data.dtype in (np.float32, np.float64) else X.data.astype(np.float64)
    total = _kernel.csr(data, X.indices, X.indptr, np.ascontiguousarray(weights), X.shape[1])
    if total is None:
        raise InputError(f"X must be a valid CSR matrix, but an index or a row's end is outside of shape {X.shape}.")
    return total


def _check_rows(X: Any, weights: Array) -> None:
    """Raise unless X holds real numbers and has a row per coefficient."""
    if X.dtype.kind not in "biuf":
        raise InputError(f"X must hold real numbers, got dtype {X.dtype}.")
    if X.shape[0] != len(weights):
        raise ShapeError(f"X must have one row per coefficient, got {X.shape[0]} rows and {len(weights)} coefficients.")
