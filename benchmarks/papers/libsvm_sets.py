"""Binary data sets from a user's folder, in the LIBSVM format or as the UCI's table, with their official split."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.io import loadmat
from sklearn.datasets import load_svmlight_files

from lapsvm.arrays import Array
from lapsvm.errors import DataError
from lapsvm.files import check_regular

TABLES = ("spambase",)
"""Sets that come as a table `<name>.data`: numbers separated by commas, the class (0 or 1) last."""

SPLIT_SUFFIX = "_toppush_official_split.mat"
"""Suffix of the file with the arrays Xtr, ytr, Xte, yte of a set."""


class Samples(NamedTuple):
    """Rows of features, dense or CSR, and their labels, +1 or -1."""

    X: Any
    y: Array


def read_set(root: Path, name: str) -> Samples:
    """Read a set; for one in the LIBSVM format a test file `<name>.t` is read too.

    Raises MissingError if there is no such file, DataError if it cannot be parsed, or does not have two classes.
    """
    if name in TABLES:
        return _read_table(_existing(root / f"{name}.data"))
    paths = [_existing(root / name), *(path for path in [root / f"{name}.t"] if path.is_file())]
    try:
        read = load_svmlight_files([str(path) for path in paths])
    except ValueError as error:
        raise DataError(f"{paths[0]} must be in the LIBSVM format, got {error}.") from error
    return _stacked(paths[0], read[0::2], read[1::2])


def read_official_split(root: Path, name: str) -> tuple[Samples, Samples] | None:
    """Return the official training and test samples of a set; None without a file of them."""
    path = root / f"{name}{SPLIT_SUFFIX}"
    if not path.is_file():
        return None
    try:
        arrays = loadmat(path, variable_names=("Xtr", "ytr", "Xte", "yte"))
    except Exception as error:
        raise DataError(f"{path} must be a readable .mat file, got {error}.") from error
    if set(arrays) < {"Xtr", "ytr", "Xte", "yte"}:
        raise DataError(f"{path} must hold Xtr, ytr, Xte and yte, got {', '.join(sorted(set(arrays)))}.")
    X, y = ([arrays[f"{name}{part}"] for part in ("tr", "te")] for name in "Xy")
    training, test = (Samples(_dense(of), _signs(path, labels.ravel())) for of, labels in zip(X, y, strict=True))
    return training, test


def scaled(training: Any, test: Any) -> tuple[Any, Any]:
    """Return training and test features, dense ones scaled to [0, 1] on the training samples."""
    if not isinstance(training, np.ndarray):
        return training, test
    low, span = training.min(axis=0), np.ptp(training, axis=0)
    span[span == 0] = 1.0
    return (training - low) / span, (test - low) / span


def _existing(path: Path) -> Path:
    check_regular(path, "data file")
    return path


def _read_table(path: Path) -> Samples:
    try:
        table = np.loadtxt(path, delimiter=",", ndmin=2)
    except ValueError as error:
        raise DataError(f"{path} must be a table of numbers separated by commas, got {error}.") from error
    return Samples(table[:, :-1], _signs(path, table[:, -1]))


def _stacked(path: Path, parts: Any, labels: Any) -> Samples:
    """Return the concatenated files of a set, dense if more than half of its entries are not 0."""
    X = sparse.vstack(parts, format="csr")
    # scikit-learn's solvers take indices of 32 bits only
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    dense = X.nnz > 0.5 * X.shape[0] * X.shape[1]
    return Samples(X.toarray() if dense else X, _signs(path, np.concatenate(labels)))


def _signs(path: Path, y: Array) -> Array:
    """Return +1 for the larger class, -1 for the other."""
    if not np.isfinite(y).all():
        raise DataError(f"{path} must have finite labels, got {y[~np.isfinite(y)][0]}.")
    classes = np.unique(y)
    if len(classes) != 2:
        raise DataError(f"{path} must hold two classes, got {len(classes)}.")
    return np.where(y == classes[1], 1, -1)


def _dense(X: Any) -> Any:
    return X if isinstance(X, np.ndarray) else X.toarray()
