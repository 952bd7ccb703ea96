"""The best windows of every bag."""

import numpy as np
import pytest

from lapsvm.bags import Bags, Buffer, top_mask
from lapsvm.errors import InputError, NotFiniteError, ShapeError


@pytest.fixture
def bags():
    """Return bags of 1 to 6 windows, scaled."""
    rng = np.random.default_rng(5)
    sizes = [3, 1, 6, 4]
    return Bags(rng.normal(size=(sum(sizes), 3)).astype(np.float32), np.cumsum([0, *sizes]), [2.0, 1.0, 0.5])


@pytest.mark.parametrize("count", [1, 2, 5, 9])
def test_the_first_windows_are_kept(bags, count):
    kept = bags.kept(count)
    for i in range(bags.n_bags):
        np.testing.assert_array_equal(kept[i], bags[i][:count])


@pytest.mark.parametrize("count", [1, 2, 5, 9])
def test_the_best_scored_windows_are_kept_in_their_order(bags, count):
    w = np.array([1.0, -2.0, 0.5])
    kept = bags.subset([2, 0, 3]).kept(count, w)
    for i, bag in enumerate([2, 0, 3]):
        scores = bags[bag] @ w
        best = sorted(range(len(scores)), key=lambda k: -scores[k])[:count]
        np.testing.assert_array_equal(kept[i], bags[bag][sorted(best)])


def test_a_bags_best_window_stays_its_best(bags):
    w = np.array([0.3, 0.2, -1.0])
    np.testing.assert_array_equal(bags.kept(2, w).best(w).score, bags.best(w).score)


def test_of_equal_windows_the_first_are_kept(bags):
    for i in range(bags.n_bags):
        np.testing.assert_array_equal(bags.kept(2, np.zeros(3))[i], bags[i][:2])


@pytest.mark.parametrize("count", [0, -1, 1.5, "2"])
def test_a_wrong_count_is_refused(bags, count):
    with pytest.raises(InputError, match="count must be a whole number of 1 or more"):
        bags.kept(count)


def test_wrong_weights_are_refused(bags):
    with pytest.raises(ShapeError, match="weights must have 3 rows"):
        bags.kept(2, np.zeros(4))
    with pytest.raises(NotFiniteError, match="weights"):
        bags.kept(2, [0.0, np.nan, 0.0])


def test_bags_keep_as_many_as_each_is_told():
    windows = [np.arange(size, dtype=float)[:, None] for size in (4, 2, 6)]
    bags = Bags.from_arrays(windows)
    mask = top_mask(bags.score_windows([1.0]), bags.offsets, np.array([1, 2, 3]))
    assert mask.tolist() == [False] * 3 + [True] * 3 + [False] * 3 + [True] * 3
    taken = bags.copied(mask)
    assert [taken[i][:, 0].tolist() for i in range(3)] == [[3], [0, 1], [3, 4, 5]]


def test_memory_for_arrays_that_grow_a_little_stays_where_it_is():
    """The system clears new memory, which takes longer than a copy."""
    memory = Buffer()
    first = memory.array((100, 8), np.dtype(np.float32))
    first[:] = 1
    larger = memory.array((125, 8), np.dtype(np.float32))
    assert np.shares_memory(first, larger)
    assert (larger[:100] == 1).all()
    assert np.shares_memory(larger, memory.array((50, 2), np.dtype(np.float64)))
    assert not np.shares_memory(larger, memory.array((126, 8), np.dtype(np.float32)))
