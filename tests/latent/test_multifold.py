"""Multi-fold relocalisation: windows chosen by models that have not seen the image."""

import re
from dataclasses import replace

import numpy as np
import pytest

from lapsvm.bags import Bags
from lapsvm.errors import InputError
from lapsvm.latent import HingeRisk, LatentProblem, RankRisk, fit_many, fit_multifold
from lapsvm.models import LatentRankSVM, LatentSVM


def planted(seed=0, n_bags=30, size=6, dim=8, shift=4.0):
    """Return bags of noise; in every third bag one window is shifted along the first axis."""
    rng = np.random.default_rng(seed)
    windows = rng.normal(size=(n_bags, size, dim))
    y = np.where(np.arange(n_bags) % 3 == 0, 1, -1)
    places = rng.integers(0, size, n_bags)
    windows[np.flatnonzero(y > 0), places[y > 0], 0] += shift
    return Bags.from_arrays(windows), y, places


@pytest.mark.parametrize("risk", [RankRisk("ap"), HingeRisk(2.0)])
def test_the_solution_is_that_of_the_convex_problem_with_its_windows(risk):
    bags, y, _ = planted()
    found = fit_multifold(LatentProblem(y, risk=risk, C=5.0), bags, folds=4)
    windows = np.where(y > 0, found.windows, -1)
    convex = fit_many([LatentProblem(y, risk=risk, C=5.0, fixed_windows=windows)], bags)[0]
    np.testing.assert_array_equal(found.coef, convex.coef)
    assert found.gap <= 1e-3
    assert found.n_calls > convex.n_calls


def test_with_one_round_each_window_is_the_best_of_a_model_without_its_image():
    bags, y, _ = planted(shift=1.0)
    problem, positives = LatentProblem(y, C=5.0), np.flatnonzero(y > 0)
    found = fit_multifold(problem, bags, folds=len(positives), rounds=1)
    for i in positives:
        left_out = fit_many([replace(problem, y=np.where(np.arange(len(y)) == i, 0, y))], bags)[0]
        assert found.windows[i] == bags.best(left_out.coef).index[i]


def test_planted_windows_are_found():
    bags, y, places = planted(shift=8.0)
    found = fit_multifold(LatentProblem(y, C=10.0), bags, folds=3)
    np.testing.assert_array_equal(found.windows[y > 0], places[y > 0])


def test_fixed_windows_stay():
    bags, y, places = planted(shift=0.5)
    known = np.where(np.arange(len(y)) < 9, places, -1)
    found = fit_multifold(LatentProblem(y, C=10.0, fixed_windows=known), bags, folds=2)
    np.testing.assert_array_equal(found.windows[known >= 0], known[known >= 0])


def test_a_seed_fixes_the_folds():
    bags, y, _ = planted(shift=1.0)
    first, same = (fit_multifold(LatentProblem(y, seed=3), bags, folds=3).coef for _ in range(2))
    np.testing.assert_array_equal(first, same)


@pytest.mark.parametrize("model", [LatentRankSVM(C=5.0, folds=3), LatentSVM(C=5.0, J=2.0, folds=3)], ids=str)
def test_estimators_take_folds(model):
    bags, y, _ = planted()
    fitted = model.fit(bags, y)
    problem = model.problem(y)
    expected = fit_multifold(problem, bags.scaled(fitted.feature_scale_), folds=3)
    np.testing.assert_allclose(fitted.coef_, expected.coef * fitted.feature_scale_, rtol=1e-12)


@pytest.mark.parametrize("folds", [1, 11, 2.5])
def test_folds_that_are_none_are_refused(folds):
    bags, y, _ = planted()
    sentence = f"folds must be from 2 to the number of positive images to divide, 10, got {folds}."
    with pytest.raises(InputError, match=re.escape(sentence)):
        fit_multifold(LatentProblem(y), bags, folds=folds)
