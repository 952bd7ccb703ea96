"""The latent estimators: fitted attributes, prediction, scikit-learn's tools, bad input."""

import re

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict, cross_val_score

from lapsvm.bags import Bags
from lapsvm.errors import InputError, LapsvmError
from lapsvm.latent import fit_many
from lapsvm.models import LatentRankSVM, LatentStructSVM, LatentSVM
from lapsvm.models.threshold import balanced_intercept
from lapsvm.ranking import average_precision, most_violated_ranking

from ..twins.planted import planted

EACH = [LatentRankSVM("ap", C=10.0), LatentSVM(C=1.0, J=2.0), LatentStructSVM("ap", C=10.0)]
MODELS = [
    *(LatentRankSVM(loss, C=10.0) for loss in ("ap", "ndcg", "auc", "mrr", "pos_at_top", "zero_one")),
    LatentSVM(C=1.0, J=2.0),
    LatentSVM(C=1.0, J=2.0, fit_intercept=True),
    *(LatentStructSVM(loss, C=10.0) for loss in ("ap", "ndcg", "auc", "mrr", "pos_at_top")),
    LatentStructSVM("ap", C=10.0, truth="any"),
]
of_each = pytest.mark.parametrize("model", EACH, ids=str)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_a_fit_is_certified_and_ranks_the_images(model):
    bags, y, _ = planted(n_bags=24, size=5, dim=4, shift=9.0)
    fitted = clone(model).fit(bags, y)
    assert 0 <= fitted.duality_gap_ <= 1e-3
    assert fitted.n_iter_ >= len(fitted.history_) >= 1
    assert fitted.history_[-1]["objective"] == fitted.objective_
    assert fitted.score(bags, y) == average_precision(fitted.decision_function(bags), y)
    assert fitted.score(bags, y) > 0.95


def test_with_one_window_per_image_the_structural_svm_is_the_latent_rank_svm():
    rng = np.random.default_rng(0)
    y = np.where(np.arange(20) < 6, 1, -1)
    bags = list((rng.normal(size=(20, 3)) + (y > 0)[:, None])[:, None, :])
    model, other = (kind("ap", C=10.0, tol=1e-6).fit(bags, y) for kind in (LatentStructSVM, LatentRankSVM))
    assert model.objective_ == pytest.approx(other.objective_, rel=1e-5)
    np.testing.assert_allclose(model.coef_, other.coef_, atol=1e-2)
    np.testing.assert_allclose(model.decision_function(bags), other.decision_function(bags), atol=1e-2)


@of_each
def test_scores_are_those_of_the_best_windows(model):
    bags, y, places = planted(n_bags=45, shift=9.0)
    model = clone(model).fit(bags, y)
    np.testing.assert_array_equal(model.best_windows(bags)[y > 0], places[y > 0])
    windows = np.split(model.score_windows(bags), len(bags))
    np.testing.assert_allclose([own.max() for own in windows], model.decision_function(bags))
    np.testing.assert_array_equal([own.argmax() for own in windows], model.best_windows(bags))
    by_hand = [bag @ model.coef_ + model.intercept_ for bag in bags]
    np.testing.assert_allclose(np.concatenate(windows), np.concatenate(by_hand))


@of_each
def test_predict_is_decision_above_0_in_the_callers_classes(model):
    bags, y, _ = planted(n_bags=24, shift=6.0)
    model = clone(model).fit(bags, np.where(y > 0, 7, 3))
    np.testing.assert_array_equal(model.classes_, [3, 7])
    np.testing.assert_array_equal(model.predict(bags), np.where(model.decision_function(bags) > 0, 7, 3))


def test_the_objective_is_the_primal_at_the_weights_of_the_scaled_features():
    bags, y, _ = planted(n_bags=45, shift=4.0)
    model = LatentRankSVM("ap", C=10.0, top=1).fit(bags, y)
    scores = model.decision_function(bags) - model.intercept_
    weights = model.coef_ / model.feature_scale_
    primal = weights @ weights / 2 + 10.0 * most_violated_ranking(scores, y).violation
    assert primal <= model.objective_ * (1 + 1e-9)
    assert model.objective_ * (1 - model.duality_gap_) <= primal or model.history_[-1]["changed"] > 0


@pytest.mark.parametrize("size", [2.0**-20, 2.0**20])  # powers of two, so that rounding takes no other path
@of_each
def test_C_means_the_same_for_any_unit_of_the_features(model, size):
    bags, y, _ = planted(n_bags=24, size=5, dim=4, shift=6.0)
    plain, scaled = clone(model).fit(bags, y), clone(model).fit([bag * size for bag in bags], y)
    assert scaled.objective_ == pytest.approx(plain.objective_, rel=1e-6)
    np.testing.assert_array_equal(scaled.best_windows([bag * size for bag in bags]), plain.best_windows(bags))


def test_no_scale_leaves_the_features_as_they_are():
    bags, y, _ = planted(n_bags=45, shift=4.0)
    model = LatentRankSVM("ap", C=0.5, scale=None).fit(bags, y)
    assert model.feature_scale_ == 1
    other = LatentRankSVM("ap", C=0.5, scale=1.0).fit(bags, y)
    np.testing.assert_array_equal(model.coef_, other.coef_)
    norm = np.mean(np.linalg.norm(np.concatenate(bags), axis=1))
    assert LatentRankSVM("ap", C=0.5).fit(bags, y).feature_scale_ == pytest.approx(1 / norm)


@of_each
def test_bags_and_plain_sequences_are_the_same_input_and_their_problem_is_what_fit_solves(model):
    bags, y, _ = planted(n_bags=24, shift=6.0)
    model = clone(model).set_params(scale=None)
    first, second = clone(model).fit(bags, y), model.fit(Bags.from_arrays(bags), y)
    np.testing.assert_array_equal(first.coef_, second.coef_)
    np.testing.assert_array_equal(first.coef_, fit_many([model.problem(y)], bags)[0].coef)


def test_the_same_seed_gives_the_same_model():
    bags, y, _ = planted(n_bags=24, size=5, dim=4, shift=1.0)
    model = LatentStructSVM(init="random", random_state=3)
    np.testing.assert_array_equal(clone(model).fit(bags, y).coef_, clone(model).fit(bags, y).coef_)


@pytest.mark.parametrize("wrap", [list, Bags.from_arrays])
@of_each
def test_scikit_learns_search_and_cross_validation_take_bags(model, wrap):
    bags, y, _ = planted(n_bags=30, size=5, dim=4, shift=6.0)
    search = GridSearchCV(clone(model), {"C": [0.1, 10.0]}, cv=3).fit(wrap(bags), y)
    assert search.best_score_ > 0.8
    assert search.predict(wrap(bags)).shape == y.shape
    assert cross_val_score(clone(model), wrap(bags), y, cv=3, scoring="roc_auc").mean() > 0.8
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    held_out = cross_val_predict(clone(model), wrap(bags), y, cv=folds, method="decision_function")
    assert held_out.shape == y.shape


def test_a_fold_is_trained_on_its_own_bags():
    bags, y, _ = planted(n_bags=30, size=5, dim=4, shift=4.0)
    train, test = np.arange(10, 30), np.arange(10)
    expected = LatentRankSVM().fit([bags[i] for i in train], y[train]).score([bags[i] for i in test], y[test])
    found = cross_val_score(LatentRankSVM(), Bags.from_arrays(bags), y, cv=[(train, test)])
    assert found.tolist() == [expected]


def test_duplicated_images_and_constant_features_are_no_trouble():
    bags, y, _ = planted(n_bags=45, shift=4.0)
    doubled = [np.hstack([bag, np.ones((8, 2))]) for bag in bags * 2]
    assert LatentRankSVM("ap", C=10.0).fit(doubled, np.tile(y, 2)).duality_gap_ <= 1e-3


def test_a_model_that_says_nothing_is_told():
    bags, y, _ = planted(n_bags=24, size=5, dim=4, shift=1.0)
    zeros = [np.zeros((2, 3)) for _ in range(6)], [1, 0, 1, 0, 1, 0]
    for model, data in ((LatentRankSVM("ap"), zeros), (LatentStructSVM(C=100.0, truth="any"), (bags, y))):
        with pytest.warns(UserWarning, match="training ended at w = 0, which gives every image the same score"):
            model.fit(*data)
        assert not model.coef_.any()


def test_stopping_early_is_told_with_the_remedy():
    bags, y, _ = planted(n_bags=24, size=5, dim=4, shift=1.0)
    with pytest.warns(ConvergenceWarning, match="max_calls=2 calls were not enough; raise it, lower C or raise tol"):
        LatentStructSVM(C=10.0, max_calls=2, max_iter=3).fit(bags, y)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (LatentRankSVM(loss="map"), "loss must be one of ap, ndcg, auc, mrr, pos_at_top, partial_auc, zero_one"),
        (LatentRankSVM(top=-1), "top must be a finite number greater than 0, got -1."),
        (LatentRankSVM(tol=0), "tol must be a finite number greater than 0, got 0."),
        (LatentStructSVM(loss="map"), "loss must be one of ap, ndcg, auc, mrr, pos_at_top, partial_auc, zero_one"),
        (LatentStructSVM(loss="zero_one"), "loss must be one of rankings, got 'zero_one', which decomposes over the"),
        (LatentStructSVM(truth="best"), "truth must be one of any, imputed, got 'best'."),
        *(
            (kind(**{name: value}), message)
            for kind in (LatentRankSVM, LatentStructSVM)
            for name, value, message in (
                ("init", "box", "init must be one of mean, whole_image, random, windows or weights, got 'box'."),
                ("scale", "norm", "scale must be 'mean_norm', None or a number, got 'norm'."),
                ("scale", -1.0, "scale must be a finite number greater than 0, got -1.0."),
                ("C", np.nan, "C must be a finite number greater than 0, got nan."),
            )
        ),
    ],
    ids=str,
)
def test_a_setting_that_breaks_its_rule_is_one_clear_sentence(model, message):
    bags, y, _ = planted()
    with pytest.raises(InputError, match=re.escape(message)):
        model.fit(bags, y)


def test_a_bad_feature_is_told_by_its_window():
    bags, y, _ = planted()
    bags[2][3, 1] = np.nan
    with pytest.raises(LapsvmError, match="features must be finite, got nan in window 19"):
        LatentSVM().fit(bags, y)


@of_each
def test_an_estimator_that_is_not_fitted_says_so(model):
    with pytest.raises(NotFittedError):
        clone(model).predict([np.ones((2, 3))])


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
