"""Windows that float32 sums cannot tell apart: the best one is that of the float64 scores."""

from unittest import mock

import numpy as np
import pytest

from lapsvm._ext import scores as kernel
from lapsvm.bags import Bags, scoring
from lapsvm.bfloat16 import BFLOAT16, narrowed, type_name, widened
from lapsvm.errors import NotFiniteError

from .windows import write_run

TYPES = (np.float16, BFLOAT16, np.float32, np.float64)
LEVELS = [level for level in scoring.LEVELS.values() if level <= kernel.level()]
typed = pytest.mark.parametrize("dtype", TYPES, ids=type_name)


def near_ties(dtype, seed=0, n_bags=25, dim=300):
    """Return windows that differ in a few numbers by their last bits, with other windows and exact copies between."""
    rng = np.random.default_rng(seed)
    arrays = []
    for _ in range(n_bags):
        own = np.tile(rng.normal(size=dim), (rng.integers(2, 40), 1))
        own *= (
            1 + 1e-7 * rng.normal(size=own.shape) if dtype is not np.float64 else 1 + 1e-15 * rng.normal(size=own.shape)
        )
        places = rng.integers(0, dim, len(own))
        own[np.arange(len(own)), places] *= 1.02  # of halves, the last bits of one number
        own[rng.random(len(own)) < 0.2] = 0.5 * rng.normal(size=dim)
        own[rng.random(len(own)) < 0.2] = own[0]
        arrays.append(narrowed(own, dtype))
    return arrays


def first_best(bags, w):
    """Return the first window of the highest float64 score of each bag."""
    return np.array([own.argmax() for own in np.split(bags.score_windows(w), bags.offsets[1:-1])])


def weights_between(arrays, k, seed=1):
    """Return weights (d, k) at which the first windows of a bag score much alike."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(arrays[0].shape[1], k)) * np.where(rng.random((arrays[0].shape[1], k)) < 0.3, 1e-5, 1.0)


@typed
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("seed", range(4))
def test_the_best_window_is_that_of_the_float64_scores(dtype, level, seed, monkeypatch):
    monkeypatch.setattr(scoring, "LEVEL", level)
    arrays = near_ties(dtype, seed)
    bags, weights = Bags.from_arrays(arrays), weights_between(arrays, 9, seed)
    found = bags.best(weights)
    for column in range(9):
        expected = first_best(bags, weights[:, column])
        np.testing.assert_array_equal(found.index[:, column], expected)
        np.testing.assert_array_equal(found.score[:, column], bags.score_rows(weights[:, column], range(25), expected))
        np.testing.assert_array_equal(bags.best(weights[:, column]).index, expected)


@typed
def test_it_stays_so_where_windows_lie_in_files_or_do_not_compete(dtype, tmp_path):
    arrays = near_ties(dtype)
    if dtype is not np.float64:
        bags = Bags.open(write_run(tmp_path, arrays, dtype, 4), "trainval", memory=0)
        for _ in range(2):  # the second pass knows the windows' norms
            np.testing.assert_array_equal(
                bags.best(weights_between(arrays, 1)[:, 0]).index, first_best(bags, weights_between(arrays, 1)[:, 0])
            )
    bags = Bags.from_arrays(arrays)
    w, mask = weights_between(arrays, 1)[:, 0], np.random.default_rng(2).random(bags.n_windows) < 0.5
    mask[bags.offsets[:-1]] = False
    left, chosen = bags.excluding(mask), bags.subset([7, 3, 7, 20])
    np.testing.assert_array_equal(left.best(w).index, first_best(left, w))
    np.testing.assert_array_equal(chosen.best(w).index, first_best(chosen, w))


def test_more_near_ties_than_are_kept_are_scored_again_as_a_whole():
    rng = np.random.default_rng(0)
    base = rng.normal(size=200)
    own = (base * (1 + 2e-8 * rng.normal(size=(3000, 200)))).astype(np.float32)
    bags, w = Bags(own, [0, 1500, 3000]), rng.normal(size=200)
    with mock.patch.object(scoring, "_rescore_bags", wraps=scoring._rescore_bags) as whole:
        np.testing.assert_array_equal(bags.best(w).index, first_best(bags, w))
    assert whole.called


def test_many_near_ties_beyond_the_room_of_a_block_lose_none():
    rng = np.random.default_rng(0)
    base = rng.normal(size=40)
    own = (base * (1 + 3e-8 * rng.normal(size=(4000, 40)))).astype(np.float32)
    bags, weights = Bags(own, np.arange(0, 4001, 4)), rng.normal(size=(40, 3))
    for column in range(3):
        np.testing.assert_array_equal(bags.best(weights).index[:, column], first_best(bags, weights[:, column]))


def test_copies_of_a_window_cost_nothing():
    own = np.repeat(np.random.default_rng(0).normal(size=(4, 30)).astype(np.float16), 50, axis=0)
    bags, w = Bags(own, [0, 200]), np.random.default_rng(1).normal(size=30)
    with (
        mock.patch.object(scoring, "_resolve_ties") as near,
        mock.patch.object(scoring, "_rescore_bags") as whole,
    ):
        found = bags.best(w).index
    np.testing.assert_array_equal(found, first_best(bags, w))
    assert not near.called
    assert not whole.called


@typed
def test_the_margin_bounds_what_float32_sums_are_off(dtype):
    """Against sums without rounding: math.fsum of exact products."""
    from math import fsum

    rng = np.random.default_rng(3)
    wide = np.float64 if dtype is np.float64 else np.float32
    for dim in (1, 16, 300, 4000):
        own = narrowed(rng.normal(size=(20, dim)) * 10.0 ** rng.integers(-3, 3, dim), dtype)
        w = rng.normal(size=dim)
        question = scoring.PackedWeights.of(w[:, None], dtype)
        exact = widened(own).astype(np.float64)
        longest = np.linalg.norm(exact, axis=1).max()
        lanes = [
            float(sum((row.astype(wide) * w.astype(wide))[lane::16].sum(dtype=wide) for lane in range(16)))
            for row in exact
        ]
        off = [abs(one - fsum(row * w)) for one, row in zip(lanes, exact, strict=True)]
        assert 2 * max(off) <= question.margins(float(longest))[0]


@pytest.mark.parametrize("dtype", [np.float16, np.float32], ids=type_name)
def test_weights_beyond_float32_choose_by_float64(dtype):
    arrays = [np.array([[0.0, 1], [0, 3], [0, 2]], dtype=dtype), np.array([[1.0, 1], [2, 2]], dtype=dtype)]
    bags = Bags.from_arrays(arrays)
    np.testing.assert_array_equal(bags.best([1e200, 1.0]).index, [1, 1])
    np.testing.assert_array_equal(bags.best([-1e200, 1.0]).index, [1, 0])
    kept = bags.excluding(np.array([False, True, False, True, False]))
    np.testing.assert_array_equal(kept.best([1e200, 1.0]).index, [2, 1])
    np.testing.assert_array_equal(kept.best([[1e200, -1e200], [1.0, 1.0]]).index, [[2, 2], [1, 1]])


def test_scores_that_overflow_even_float64_are_refused():
    arrays = [np.array([[1e200, 1.0], [-1e200, 1.0]]), np.array([[1.0, 1.0], [2.0, 1.0]])]
    bags = Bags.from_arrays(arrays)
    with pytest.raises(NotFiniteError, match=r"^scores of windows must be finite, got -?inf"):
        bags.excluding(np.array([False, True, True, False])).best([-1e200, 1.0])
    assert bags.subset([1]).best([-1e200, 1.0]).index[0] == 0


def test_windows_that_do_not_compete_never_win_by_scores_that_are_no_numbers():
    arrays = [np.array([[3e38, 3e38], [1.0, 1.0]], dtype=np.float32)]
    bags = Bags.from_arrays(arrays).excluding(np.array([True, False]))
    assert bags.best([1e38, -1e38]).index[0] == 1


@pytest.mark.parametrize("count", [1, 2, 3, 5, 50])
def test_parts_have_the_windows_that_compete_whatever_lies_between_them(count):
    rng = np.random.default_rng(count)
    arrays = [rng.normal(size=(rng.integers(1, 20), 2)) for _ in range(30)]
    masks = [rng.random(len(array)) < 0.6 for array in arrays]
    for mask in masks:
        mask[rng.integers(len(mask))] = False
    all_windows = Bags.from_arrays(arrays).excluding(np.concatenate(masks)).subdivided(count)
    own = Bags.from_arrays([array[~mask] for array, mask in zip(arrays, masks, strict=True)]).subdivided(count)
    np.testing.assert_array_equal(all_windows.n_competing, own.n_competing)
    weights = rng.normal(size=(2, 3))
    np.testing.assert_array_equal(all_windows.best(weights).score, own.best(weights).score)
