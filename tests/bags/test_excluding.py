"""Windows that do not compete."""

import numpy as np
import pytest

from lapsvm.bags import Bags
from lapsvm.errors import InputError, ShapeError

SIZES = (3, 1, 700, 40, 5)
DIM = 6


@pytest.fixture(params=[np.float16, np.float32, np.float64])
def arrays(request):
    rng = np.random.default_rng(0)
    return [rng.integers(-3, 4, (size, DIM)).astype(request.param) for size in SIZES]


def some(seed=1, share=0.7):
    """A mask that leaves window 0 of every bag."""
    mask = np.random.default_rng(seed).random(sum(SIZES)) < share
    mask[np.cumsum((0, *SIZES[:-1]))] = False
    return mask


def weights(k=4):
    return np.random.default_rng(2).integers(-3, 4, (DIM, k)).astype(float)


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_best_are_the_best_of_those_left(arrays, k, threads):
    bags, mask = Bags.from_arrays(arrays, threads=threads), some()
    found = bags.excluding(mask).best(weights(k))
    for i, own in enumerate(np.split(mask, np.cumsum(SIZES)[:-1])):
        scores = np.where(own[:, None], -np.inf, arrays[i].astype(float) @ weights(k))
        np.testing.assert_array_equal(found.index[i], scores.argmax(axis=0))
        np.testing.assert_array_equal(found.score[i], scores.max(axis=0))


def test_excluded_windows_score_minus_infinity(arrays):
    bags, mask, w = Bags.from_arrays(arrays), some(), weights(1)[:, 0]
    scores = bags.excluding(mask).score_windows(w)
    np.testing.assert_array_equal(scores, np.where(mask, -np.inf, bags.score_windows(w)))


def test_views_take_their_exclusions_along(arrays):
    bags, mask, w = Bags.from_arrays(arrays), some(), weights(1)[:, 0]
    view = bags.excluding(mask)
    chosen, parts = [3, 0, 2, 3], np.split(view.score_windows(w), np.cumsum(SIZES)[:-1])
    np.testing.assert_array_equal(view.subset(chosen).score_windows(w), np.concatenate([parts[i] for i in chosen]))
    np.testing.assert_array_equal(view.scaled(2.0).score_windows(w), 2 * view.score_windows(w))
    only = view.narrowed([-1, 0, 5, -1, 0]).score_windows(w)
    np.testing.assert_array_equal(only, np.concatenate([parts[0], parts[1], parts[2][5:6], parts[3], parts[4][:1]]))
    np.testing.assert_array_equal(view.kept(2).score_windows(w), np.concatenate([part[:2] for part in parts]))


def test_excluded_windows_are_not_kept(arrays):
    kept = Bags.from_arrays(arrays).excluding(some(share=0.99)).kept(30, weights(1)[:, 0])
    assert np.isfinite(kept.score_windows(weights(1)[:, 0])).all()


def test_the_same_pictures_may_stand_twice_with_other_windows_left(arrays):
    """As in refinement: a positive picture, and the same one as a negative without the windows near the object."""
    bags, w = Bags.from_arrays(arrays), weights(1)[:, 0]
    twice = bags.subset([2, 2])
    mask = np.zeros(1400, dtype=bool)
    mask[700:] = bags.subset([2]).score_windows(w) > 0
    first, second = twice.excluding(mask).best(w).score
    assert second <= 0 < first


def test_exclusions_add_up(arrays):
    one, other, w = some(3, 0.4), some(4, 0.4), weights(1)[:, 0]
    bags = Bags.from_arrays(arrays)
    np.testing.assert_array_equal(
        bags.excluding(one).excluding(other).score_windows(w), bags.excluding(one | other).score_windows(w)
    )


def test_a_bag_must_keep_a_window(arrays):
    mask = some()
    mask[3] = True
    with pytest.raises(ShapeError, match="every bag must keep one or more windows, got none for bag 1"):
        Bags.from_arrays(arrays).excluding(mask)


def test_a_mask_of_another_kind_is_refused(arrays):
    bags = Bags.from_arrays(arrays)
    with pytest.raises(InputError, match="windows must be true or false, got int64"):
        bags.excluding(np.zeros(bags.n_windows, dtype=np.int64))
    with pytest.raises(ShapeError, match=r"windows must be one per window, 749, got shape \(3,\)"):
        bags.excluding(np.zeros(3, dtype=bool))
