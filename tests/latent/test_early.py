"""Soft windows and easy positives before training proper."""

import re
from dataclasses import replace

import numpy as np
import pytest

from lapsvm.bags import Bags
from lapsvm.errors import InputError, OptionError
from lapsvm.latent import HingeRisk, LatentProblem, RankRisk, StructuralProblem, fit_many, fit_paths
from lapsvm.latent.cccp.early import LAST, EarlyStep, early_steps, soft_shares, soft_targets, spread
from lapsvm.models import LatentRankSVM, LatentSVM

EARLY = [{"anneal": 0.5}, {"pace": 0.3}, {"anneal": 2.0, "pace": 0.6}]


def planted(seed=0, n_bags=30, size=8, dim=5, shift=3.0):
    """Return bags with a shifted window in every third one."""
    rng = np.random.default_rng(seed)
    windows = rng.normal(size=(n_bags, size, dim))
    y = np.where(np.arange(n_bags) % 3 == 0, 1, -1)
    windows[np.flatnonzero(y > 0), rng.integers(0, size, (y > 0).sum()), 0] += shift
    return windows, y


def is_early(record):
    return record["temperature"] > 0 or record["share"] < 1


def test_shares_of_one_are_the_softmax():
    scores = np.random.default_rng(0).normal(size=20)
    weights = np.exp(scores / 0.7)
    np.testing.assert_allclose(soft_shares(scores, 0.7, 1), weights / weights.sum())


@pytest.mark.parametrize("count", [1, 3, 7, 12])
@pytest.mark.parametrize("temperature", [0.01, 0.3, 1.0, 50.0])
def test_shares_are_the_capped_softmax(temperature, count):
    scores = np.random.default_rng(count).normal(size=12)
    shares = soft_shares(scores, temperature, count)
    assert shares.sum() == pytest.approx(1)
    assert shares.max() <= (1 + 1e-9) / count
    below = shares < (1 - 1e-9) / count
    if below.any():
        rate = np.log(shares[below]) - scores[below] / temperature
        np.testing.assert_allclose(rate, rate[0], atol=1e-6)
        # a capped one would have more, were it not for the cap
        assert (rate[0] + scores[~below] / temperature >= -np.log(count) - 1e-9).all()


@pytest.mark.parametrize("count", [1, 3])
def test_no_other_shares_have_a_larger_score_and_entropy(count):
    rng = np.random.default_rng(1)
    scores = rng.normal(size=6)
    own = soft_shares(scores, 0.4, count)

    def value(shares):
        return shares @ scores - 0.4 * np.sum(shares * np.log(np.maximum(shares, 1e-300)))

    others = rng.dirichlet(np.ones(6), 5000)
    others = others[others.max(axis=1) <= 1 / count]
    assert len(others) > 20
    assert all(value(other) <= value(own) + 1e-12 for other in others)


def test_cold_shares_are_those_of_the_best_windows_and_hot_ones_equal():
    scores = np.array([0.0, 3.0, 1.0, 3.0, 2.0])
    np.testing.assert_array_equal(soft_shares(scores, 0.0, 3), np.array([0, 1, 0, 1, 1]) / 3)
    np.testing.assert_array_equal(soft_shares(scores, 0.0, 1), [0, 1, 0, 0, 0])
    np.testing.assert_allclose(soft_shares(scores, 1e-9, 3), np.array([0, 1, 0, 1, 1]) / 3, atol=1e-12)
    np.testing.assert_allclose(soft_shares(scores, 1e12, 3), np.full(5, 0.2))


@pytest.mark.parametrize("count", [1, 2])
def test_windows_that_do_not_compete_have_no_share_and_far_scores_no_overflow(count):
    shares = soft_shares(np.array([-np.inf, 1e300, 0.0, -1e300]), 1.0, count)
    np.testing.assert_array_equal(shares, np.array([0, 1, 0, 0]) if count == 1 else [0, 0.5, 0.5, 0])


def test_equal_scores_share_alike():
    np.testing.assert_allclose(soft_shares(np.zeros(4), 0.1, 2), np.full(4, 0.25))


def test_temperatures_halve_and_shares_grow_until_both_have_ended():
    assert early_steps(0, 1) == []
    assert early_steps(0.5, 1) == [EarlyStep(0.5, 1), EarlyStep(0.25, 1), EarlyStep(0.125, 1)]
    assert early_steps(0.1, 0.5) == [EarlyStep(0.1, 0.5), EarlyStep(0, 0.65), EarlyStep(0, 0.5 * 1.3 * 1.3)]


def test_the_spread_is_that_within_images():
    assert spread([np.array([1.0, 3.0]), np.array([100.0, 102.0, -np.inf])]) == pytest.approx(1)


def test_stand_ins_are_weighted_means_of_the_images_with_the_highest_scores():
    windows, y = planted()
    bags, positives, w = Bags.from_arrays(list(windows)), np.flatnonzero(y > 0), np.arange(5.0)
    counts = np.full(len(positives), 2)
    scores = windows[positives] @ w
    easiest = np.sort(np.argsort(-np.sort(scores, axis=1)[:, -2:].mean(axis=1))[:3])
    heat = 0.3 * spread(list(scores))
    means = [soft_shares(scores[i], heat, 2) @ windows[positives[i]] for i in easiest]
    found = soft_targets(bags, positives, w, counts, EarlyStep(0.3, 0.3))
    np.testing.assert_allclose(found.scores(w), np.array(means) @ w)
    np.testing.assert_allclose(found.weighted_sum(np.arange(3.0)), np.arange(3.0) @ np.array(means))
    hard = soft_targets(bags, positives, w, counts, LAST)
    np.testing.assert_allclose(hard.scores(w), np.sort(scores, axis=1)[:, -2:].mean(axis=1))


@pytest.mark.parametrize("early", EARLY)
@pytest.mark.parametrize("top", [1, 3])
@pytest.mark.parametrize("risk", [RankRisk("ap"), HingeRisk(2.0)])
def test_the_end_is_a_certified_solution_of_the_same_problem(risk, top, early):
    windows, y = planted()
    plain = LatentProblem(y, risk=risk, C=5.0, top=top, tol=1e-4)
    found = fit_many([replace(plain, **early)], windows)[0]
    steps = early_steps(early.get("anneal", 0), early.get("pace", 1))
    assert [(r["temperature"], r["share"]) for r in found.history[: len(steps)]] == steps
    late = found.history[len(steps) :]
    assert not any(is_early(record) for record in late)
    assert [record["step"] for record in found.history] == list(range(len(found.history)))
    objectives = np.array([record["objective"] for record in late])
    assert (np.diff(objectives) <= 1e-9 * np.abs(objectives[:-1])).all()
    assert found.converged
    assert found.gap <= 1e-4
    best = np.sort(windows @ found.coef, axis=1)
    scores = np.where(y > 0, best[:, -top:].mean(axis=1), best[:, -1])
    plane = risk.violation(scores, y.astype(float))
    objective = found.coef @ found.coef / 2 + 5.0 * (plane.offset - plane.coefficients @ scores)
    assert objective == pytest.approx(found.objective, rel=1e-6)
    further = fit_many([replace(plain, init=found.coef)], windows)[0]
    assert further.objective == pytest.approx(found.objective, rel=1e-2)


@pytest.mark.parametrize("seed", [1, 2])
def test_steps_that_are_too_hot_to_learn_from_are_passed_over(seed):
    windows, y = planted(seed, n_bags=60, size=30)
    plain, hot = fit_many([LatentProblem(y, C=20.0, anneal=heat) for heat in (0.0, 64.0)], windows)
    at_zero = 20.0 * RankRisk("ap").violation(np.zeros(len(y)), np.sort(y)[::-1].astype(float)).offset
    assert max(record["objective"] for record in hot.history) == pytest.approx(at_zero, rel=1e-3)  # they learn nothing
    assert hot.objective <= 1.02 * plain.objective


def test_without_them_there_are_no_early_steps():
    windows, y = planted()
    off, given = fit_many([LatentProblem(y), LatentProblem(y, anneal=0, pace=1.0)], windows)
    np.testing.assert_array_equal(off.coef, given.coef)
    assert off.history == given.history
    assert not any(is_early(record) for record in off.history)


@pytest.mark.parametrize("early", EARLY)
def test_side_by_side_is_alone(early):
    windows, y = planted()
    problems = [LatentProblem(y, C=C, **early) for C in (0.5, 5.0)] + [LatentProblem(y)]
    for problem, found in zip(problems, fit_many(problems, windows), strict=True):
        alone = fit_many([problem], windows)[0]
        np.testing.assert_array_equal(found.coef, alone.coef)
        assert found.history == alone.history


@pytest.mark.parametrize("early", EARLY)
def test_the_order_of_images_does_not_matter(early):
    windows, y = planted(seed=3)
    order = np.random.default_rng(0).permutation(len(y))
    found = fit_many([LatentProblem(y, C=5.0, tol=1e-6, **early)], windows)[0]
    other = fit_many([LatentProblem(y[order], C=5.0, tol=1e-6, **early)], windows[order])[0]
    np.testing.assert_array_equal(other.windows[y[order] > 0], found.windows[order][y[order] > 0])
    assert other.objective == pytest.approx(found.objective, rel=1e-5)


@pytest.mark.parametrize("early", EARLY)
def test_the_unit_of_the_features_does_not_matter(early):
    windows, y = planted(seed=4)
    found = fit_many([LatentProblem(y, C=4.0, **early)], windows)[0]
    other = fit_many([LatentProblem(y, C=4.0 / 64, **early)], 8 * windows)[0]
    np.testing.assert_allclose(other.coef * 8, found.coef)


@pytest.mark.parametrize("early", EARLY)
def test_given_windows_are_solved_for_first(early):
    windows, y = planted()
    chosen = np.full(len(y), 4)
    found = fit_many([LatentProblem(y, init=chosen, tol=0.1, **early)], windows)[0]
    convex = fit_many([LatentProblem(y, fixed_windows=np.where(y > 0, chosen, -1), tol=0.1)], windows)[0]
    assert not is_early(found.history[0])
    assert is_early(found.history[1])
    assert found.history[0]["objective"] == pytest.approx(convex.objective, rel=0.1)
    assert not is_early(found.history[-1])


@pytest.mark.parametrize("early", EARLY)
def test_fixed_windows_need_no_early_steps(early):
    windows, y = planted()
    known = np.where(y > 0, 2, -1)
    found, plain = fit_many([LatentProblem(y, fixed_windows=known, **more) for more in (early, {})], windows)
    np.testing.assert_array_equal(found.coef, plain.coef)


@pytest.mark.parametrize("early", EARLY)
def test_only_the_first_value_on_a_path_has_early_steps(early):
    windows, y = planted()
    first, second = fit_paths([LatentProblem(y, **early)], [[10.0, 1.0]], windows)[0]
    assert is_early(first.history[0])
    assert not any(is_early(record) for record in second.history)


@pytest.mark.parametrize("early", EARLY)
def test_one_positive_image_is_enough(early):
    windows, y = planted()
    y = np.where(np.arange(len(y)) == 0, 1, -1)
    assert fit_many([LatentProblem(y, C=20.0, **early)], windows)[0].converged


@pytest.mark.parametrize("early", EARLY)
@pytest.mark.parametrize("windows", [np.zeros((6, 4, 3)), np.ones((6, 4, 3))])
def test_windows_that_all_score_alike_are_no_failure(windows, early):
    found = fit_many([LatentProblem(np.array([1, 1, 1, -1, -1, -1]), **early)], windows)[0]
    assert found.converged
    np.testing.assert_allclose(found.coef, 0, atol=1e-9)
    np.testing.assert_array_equal(found.windows, 0)


@pytest.mark.parametrize("early", EARLY)
def test_images_of_one_window_have_nothing_to_anneal(early):
    windows, y = planted(size=1)
    found, plain = fit_many([LatentProblem(y, tol=1e-6, **more) for more in (early, {})], windows)
    assert found.objective == pytest.approx(plain.objective, rel=2e-6)


@pytest.mark.parametrize("early", EARLY)
def test_excluded_windows_and_ignored_ones_stay_out(early):
    windows, y = planted()
    worst = np.zeros(windows.shape[:2], dtype=bool)
    worst[:, 5] = True
    loud = windows.copy()
    loud[:, 5] = 1e4 * y[:, None]
    bags = Bags.from_arrays(list(loud)).excluding(worst.ravel())
    left = np.delete(windows, 5, axis=1)
    problem = LatentProblem(y, risk=HingeRisk(), ignored=0.2, top=2, **early)
    found, plain = fit_many([problem], bags)[0], fit_many([replace(problem, ignored=0.15)], left)[0]
    assert found.converged
    assert not (found.windows == 5).any()
    assert found.objective <= 1.5 * plain.objective


def test_the_estimators_take_them():
    windows, y = planted()
    for kind in (LatentRankSVM, LatentSVM):
        model = kind(anneal=0.25, pace=0.5).fit(list(windows), y)
        assert [record["temperature"] for record in model.history_[:3]] == [0.25, 0.125, 0.0]
        assert [record["share"] for record in model.history_[:2]] == [0.5, 0.65]
        assert model.duality_gap_ <= model.tol


@pytest.mark.parametrize("anneal", [-1, 0.05, np.inf, np.nan, "hot", None])
def test_a_wrong_temperature_is_told(anneal):
    with pytest.raises(InputError, match=r"^anneal must be 0 or a finite number of at least 0\.1, got"):
        LatentProblem([1, -1], anneal=anneal)


@pytest.mark.parametrize("pace", [0, -0.5, 1.5, np.nan, "slow", None])
def test_a_wrong_share_is_told(pace):
    with pytest.raises(InputError, match=re.escape(f"pace must be above 0 and at most 1, got {pace!r}.")):
        LatentProblem([1, -1], pace=pace)


@pytest.mark.parametrize("early", EARLY)
def test_rankings_that_choose_windows_take_neither(early):
    with pytest.raises(OptionError, match=r"^anneal and pace must be 0 and 1, for every ranking chooses"):
        StructuralProblem([1, -1], **early)
