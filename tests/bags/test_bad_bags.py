"""What is wrong with bags, and with questions to them, is said in one sentence."""

import re

import numpy as np
import pytest
from scipy import sparse

from lapsvm.bags import Bags, as_bags
from lapsvm.errors import InputError, NotFiniteError, ShapeError

ARRAYS = [np.ones((3, 2)), np.ones((2, 2)), np.ones((4, 2))]


@pytest.mark.parametrize(
    ("threads", "got"), [(0, "0"), (-1, "-1"), (1.5, "1.5"), ("2", "'2'"), (True, "True")], ids=str
)
def test_threads_that_are_none_are_refused(threads, got):
    with pytest.raises(InputError, match=f"^threads must be a whole number of 1 or more, got {got}\\.$"):
        Bags.from_arrays(ARRAYS, threads=threads)


@pytest.mark.parametrize(
    ("features", "offsets", "message"),
    [
        (np.ones((3, 2)), ["a", "b"], "offsets must be whole numbers, got <U1."),
        (np.ones((3, 2)), [0, np.nan], "offsets must be whole numbers, got float64."),
        (np.ones((3, 2)), [0, 1.5, 3], "offsets must be whole numbers, got float64."),
        (np.ones((3, 2)), None, "offsets must be whole numbers, got object."),
        (np.ones((3, 2)), [0, [1]], "offsets must be whole numbers; setting an array element"),
        (np.ones((1, 2)), [False, True], "offsets must be whole numbers, got bool."),
        (np.ones((3, 2)), [[0, 3]], "offsets must have 1 dimension(s), got shape (1, 2)."),
        ([[1, 2], [3]], [0, 2], "features must be numbers; setting an array element"),
        ([["1", "2"]], [0, 1], "features must be numbers, got <U1."),
        (np.ones((3, 2), dtype=complex), [0, 3], "features must be numbers, got complex128."),
        (None, [0, 1], "features must be numbers, got None."),
        (np.array([[1, "a"]], dtype=object), [0, 1], "features must be numbers, got strings among them"),
    ],
)
def test_stores_that_are_none_are_refused(features, offsets, message):
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        Bags(features, offsets)


ONE_BAG = (
    "every bag must be an array of one or more windows with the same number of features, got shape (2,) for bag 0."
)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (5, "bags must be a sequence of arrays, got 5."),
        (None, "bags must be a sequence of arrays, got None."),
        ("abc", "bags must be a sequence of arrays, got 'abc'."),
        ([[[1, 2], [3]]], "bags must be numbers; setting an array element"),
        ([[["a", "b"]]], "bags must be numbers, got <U1."),
        ([[[1, np.nan]]], "features must be finite, got nan in window 0."),
        ([sparse.eye_array(3)], "bags must be dense arrays, got a sparse one; its toarray() is dense."),
        ([[[object()]]], "bags must be numbers; float() argument must be a string or a real number, not 'object'."),
        (
            np.ones((3, 2)),
            ONE_BAG,
        ),
    ],
)
def test_sequences_that_hold_no_bags_are_refused(arrays, message):
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        as_bags(arrays)


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda bags: bags.subset([0.5]), InputError, "bag_indices must be whole numbers, got float64."),
        (lambda bags: bags.subset(["a"]), InputError, "bag_indices must be whole numbers, got <U1."),
        (lambda bags: bags.subset([3]), InputError, "bag_indices must be those of 3 bags; index 3 is out of bounds"),
        (lambda bags: bags.subset(np.ones(2, bool)), InputError, "bag_indices must be those of 3 bags; boolean index"),
        (lambda bags: bags[0.5], InputError, "bag_indices must be whole numbers, got float64."),
        (lambda bags: bags["a"], InputError, "bag_indices must be whole numbers, got <U1."),
        (lambda bags: bags[None], InputError, "bag_indices must be whole numbers, got object."),
        (lambda bags: bags.rows([0], [0.5]), InputError, "index must be whole numbers, got float64."),
        (lambda bags: bags.rows([3], [0]), InputError, "bags must be from 0 to 2, got 3."),
        (lambda bags: bags.rows([-1], [0]), InputError, "bags must be from 0 to 2, got -1."),
        (
            lambda bags: bags.rows([0], [3]),
            InputError,
            "a window's index must lie inside its bag, got 3 for a bag of 3",
        ),
        (lambda bags: bags.rows([0, 1], [0]), ShapeError, "bags and index must have the same length, got 2 and 1."),
        (lambda bags: bags.sum_rows([1.0], [0.5], [0]), InputError, "bags must be whole numbers, got float64."),
        (lambda bags: bags.sum_rows([1.0], [0, 1], [0, 0]), ShapeError, "coefficients and index must have the same"),
        (lambda bags: bags.sum_rows([np.nan], [0], [0]), NotFiniteError, "coefficients must be finite, got nan"),
        (lambda bags: bags.sum_rows(["1"], [0], [0]), InputError, "coefficients must be numbers, got <U1."),
        (lambda bags: bags.sum_rows([0.0], [0], [9]), InputError, "a window's index must lie inside its bag, got 9"),
        (lambda bags: bags.weighted_sum([1.0], [0]), ShapeError, "bags and index must have the same length"),
        (lambda bags: bags.weighted_sum(np.ones(3), np.full(3, np.nan)), InputError, "index must be whole numbers"),
        (lambda bags: bags.score_rows([1, 1], [0], [1.5]), InputError, "index must be whole numbers, got float64."),
        (lambda bags: bags.sum_at([1.0], np.array([-1])), InputError, "addresses must be from 0 to "),
        (lambda bags: bags.score_at([1, 1], np.array([2, 99])), InputError, "addresses must be from 0 to "),
        (lambda bags: bags.means([3]), InputError, "bags must be from 0 to 2, got 3."),
        (lambda bags: bags.means([0.5]), InputError, "bags must be whole numbers, got float64."),
        (lambda bags: bags.best(["1", "2"]), InputError, "weights must be numbers, got <U1."),
        (lambda bags: bags.best(None), InputError, "weights must be numbers, got None."),
        (lambda bags: bags.scaled("a"), InputError, "scale must be numbers, got <U1."),
        (lambda bags: bags.scaled(np.nan), NotFiniteError, "scale must be finite, got nan"),
        (lambda bags: bags.narrowed(["a"] * 3), InputError, "index must be whole numbers, got <U1."),
        (lambda bags: bags.narrowed([[0], [0, 1], 2]), InputError, "index must be whole numbers; setting an array"),
    ],
)
def test_questions_that_are_none_are_refused(ask, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        ask(Bags.from_arrays(ARRAYS))


def test_a_bag_behind_the_last_one_ends_iteration():
    assert len(list(Bags.from_arrays(ARRAYS))) == 3
