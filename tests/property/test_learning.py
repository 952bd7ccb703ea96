"""Laws of bags, solver and training on drawn input."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lapsvm.bags import Bags
from lapsvm.latent import HingeRisk, LatentProblem, RankRisk, fit_many
from lapsvm.models.threshold import balanced_intercept
from lapsvm.optim import Plane, minimise, solve_simplex_qp
from lapsvm.testing.bags import best_windows

small = st.integers(-4, 4)


@st.composite
def windows(draw, most_bags=6):
    """Draw bags of small whole numbers, so that ties are common and sums exact."""
    dim = draw(st.integers(1, 40))
    sizes = draw(st.lists(st.integers(1, 9), min_size=2, max_size=most_bags))
    return [draw(arrays(np.int8, (size, dim), elements=small)).astype(np.float32) for size in sizes]


@settings(max_examples=60, deadline=None)
@given(windows(), st.integers(1, 4), st.data())
def test_the_best_window_is_the_first_maximum(bags, k, data):
    weights = data.draw(arrays(np.int8, (bags[0].shape[1], k), elements=small)).astype(float)
    found, expected = Bags.from_arrays(bags).best(weights), best_windows(bags, weights)
    np.testing.assert_array_equal(found.index, expected.index)
    np.testing.assert_array_equal(found.score, expected.score)


@settings(max_examples=60, deadline=None)
@given(windows(), st.data())
def test_any_subset_answers_like_its_bags(bags, data):
    chosen = data.draw(st.lists(st.integers(0, len(bags) - 1), min_size=1, max_size=8))
    w = data.draw(arrays(np.int8, bags[0].shape[1], elements=small)).astype(float)
    found = Bags.from_arrays(bags).subset(chosen).best(w)
    expected = best_windows([bags[i] for i in chosen], w[:, None])
    np.testing.assert_array_equal(found.index, expected.index[:, 0])


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 12), st.integers(1, 5), st.floats(1e-3, 1e3), st.integers(0, 2**32 - 1))
def test_the_small_problems_gap_is_honest_and_small(m, rank, total, seed):
    rng = np.random.default_rng(seed)
    points, linear = rng.integers(-3, 4, (m, rank)).astype(float), rng.integers(-3, 4, m).astype(float)
    found = solve_simplex_qp(points @ points.T, linear, total)
    assert (found.weights >= 0).all()
    assert abs(found.weights.sum() - total) <= 1e-9 * total
    vertices = total * linear - total**2 * (points**2).sum(axis=1) / 2
    scale = total * 10 + total**2 * 100
    assert vertices.max() <= found.value + found.gap + 1e-12 * scale
    assert found.gap <= 1e-9 * scale


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 20), st.integers(1, 4), st.floats(0.01, 100), st.integers(0, 2**32 - 1))
def test_no_point_is_below_the_dual_value(n, d, C, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, d)), np.where(np.arange(n) % 2 == 0, 1.0, -1.0)

    def oracle(w):
        inside = y * (X @ w) < 1
        return Plane(-(inside * y) @ X, inside.sum())

    found = minimise(oracle, d, C, tol=1e-4)
    for w in found.w + rng.normal(size=(10, d)) * 10.0 ** rng.integers(-4, 2, (10, 1)):
        assert w @ w / 2 + C * oracle(w).value(w) >= found.dual * (1 - 1e-12)


@settings(max_examples=25, deadline=None)
@given(windows(most_bags=5), st.sampled_from([RankRisk("ap"), RankRisk("ndcg"), HingeRisk(2.0)]), st.floats(0.01, 50))
def test_training_is_certified_and_falls_whatever_the_bags(bags, risk, C):
    y = np.where(np.arange(len(bags)) == 0, 1, -1)
    found = fit_many([LatentProblem(y, risk=risk, C=C)], bags)[0]
    objectives = [record["objective"] for record in found.history]
    assert (np.diff(objectives) <= 1e-9 * np.maximum(1, np.abs(objectives[:-1]))).all()
    assert found.gap <= 1e-3
    scores = np.array([(bag @ found.coef).max() for bag in bags])
    chosen = [bag[window] @ found.coef for bag, window in zip(bags, found.windows, strict=True)]
    np.testing.assert_allclose(chosen, scores, atol=1e-5 * (1 + np.abs(scores).max()))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(small, st.booleans()), min_size=2, max_size=12).filter(lambda s: len({p for _, p in s}) == 2))
def test_no_threshold_beats_the_chosen_one(samples):
    scores, positive = np.array([float(score) for score, _ in samples]), np.array([p for _, p in samples])

    def balanced(predicted):
        return np.mean(predicted[positive]) + np.mean(~predicted[~positive])

    best = max(balanced(scores > threshold) for threshold in np.append(scores, scores.min() - 1))
    assert balanced(scores + balanced_intercept(scores, positive) > 0) >= best - 1e-9
