"""The latent estimators: fitted attributes, prediction, scikit-learn's tools, bad input."""

import re

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score

from lapsvm.bags import Bags
from lapsvm.errors import InputError, LapsvmError
from lapsvm.models import LatentRankSVM, LatentSVM
from lapsvm.models.threshold import balanced_intercept
from lapsvm.ranking import average_precision, most_violated_ranking


def planted(seed=0, n_bags=45, size=8, dim=6, shift=4.0):
    rng = np.random.default_rng(seed)
    windows = rng.normal(size=(n_bags, size, dim))
    y = np.where(np.arange(n_bags) % 3 == 0, 1, -1)
    places = rng.integers(0, size, n_bags)
    windows[np.flatnonzero(y > 0), places[y > 0], 0] += shift
    return list(windows), y, places


MODELS = [
    *(LatentRankSVM(loss, C=10.0) for loss in ("ap", "ndcg", "auc", "mrr", "pos_at_top", "zero_one")),
    LatentSVM(C=1.0, J=2.0),
    LatentSVM(C=1.0, J=2.0, fit_intercept=True),
]


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_a_fit_is_certified_and_ranks_the_images(model):
    bags, y, _ = planted(shift=8.0)
    fitted = clone(model).fit(bags, y)
    assert fitted.duality_gap_ <= 1e-3
    assert fitted.n_iter_ >= len(fitted.history_) >= 1
    assert fitted.history_[-1]["objective"] == fitted.objective_
    assert fitted.score(bags, y) == average_precision(fitted.decision_function(bags), y)
    assert fitted.score(bags, y) > 0.95


def test_scores_are_those_of_the_best_windows():
    bags, y, places = planted(shift=8.0)
    model = LatentRankSVM("ap", C=10.0).fit(bags, y)
    np.testing.assert_array_equal(model.best_windows(bags)[y > 0], places[y > 0])
    windows = np.split(model.score_windows(bags), len(bags))
    np.testing.assert_allclose([own.max() for own in windows], model.decision_function(bags))
    np.testing.assert_array_equal([own.argmax() for own in windows], model.best_windows(bags))
    by_hand = [bag @ model.coef_ + model.intercept_ for bag in bags]
    np.testing.assert_allclose(np.concatenate(windows), np.concatenate(by_hand))


def test_predict_is_decision_above_0_in_the_callers_classes():
    bags, y, _ = planted()
    model = LatentRankSVM("ap", C=10.0).fit(bags, np.where(y > 0, 7, 3))
    np.testing.assert_array_equal(model.classes_, [3, 7])
    np.testing.assert_array_equal(model.predict(bags), np.where(model.decision_function(bags) > 0, 7, 3))


def test_the_objective_is_the_primal_at_the_weights_of_the_scaled_features():
    bags, y, _ = planted()
    model = LatentRankSVM("ap", C=10.0, top=1).fit(bags, y)
    scores = model.decision_function(bags) - model.intercept_
    weights = model.coef_ / model.feature_scale_
    primal = weights @ weights / 2 + 10.0 * most_violated_ranking(scores, y).violation
    assert primal <= model.objective_ * (1 + 1e-9)
    assert model.objective_ * (1 - model.duality_gap_) <= primal or model.history_[-1]["changed"] > 0


@pytest.mark.parametrize("size", [1e-6, 1e6])
@pytest.mark.parametrize("model", [LatentRankSVM("ap", C=10.0), LatentSVM(C=1.0)], ids=str)
def test_C_means_the_same_for_any_unit_of_the_features(model, size):
    bags, y, _ = planted()
    plain, scaled = clone(model).fit(bags, y), clone(model).fit([bag * size for bag in bags], y)
    assert scaled.objective_ == pytest.approx(plain.objective_, rel=1e-6)
    np.testing.assert_array_equal(scaled.best_windows([bag * size for bag in bags]), plain.best_windows(bags))


def test_no_scale_leaves_the_features_as_they_are():
    bags, y, _ = planted()
    model = LatentRankSVM("ap", C=0.5, scale=None).fit(bags, y)
    assert model.feature_scale_ == 1
    other = LatentRankSVM("ap", C=0.5, scale=1.0).fit(bags, y)
    np.testing.assert_array_equal(model.coef_, other.coef_)
    norm = np.mean(np.linalg.norm(np.concatenate(bags), axis=1))
    assert LatentRankSVM("ap", C=0.5).fit(bags, y).feature_scale_ == pytest.approx(1 / norm)


def test_bags_and_plain_sequences_are_the_same_input():
    bags, y, _ = planted()
    first, second = LatentRankSVM(C=10.0).fit(bags, y), LatentRankSVM(C=10.0).fit(Bags.from_arrays(bags), y)
    np.testing.assert_array_equal(first.coef_, second.coef_)


@pytest.mark.parametrize("wrap", [list, Bags.from_arrays])
def test_scikit_learns_search_and_cross_validation_take_bags(wrap):
    bags, y, _ = planted()
    search = GridSearchCV(LatentRankSVM("ap"), {"C": [0.1, 10.0]}, cv=3).fit(wrap(bags), y)
    assert search.best_score_ > 0.5
    scores = cross_val_score(LatentSVM(C=1.0, J=2.0), wrap(bags), y, cv=3, scoring="average_precision")
    assert len(scores) == 3
    assert search.best_estimator_.predict(wrap(bags)).shape == y.shape


def test_duplicated_images_and_constant_features_are_no_trouble():
    bags, y, _ = planted()
    doubled = [np.hstack([bag, np.ones((8, 2))]) for bag in bags * 2]
    model = LatentRankSVM("ap", C=10.0).fit(doubled, np.tile(y, 2))
    assert model.duality_gap_ <= 1e-3


def test_one_positive_is_enough():
    bags, _, _ = planted()
    model = LatentRankSVM("ap", C=10.0).fit(bags, np.arange(45) == 0)
    assert model.duality_gap_ <= 1e-3


def test_features_that_say_nothing_are_told():
    bags = [np.zeros((2, 3)) for _ in range(6)]
    with pytest.warns(UserWarning, match="training ended at w = 0, which gives every image the same score"):
        LatentRankSVM("ap").fit(bags, [1, 0, 1, 0, 1, 0])


@pytest.mark.parametrize(
    ("options", "y", "message"),
    [
        ({}, np.ones(45), "y must hold two classes, got 1."),
        ({}, np.arange(45), "y must hold two classes, got 45."),
        ({}, [1, 0], "y must have one label per bag, got 2 for 45 bags."),
        ({}, np.append(np.nan, np.ones(44)), "y must be finite, got nan at index 0."),
        ({"C": -1}, None, "C must be a finite number greater than 0, got -1."),
        ({"C": np.nan}, None, "C must be a finite number greater than 0, got nan."),
        ({"tol": 0}, None, "tol must be a finite number greater than 0, got 0."),
        ({"top": -1}, None, "top must be a finite number greater than 0, got -1."),
        ({"loss": "map"}, None, "loss must be one of ap, ndcg, auc, mrr, pos_at_top, zero_one"),
        ({"init": "centre"}, None, "init must be one of mean, whole_image, random, windows or weights, got 'centre'."),
        ({"scale": "norm"}, None, "scale must be 'mean_norm', None or a number, got 'norm'."),
        ({"scale": -1.0}, None, "scale must be a finite number greater than 0, got -1.0."),
    ],
)
def test_bad_input_is_one_clear_sentence(options, y, message):
    bags, good, _ = planted()
    with pytest.raises(InputError, match=re.escape(message)):
        LatentRankSVM(**options).fit(bags, good if y is None else y)


def test_a_bad_feature_is_told_by_its_window():
    bags, y, _ = planted()
    bags[2][3, 1] = np.nan
    with pytest.raises(LapsvmError, match="features must be finite, got nan in window 19"):
        LatentSVM().fit(bags, y)


def test_an_estimator_that_is_not_fitted_says_so():
    with pytest.raises(NotFittedError):
        LatentSVM().predict([np.ones((2, 3))])


@pytest.mark.parametrize(
    ("scores", "positive", "right"),
    [
        ([3.0, 1.0, 2.0, 0.0], [True, False, True, False], 4),
        ([0.0, 0.0, 0.0, 1.0], [False, False, True, True], 3),
        ([1.0, 1.0], [True, False], 1),
    ],
)
def test_the_threshold_has_the_best_balanced_accuracy(scores, positive, right):
    scores, positive = np.array(scores), np.array(positive)
    predicted = scores + balanced_intercept(scores, positive) > 0
    assert np.sum(predicted == positive) == right


def test_the_threshold_lies_midway_between_neighbours():
    assert balanced_intercept(np.array([0.0, 1.0, 4.0, 5.0]), np.array([False, False, True, True])) == -2.5
