"""Psi: the weighted sum of the rows whose coefficient is not zero."""

import numpy as np
import pytest
from scipy import sparse

from lapsvm.errors import InputError, NotFiniteError, ShapeError
from lapsvm.ranking import most_violated_ranking, psi


def example(n=3000, d=37):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.3)
    weights = rng.standard_normal(n) * (rng.random(n) < 0.6)
    return X, weights


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int8])
def test_psi_is_the_weighted_sum_of_the_rows(dtype):
    X, weights = example()
    X = (4 * X).astype(dtype)
    expected = weights @ X.astype(np.float64)
    assert psi(X, weights) == pytest.approx(expected, rel=1e-10, abs=1e-10)
    assert psi(np.asfortranarray(X), weights) == pytest.approx(expected, rel=1e-10, abs=1e-10)
    assert psi(X[:, ::-2], weights) == pytest.approx(expected[::-2], rel=1e-10, abs=1e-10)
    if dtype != np.float16:
        for form in (sparse.csr_matrix, sparse.csr_array):
            assert psi(form(X), weights) == pytest.approx(expected, rel=1e-10, abs=1e-10)


def test_rows_with_coefficient_zero_are_not_touched():
    X, weights = example()
    expected = weights @ X
    X[weights == 0] = np.nan
    stored = sparse.csr_array(X)
    assert psi(X, weights) == pytest.approx(expected)
    assert psi(stored, weights) == pytest.approx(expected)
    assert psi(X.astype(np.float16), weights) == pytest.approx(expected, abs=0.1)


def test_the_violation_follows_from_psi():
    rng = np.random.default_rng(1)
    X, labels, w = rng.standard_normal((500, 6)), rng.random(500) < 0.2, rng.standard_normal(6)
    found = most_violated_ranking(X @ w, labels)
    assert found.loss - psi(X, found.coefficients) @ w == pytest.approx(found.violation)


def test_int64_indices_and_empty_shapes():
    stored = sparse.csr_array(np.eye(3))
    stored.indices, stored.indptr = stored.indices.astype(np.int64), stored.indptr.astype(np.int64)
    assert psi(stored, [1.0, 0.0, 2.0]).tolist() == [1, 0, 2]
    assert psi(np.empty((3, 0)), [1.0, 0.0, 2.0]).shape == (0,)
    assert psi(np.empty((0, 4)), []).tolist() == [0, 0, 0, 0]


def test_psi_refuses_bad_input_with_one_sentence():
    with pytest.raises(ShapeError, match=r"X must have 2 dimensions, got shape \(3,\)"):
        psi(np.zeros(3), np.zeros(3))
    with pytest.raises(ShapeError, match="one row per coefficient, got 4 rows and 3 coefficients"):
        psi(np.zeros((4, 2)), np.zeros(3))
    with pytest.raises(InputError, match="dense or in CSR form, got the sparse form 'csc'"):
        psi(sparse.csc_array(np.eye(3)), np.ones(3))
    with pytest.raises(InputError, match="X must hold real numbers, got dtype complex128"):
        psi(np.eye(3) * 1j, np.ones(3))
    with pytest.raises(NotFiniteError, match="coefficients must be finite, got nan at index 1"):
        psi(np.eye(2), [1.0, np.nan])


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [("indices", 3, 99), ("indices", 0, -1), ("indices", 1, 2**31 - 1), ("indptr", 2, 10**6), ("indptr", 1, -5)],
)
def test_a_sparse_matrix_whose_indices_lie_outside_is_refused(name, place, value):
    X = sparse.csr_matrix(np.arange(1.0, 13).reshape(3, 4))
    getattr(X, name)[place] = value  # scipy looks at them when the matrix is made, not later
    with pytest.raises(InputError, match=r"X must be a valid CSR matrix, but an index .* outside of shape \(3, 4\)"):
        psi(X, np.ones(3))
