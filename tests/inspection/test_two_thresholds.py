"""Two thresholds keep one promise: of a known class, and of what is unlike good pictures."""

import numpy as np
import pytest

from lapsvm.errors import ShapeError
from lapsvm.inspection.promises import Promise
from lapsvm.inspection.threshold import choose_threshold, choose_two_thresholds

NEW = 400


def drawn(rng, groups, alike):
    """Return probabilities and distances of pictures, which are alike by a correlation, and within groups by half."""
    n = len(groups)
    of_group = rng.normal(size=(groups.max() + 1, 2))[groups]
    own = rng.normal(size=(n, 2)) + of_group * (len(groups) > groups.max() + 1)
    values = np.column_stack([own[:, 0], alike * own[:, 0] + np.sqrt(1 - alike**2) * own[:, 1]])
    return 1 / (1 + np.exp(-values[:, 0])), np.exp(values[:, 1])


def alarm_shares(promise, count, alike, draws, sizes=1):
    """Return the share of new good pictures, each of a new group, that alarm in each of some draws."""
    rng, shares = np.random.default_rng(5), []
    for _ in range(draws):
        groups = np.repeat(np.arange(count), rng.integers(1, sizes + 1, count))
        known = drawn(rng, groups, alike)
        thresholds = choose_two_thresholds(*known, promise, groups)
        factor = np.sqrt(1 + (len(groups) > count))  # a new picture of a new group varies by its group, too
        normal = rng.normal(size=(NEW, 2)) * factor
        new = 1 / (1 + np.exp(-normal[:, 0])), np.exp(alike * normal[:, 0] + np.sqrt(1 - alike**2) * normal[:, 1])
        shares.append(np.mean((new[0] >= thresholds[0]) | (new[1] >= thresholds[1])))
    return np.array(shares)


@pytest.mark.parametrize("alike", [-0.9, 0.0, 0.9, 1.0])
@pytest.mark.parametrize(("count", "share"), [(39, 0.05), (60, 0.1), (150, 0.1)])
def test_on_average_no_larger_share_of_good_pictures_alarms(alike, count, share):
    shares = alarm_shares(Promise(share), count, alike, 400)
    error = shares.std() / np.sqrt(len(shares))
    assert shares.mean() <= share + 2.5 * error
    assert shares.mean() >= 0.4 * share  # not by never alarming
    if count == 150:
        assert shares.mean() >= 0.8 * share


@pytest.mark.parametrize("alike", [0.0, 0.9])
def test_of_pictures_in_groups_it_holds_for_a_new_group(alike):
    shares = alarm_shares(Promise(0.1), 60, alike, 400, sizes=6)
    assert shares.mean() <= 0.1 + 2.5 * shares.std() / np.sqrt(len(shares))


def test_with_a_confidence_it_holds_in_that_many_draws():
    shares = alarm_shares(Promise(0.1, 0.9), 80, 0.3, 300)
    assert np.mean(shares <= 0.1 + 2 * np.sqrt(0.09 / NEW)) >= 0.9


def test_ranks_that_agree_cost_nothing_but_one_picture():
    values = np.random.default_rng(0).permutation(199) / 200
    probability, distance = choose_two_thresholds(values, values, Promise(0.1))
    alarms = int(np.sum((values >= probability) | (values >= distance)))
    assert np.sum(values >= choose_threshold(values, 0.1)) == 19
    assert alarms == 18


@pytest.mark.parametrize(("promise", "needed"), [(Promise(0.05), 39), (Promise(0.1, 0.9), 59)])
@pytest.mark.parametrize("each", [1, 2])
def test_too_few_pictures_have_no_two_thresholds(promise, needed, each):
    for count in (needed - 1, needed):
        values = np.arange(float(each * count))
        chosen = choose_two_thresholds(values, values, promise, np.arange(each * count) // each)
        assert (chosen is None) == (count < needed)
    assert f"two thresholds need {needed} good pictures, or groups of them, got 6" in promise.too_few_for_two(6)
    with pytest.raises(ShapeError, match="distances"):
        choose_two_thresholds([0.5], [1.0, 2.0], Promise(0.5))
