"""Intervals: exact ones of shares, and those of rankings, means and differences, which have a width at 0 and 1."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from lapsvm.evaluation import (
    MEASURES,
    ClassHits,
    Draws,
    Figure,
    MeasuredClass,
    Ranking,
    mean_figure,
    share_figure,
)
from lapsvm.evaluation.intervals import (
    LEVEL,
    clopper_pearson,
    correlation,
    correlations,
    difference_interval,
    draws_variance,
    effective_groups,
    ranking_interval,
    share_interval,
    smoothed,
    wilson,
)

RNG = np.random.default_rng(0)


def ids(n):
    return tuple(map(str, range(n)))


def auroc_figure(scores, y, groups=None, seed=0, draws=400):
    ranked, drawn = (
        MeasuredClass(Ranking(ids(len(y)), scores, y), has_none=True),
        Draws.of(ids(len(y)), seed, groups, draws),
    )
    return {key: MEASURES[key].figure(ranked, drawn) for key in ("image_auroc", "image_ap")}


@pytest.mark.parametrize("n", [1, 5, 10, 41])
def test_exact_and_wilson_intervals_are_those_of_scipy(n):
    for count in range(n + 1):
        test = binomtest(count, n)
        assert clopper_pearson(count, n) == pytest.approx(tuple(test.proportion_ci(LEVEL)), abs=1e-12)
        inverse = 1.959963984540054**2 / n
        assert wilson(count / n, inverse) == pytest.approx(tuple(test.proportion_ci(LEVEL, "wilson")), abs=1e-12)


@pytest.mark.parametrize("n", [5, 10, 40])
def test_a_share_is_covered_whatever_it_is(n):
    limits = [share_interval(np.arange(n) < count) for count in range(n + 1)]
    for share in np.linspace(0.01, 0.99, 99):
        held = [low <= share <= high for low, high in limits]
        assert binom.pmf(np.arange(n + 1), n, share) @ held >= LEVEL


def test_pictures_in_groups_of_copies_tell_as_much_as_one_of_each():
    hits = RNG.random(24) < 0.7
    low, high = share_interval(np.repeat(hits, 3), np.repeat(np.arange(24), 3))
    single = share_interval(hits)
    assert high - low == pytest.approx(single[1] - single[0], rel=0.12)
    assert share_interval(np.ones(15, bool), np.repeat(np.arange(5), 3)) == clopper_pearson(5, 5)
    assert effective_groups([0, 0, 1, 1]) == 2
    assert effective_groups([0, 0, 0, 1]) == pytest.approx(1.6)


@pytest.mark.parametrize("value", [0.0, 1.0])
@pytest.mark.parametrize("n", [5, 20, 100])
def test_a_perfect_figure_has_an_interval_that_narrows_as_pictures_grow(value, n):
    y = np.where(np.arange(n) < max(1, n // 3), 1, -1)
    found = auroc_figure(y * (1.0 if value else -1.0), y)["image_auroc"]
    low, high = found.interval
    assert draws_variance(found.draws, n) == 0
    assert found.value == value
    assert (high if value else low) == pytest.approx(value, abs=1e-12)
    assert 0.8 / n < high - low < min(1, 12 / n)


@given(st.floats(0, 1), st.floats(0, 0.1), st.floats(1, 1000), st.floats(1, 500))
def test_an_interval_holds_its_figure_and_turns_with_it(value, variance, units, groups):
    low, high = ranking_interval(value, smoothed(value, units), variance, groups)
    turned = ranking_interval(1 - value, smoothed(1 - value, units), variance, groups)
    assert 0 <= low <= value + 1e-9
    assert value - 1e-9 <= high <= 1
    assert (1 - turned[1], 1 - turned[0]) == pytest.approx((low, high), abs=1e-6)


def test_of_many_pictures_the_interval_is_the_percentiles():
    y = np.where(np.arange(2000) < 700, 1, -1)
    for figure in auroc_figure(RNG.standard_normal(2000) + 1.2 * (y > 0), y, draws=1000).values():
        assert figure.interval == pytest.approx(tuple(np.quantile(figure.draws, [0.025, 0.975])), abs=0.004)


@pytest.mark.parametrize(("n", "positive", "distance", "truth"), [(20, 4, 3.0, 0.983), (40, 20, 2.0, 0.9214)])
def test_few_pictures_near_one_are_covered(n, positive, distance, truth):
    y, held = np.where(np.arange(n) < positive, 1, -1), []
    rng = np.random.default_rng(0)
    for seed in range(120):
        low, high = auroc_figure(rng.standard_normal(n) + distance * (y > 0), y, seed=seed, draws=150)[
            "image_auroc"
        ].interval
        held.append(low <= truth <= high)
    assert np.mean(held) >= 0.92


def test_the_mean_of_perfect_classes_is_surer_than_one_and_less_sure_than_all_pictures():
    y = np.where(np.arange(30) < 10, 1, -1)
    one = auroc_figure(y.astype(float), y)["image_auroc"]
    width, of_mean = (high - low for low, high in (one.interval, mean_figure([one] * 4).interval))
    assert width / 4.5 < of_mean < width
    undefined = Figure(None, np.full(400, np.nan), smoothed(0.5, 1), 1)
    assert mean_figure([one, undefined]).interval == pytest.approx(one.interval)
    assert undefined.interval is mean_figure([undefined]).interval is mean_figure([]).interval is None


def test_a_figure_does_not_differ_from_itself_unless_nothing_is_known():
    y = np.where(np.arange(40) < 20, 1, -1)
    figure = auroc_figure(RNG.standard_normal(40) + (y > 0), y)["image_auroc"]
    assert figure.minus(figure) == (0.0, (0.0, 0.0, 1.0))
    perfect = auroc_figure(y.astype(float), y)["image_auroc"]
    difference, (low, high, p_value) = perfect.minus(perfect)
    assert (difference, p_value) == (0.0, 1.0)
    assert low == -high < -0.01


@given(st.floats(-1, 1), st.floats(1e-8, 0.3), st.floats(2, 1000))
def test_a_p_value_is_below_the_level_where_the_interval_leaves_out_zero(difference, variance, groups):
    low, high, p_value = difference_interval(difference, variance, groups)
    assert -1 <= low <= difference <= high <= 1
    if abs(p_value - (1 - LEVEL)) > 1e-6:
        assert (p_value < 1 - LEVEL) == (low > 0 or high < 0)
    assert difference_interval(0.5, 0.0, groups) == (0.5, 0.5, 0.0)


def test_shares_have_the_exact_interval_and_draws_for_means_and_differences():
    hits = ClassHits(ids(30), np.arange(30) < 24)
    figure = share_figure(hits, Draws.of(ids(30), 0))
    assert figure.interval == clopper_pearson(24, 30)
    mean = mean_figure([figure, figure]).interval
    assert mean == pytest.approx(tuple(binomtest(24, 30).proportion_ci(LEVEL, "wilson")), abs=0.03)
    assert share_figure(ClassHits((), np.zeros(0, bool)), Draws.of(ids(3), 0)).interval is None


def test_correlation_is_that_of_numpy_over_draws_that_both_have():
    first, second = RNG.standard_normal((2, 50))
    assert correlation(first, second) == pytest.approx(np.corrcoef(first, second)[0, 1])
    assert correlations([first, second, np.ones(50)]) == pytest.approx(
        np.array([[1, correlation(first, second), 0], [correlation(first, second), 1, 0], [0, 0, 1]])
    )
    first[3] = np.nan
    assert correlation(first, second) == pytest.approx(np.corrcoef(np.delete(first, 3), np.delete(second, 3))[0, 1])
    assert correlation(np.ones(5), second[:5]) == correlation(np.full(5, np.nan), second[:5]) == 0
    assert math.isclose(correlation(second, second), 1)


def test_groups_widen_an_interval():
    y = np.repeat(np.where(np.arange(10) < 5, 1, -1), 4)
    scores = np.repeat(RNG.standard_normal(10), 4) + y
    alone, grouped = (auroc_figure(scores, y, groups)["image_auroc"] for groups in (None, np.repeat(np.arange(10), 4)))
    assert grouped.interval[1] - grouped.interval[0] > 1.3 * (alone.interval[1] - alone.interval[0])
