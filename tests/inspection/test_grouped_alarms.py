"""False alarms of pictures in groups: a promise on pictures of new groups, and intervals that count groups."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from lapsvm.detection import AlarmThreshold
from lapsvm.errors import InputError, ModelFileError, ShapeError
from lapsvm.evaluation.intervals import clopper_pearson
from lapsvm.inspection.alarm_rate import AlarmRate
from lapsvm.inspection.threshold import choose_threshold
from lapsvm.inspection.threshold_file import signed

GROUPED = st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=6), min_size=20, max_size=60)
SHARES = st.sampled_from([0.05, 0.1, 0.2, 1 / 3, 0.5, 0.9])


def flat(groups):
    """Return the values of lists of groups, and the group of each."""
    sizes = [len(group) for group in groups]
    return np.concatenate([np.asarray(group) for group in groups]), np.repeat(np.arange(len(groups)), sizes)


def holds(share, truth):
    """Return whether the interval of a share holds the truth."""
    low, high = share.interval
    return low <= truth <= high


def products(random, count, spread=1.0):
    """Return scores of pictures of `count` products, one to nine of each, which vary more between products."""
    return [spread * random.normal() + 0.2 * random.normal(size=random.integers(1, 10)) for _ in range(count)]


@given(GROUPED, SHARES)
def test_a_group_that_was_left_out_alarms_as_seldom_as_promised(groups, share):
    """Any of G + 1 exchangeable groups may be the new one, so the promise holds for the mean over them exactly."""
    rates = []
    for left, group in enumerate(groups):
        others = groups[:left] + groups[left + 1 :]
        rates.append(np.mean(np.asarray(group) >= choose_threshold(*ordered(others, share))))
    assert np.mean(rates) <= share + 1e-12


def ordered(groups, share):
    values, numbers = flat(groups)
    return values, share, numbers


@given(st.lists(st.floats(0, 1), min_size=19, max_size=60), SHARES, st.integers(1, 4))
def test_copies_change_nothing(values, share, copies):
    groups = np.arange(len(values))
    once = choose_threshold(values, share)
    assert choose_threshold(values, share, groups[::-1]) == once
    assert choose_threshold(values * copies, share, [*groups] * copies) == once


def test_a_picture_counts_as_its_share_of_its_group():
    """Ten groups at .2 leave a budget of 1.2: the four highest pictures are 1.2 groups, a fifth one would be more."""
    groups = [[0.9, 0.1], [0.8, 0.7, 0.1, 0.1], [0.6, 0.5, 0.4, 0.3, 0.1], *[[0.2]] * 7]
    values, numbers = flat(groups)
    assert choose_threshold(values, 0.2, numbers) == np.nextafter(0.5, 1)


def test_new_products_alarm_as_seldom_as_promised_and_by_pictures_they_would_not():
    random, rates, by_pictures = np.random.default_rng(0), [], []
    for _ in range(1500):
        values, numbers = flat(products(random, 11))
        new = np.concatenate([group[:1] for group in products(random, 40)])
        rates.append(np.mean(new >= choose_threshold(values, 0.1, numbers)))
        by_pictures.append(np.mean(new >= choose_threshold(values, 0.1)))
    assert 0.05 < np.mean(rates) <= 0.1
    assert np.mean(by_pictures) > 0.12


def test_few_groups_promise_no_small_share():
    values, numbers = flat([[0.5, 0.25, 0.125]] * 19)
    assert choose_threshold(values, 0.05, numbers) == np.nextafter(0.5, 1)
    few = numbers < 18
    with pytest.raises(InputError, match=r"needs 19 groups of held-out pictures of no class, got 18, which promise"):
        choose_threshold(values[few], 0.05, numbers[few])
    with pytest.raises(ShapeError, match=r"groups must have one entry per picture, 57, got 18"):
        choose_threshold(values, 0.05, numbers[:18])
    for wrong in ([*"abc"] * 19, numbers + 0.5, numbers * 1j):
        with pytest.raises(InputError, match="groups must be whole numbers"):
            choose_threshold(values, 0.05, wrong)


def test_rounding_loses_no_alarm():
    assert 0.29 * 100 < 29
    threshold = choose_threshold(np.arange(99), 0.29, np.arange(99))
    assert (np.arange(99) >= threshold).sum() == 28
    assert choose_threshold([0.3, 0.1, 0.2], 1 - 1e-11) == np.nextafter(0.1, 1)


def test_pictures_on_their_own_have_the_exact_interval():
    share = AlarmRate.among([True, False, False], [4, 2, 9])
    assert share == AlarmRate(1, 3)
    assert share.interval == clopper_pearson(1, 3)
    assert AlarmRate.among([], []) == AlarmRate(0, 0)


@pytest.mark.parametrize("alarms", [False, True])
def test_where_nothing_varies_groups_are_counted(alarms):
    share = AlarmRate.among([alarms] * 60, np.arange(60) // 3)
    assert share == AlarmRate(60 * alarms, 60, 20.0, 1.0 * alarms)
    assert AlarmRate.among([alarms] * 60, np.arange(60) // 3, by_picture=True) == AlarmRate(60 * alarms, 60, 20.0)
    assert share.interval == pytest.approx(clopper_pearson(20 * alarms, 20))
    assert AlarmRate.among([True, False], [1, 1]).independent == 1


def test_the_number_is_that_of_the_paper_in_a_case_by_hand():
    """Three of six alarm, two of them in a group of three: the variance is 4/3 / 36, Student's quantiles of 5 and 2."""
    share = AlarmRate.among([True, True, False, False, False, True], [7, 7, 7, 1, 2, 3], by_picture=True)
    assert share.independent == pytest.approx(0.25 / (4 / 3 / 36) * (2.570582 / 4.302653) ** 2, rel=1e-6)


def test_a_group_that_has_most_pictures_leaves_almost_nothing_known():
    random, held = np.random.default_rng(2), 0
    numbers = np.repeat(np.arange(11), [50] + [1] * 10)
    for _ in range(300):
        rates = random.beta(5, 5, 11)
        low, high = AlarmRate.among(random.random(60) < rates[numbers], numbers, by_picture=True).interval
        held += low <= 0.5 <= high
    assert held >= 0.95 * 300
    alarms = numbers > 0  # but those of the large group
    assert np.diff(AlarmRate.among(alarms, numbers, by_picture=True).interval) > 0.9


def test_pictures_that_differ_as_if_alone_count_almost_as_many():
    alarms, groups = np.random.default_rng(0).random(4000) < 0.3, np.arange(4000) // 4
    assert 3000 < AlarmRate.among(alarms, groups, True).independent <= 4000
    assert 900 < AlarmRate.among(np.repeat(alarms[:1000], 4), groups, True).independent < 1000  # alike
    assert AlarmRate.among([True, False] * 40, np.arange(80) // 2, True).independent == 80  # no difference


def test_intervals_of_pictures_in_groups_hold_the_share():
    """The share of pictures of products, whose scores vary between products, is in 95 % of the intervals or more."""
    random = np.random.default_rng(1)
    true = np.mean(np.concatenate([group[:1] for group in products(random, 100_000)]) >= 0.8)
    held = {"groups": 0, "pictures": 0}
    for _ in range(400):
        values, numbers = flat(products(random, 40))
        share = AlarmRate.among(values >= 0.8, numbers, by_picture=True)
        for name, (low, high) in {
            "groups": share.interval,
            "pictures": AlarmRate(share.alarms, share.of).interval,
        }.items():
            held[name] += low <= true <= high
    assert held["groups"] >= 0.93 * 400
    assert held["pictures"] < 0.8 * 400


def test_the_file_keeps_how_many_pictures_tell_as_much(tmp_path):
    alarm = AlarmThreshold(0.3, 0.05, {}, {"ok": AlarmRate(1, 40, 12.5, 0.08)}, {"ok": AlarmRate(0, 3, 3.0)})
    path = tmp_path / "threshold.json"
    path.write_text(alarm.as_text({}))
    assert AlarmThreshold.load(path) == alarm
    assert json.loads(path.read_text())["held_out"]["ok"]["high"] == pytest.approx(alarm.held_out["ok"].interval[1])
    wrong_rows = [{"independent": wrong} for wrong in (0, -1, 41, "many", None)] + [{"share": 1.5}, {"share": "half"}]
    for wrong in wrong_rows:
        content = json.loads(alarm.as_text({}))
        content["held_out"]["ok"] |= wrong
        path.write_text(signed(content))
        with pytest.raises(ModelFileError, match="damaged or of another version"):
            AlarmThreshold.load(path)


def test_a_group_counts_the_same_however_many_pictures_it_has():
    share = AlarmRate.among([True] * 50 + [True] + [False] * 9, [0] * 50 + [*range(1, 11)])
    assert (share.alarms, share.of, share.independent, share.share) == (51, 60, 11.0, pytest.approx(2 / 11))
    assert share.interval == pytest.approx(clopper_pearson(2, 11))
    assert str(share) == "51 of 60, 18.2 % by group (2.3 to 51.8 %)"


@pytest.mark.parametrize(("count", "wanted"), [(20, 0.1), (50, 0.05), (30, 0.1)])
def test_intervals_hold_where_the_threshold_was_chosen_on_unequal_groups(count, wanted):
    """By pictures .81 to .88 would: what alarms is one small group, whose pictures are few of all."""
    random, held, by_picture = np.random.default_rng(5), 0, 0
    for _ in range(400):
        numbers = np.repeat(np.arange(count), random.geometric(0.2, count))
        values = random.normal(size=count)[numbers]
        threshold = choose_threshold(values, wanted, numbers)
        held += holds(AlarmRate.among(values >= threshold, numbers), norm.sf(threshold))
        by_picture += holds(AlarmRate.among(values >= threshold, numbers, by_picture=True), norm.sf(threshold))
    assert held >= 0.93 * 400
    assert by_picture < 0.92 * 400


def test_the_interval_holds_the_share_over_groups_where_size_goes_along_with_score():
    """Large groups score low: the share over groups, which the promise is about, is not that of pictures."""
    random, held, rate = np.random.default_rng(6), 0, 0.5 * norm.sf(0.8) + 0.5 * norm.sf(1.8)
    for _ in range(300):
        large = random.random(30) < 0.5
        numbers = np.repeat(np.arange(30), np.where(large, 12, 1))
        values = (random.normal(size=30) - large)[numbers]
        held += holds(AlarmRate.among(values >= 0.8, numbers), rate)
    assert held >= 0.94 * 300
