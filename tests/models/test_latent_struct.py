"""The latent structural SVM as an estimator: fitted attributes, prediction, scikit-learn's tools, bad input."""

import re

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score

from lapsvm.bags import Bags
from lapsvm.errors import InputError
from lapsvm.latent import fit_many
from lapsvm.models import LatentRankSVM, LatentStructSVM
from lapsvm.ranking import average_precision


def planted(seed=0, n_bags=24, size=5, dim=4, shift=6.0):
    rng = np.random.default_rng(seed)
    windows = rng.normal(size=(n_bags, size, dim))
    y = np.where(np.arange(n_bags) % 3 == 0, 1, -1)
    places = rng.integers(0, size, n_bags)
    windows[np.flatnonzero(y > 0), places[y > 0], 0] += shift
    return list(windows), y, places


@pytest.mark.parametrize(
    ("loss", "truth"), [*((loss, "imputed") for loss in ("ap", "ndcg", "auc", "mrr", "pos_at_top")), ("ap", "any")]
)
def test_a_fit_reports_its_bounds_and_ranks_the_images(loss, truth):
    bags, y, _ = planted(shift=9.0)
    model = LatentStructSVM(loss, C=10.0, truth=truth).fit(bags, y)
    assert 0 <= model.duality_gap_ <= 1e-3
    assert model.n_iter_ >= len(model.history_) >= 1
    assert model.history_[-1]["objective"] == model.objective_
    assert model.score(bags, y) == average_precision(model.decision_function(bags), y)
    assert model.score(bags, y) > 0.9


def test_with_one_window_per_image_it_is_the_latent_rank_svm():
    rng = np.random.default_rng(0)
    y = np.where(np.arange(20) < 6, 1, -1)
    bags = list((rng.normal(size=(20, 3)) + (y > 0)[:, None])[:, None, :])
    model, other = (kind("ap", C=10.0, tol=1e-6).fit(bags, y) for kind in (LatentStructSVM, LatentRankSVM))
    assert model.objective_ == pytest.approx(other.objective_, rel=1e-5)
    np.testing.assert_allclose(model.coef_, other.coef_, atol=1e-2)
    np.testing.assert_allclose(model.decision_function(bags), other.decision_function(bags), atol=1e-2)


def test_scores_are_those_of_the_best_windows():
    bags, y, places = planted(shift=9.0)
    model = LatentStructSVM(C=10.0).fit(bags, y)
    np.testing.assert_array_equal(model.best_windows(bags)[y > 0], places[y > 0])
    windows = np.split(model.score_windows(bags), len(bags))
    np.testing.assert_allclose([own.max() for own in windows], model.decision_function(bags))
    np.testing.assert_array_equal([own.argmax() for own in windows], model.best_windows(bags))


def test_predict_is_decision_above_0_in_the_callers_classes():
    bags, y, _ = planted()
    model = LatentStructSVM(C=10.0).fit(bags, np.where(y > 0, 7, 3))
    np.testing.assert_array_equal(model.predict(bags), np.where(model.decision_function(bags) > 0, 7, 3))


@pytest.mark.parametrize("size", [2.0**-20, 2.0**20])  # powers of two, so that rounding takes no other path
def test_C_means_the_same_for_any_unit_of_the_features(size):
    bags, y, _ = planted()
    plain = LatentStructSVM(C=10.0).fit(bags, y)
    scaled = LatentStructSVM(C=10.0).fit([bag * size for bag in bags], y)
    assert scaled.objective_ == pytest.approx(plain.objective_, rel=1e-6)
    np.testing.assert_array_equal(scaled.best_windows([bag * size for bag in bags]), plain.best_windows(bags))


def test_the_same_seed_gives_the_same_model():
    bags, y, _ = planted(shift=1.0)
    model = LatentStructSVM(init="random", random_state=3)
    np.testing.assert_array_equal(clone(model).fit(bags, y).coef_, clone(model).fit(bags, y).coef_)


def test_its_problem_is_what_fit_solves():
    bags, y, _ = planted()
    model = LatentStructSVM(C=10.0, scale=None).fit(Bags.from_arrays(bags), y)
    found = fit_many([model.problem(y)], bags)[0]
    np.testing.assert_array_equal(model.coef_, found.coef)


def test_scikit_learns_search_and_cross_validation_take_bags():
    bags, y, _ = planted()
    search = GridSearchCV(LatentStructSVM(), {"C": [0.1, 10.0], "truth": ["imputed"]}, cv=2).fit(bags, y)
    assert search.best_score_ > 0.5
    assert len(cross_val_score(LatentStructSVM(C=10.0), Bags.from_arrays(bags), y, cv=3)) == 3


def test_a_model_that_says_nothing_is_told():
    bags, y, _ = planted(shift=1.0)
    with pytest.warns(UserWarning, match="training ended at w = 0, which gives every"):
        model = LatentStructSVM(C=100.0, truth="any").fit(bags, y)
    assert not model.coef_.any()


def test_stopping_early_is_told_with_the_remedy():
    bags, y, _ = planted(shift=1.0)
    with pytest.warns(ConvergenceWarning, match="max_calls=2 calls were not enough; raise it, lower C or raise tol"):
        LatentStructSVM(C=10.0, max_calls=2, max_iter=3).fit(bags, y)


@pytest.mark.parametrize(
    ("options", "y", "message"),
    [
        ({}, np.ones(24), "y must hold two classes, got 1."),
        ({}, [1, 0], "y must have one label per bag, got 2 for 24 bags."),
        ({"C": -1}, None, "C must be a finite number greater than 0, got -1."),
        ({"tol": 0}, None, "tol must be a finite number greater than 0, got 0."),
        ({"loss": "zero_one"}, None, "loss must be one of rankings, got 'zero_one', which decomposes over the samples"),
        ({"loss": "map"}, None, "loss must be one of ap, ndcg, auc, mrr, pos_at_top, zero_one"),
        ({"truth": "best"}, None, "truth must be one of any, imputed, got 'best'."),
        ({"init": "box"}, None, "got 'box'."),
        ({"scale": "norm"}, None, "scale must be 'mean_norm', None or a number, got 'norm'."),
    ],
)
def test_bad_input_is_one_clear_sentence(options, y, message):
    bags, good, _ = planted()
    with pytest.raises(InputError, match=re.escape(message)):
        LatentStructSVM(**options).fit(bags, good if y is None else y)


def test_an_estimator_that_is_not_fitted_says_so():
    with pytest.raises(NotFittedError):
        LatentStructSVM().predict([np.ones((2, 3))])
