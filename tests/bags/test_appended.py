"""More windows at the end of some bags: the laws of bags, and what the views keep."""

import numpy as np
import pytest

from lapsvm.bags import Bags
from lapsvm.errors import InputError, ShapeError
from lapsvm.testing.bags import BagsLaws

W = np.array([1.0, -2.0, 0.5])


class TestAppendedBags(BagsLaws):
    """Bags whose last windows came later: every second bag, and those of one window not."""

    def make(self, arrays):
        late = {bag: array[-2:] for bag, array in enumerate(arrays) if bag % 2 == 1 and len(array) > 2}
        assert late
        first = [array[:-2] if bag in late else array for bag, array in enumerate(arrays)]
        return Bags.from_arrays(first).appended(late)


@pytest.fixture
def bags():
    rng = np.random.default_rng(5)
    return Bags(rng.normal(size=(14, 3)).astype(np.float32), [0, 3, 4, 10, 14], [2.0, 1.0, 0.5])


def test_windows_are_appended_as_stored_in_the_bags_type(bags):
    grown = bags.appended({2: np.ones((2, 3))})
    assert grown.dtype == np.float32
    np.testing.assert_array_equal(grown[2], np.vstack([bags[2], [[2.0, 1.0, 0.5]] * 2]))
    np.testing.assert_array_equal(grown[3], bags[3])
    np.testing.assert_array_equal(np.diff(bags.offsets), [3, 1, 6, 4])  # as they were


def test_excluded_windows_stay_excluded_and_new_ones_compete(bags):
    mask = np.zeros(14, dtype=bool)
    mask[[0, 5, 13]] = True
    scores = bags.excluding(mask).appended({0: np.zeros((1, 3)), 3: np.zeros((2, 3))}).score_windows(W)
    assert np.flatnonzero(np.isinf(scores)).tolist() == [0, 6, 14]
    assert scores[[3, 15, 16]].tolist() == [0, 0, 0]


def test_nothing_to_append_changes_nothing(bags):
    np.testing.assert_array_equal(bags.appended({}).score_windows(W), bags.score_windows(W))


def test_wrong_windows_and_bags_are_refused(bags):
    with pytest.raises(ShapeError, match=r"windows of bag 1 must have shape \(m, 3\), got \(2, 4\)"):
        bags.appended({1: np.zeros((2, 4))})
    with pytest.raises(InputError, match="bags must be from 0 to 3, got 4"):
        bags.appended({4: np.zeros((1, 3))})
