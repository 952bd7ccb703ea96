"""The scaler of bags: its factors, and scikit-learn's pipelines, searches and folds over bags."""

import re

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from lapsvm.bags import Bags
from lapsvm.errors import InputError, OptionError, ShapeError
from lapsvm.models import BagScaler, LatentRankSVM, LatentSVM

UNITS = np.array([1e-6, 1.0, 300.0, 1e6])


def planted(seed=0, n_bags=30, size=5, shift=4.0):
    """Return bags whose features have quite different units; the first one tells the classes apart."""
    rng = np.random.default_rng(seed)
    windows = rng.normal(size=(n_bags, size, 4))
    y = np.where(np.arange(n_bags) % 3 == 0, 1, -1)
    windows[y > 0, 2, 0] += shift
    return list(windows * UNITS), y


def pipeline():
    return Pipeline([("scale", BagScaler()), ("svm", LatentRankSVM(C=5.0))])


@pytest.mark.parametrize("with_mean", [False, True])
@pytest.mark.parametrize("wrap", [list, Bags.from_arrays])
def test_standardised_bags_are_what_a_standard_scaler_makes_of_all_windows(wrap, with_mean):
    bags, _ = planted()
    peer = StandardScaler(with_mean=with_mean).fit(np.concatenate(bags))
    scaled = BagScaler(with_mean=with_mean).fit_transform(wrap(bags))
    for one, bag in zip(scaled, bags, strict=True):
        np.testing.assert_allclose(one, peer.transform(bag), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("with_mean", [False, True])
def test_the_mean_norm_becomes_one(with_mean):
    bags, _ = planted()
    scaled = BagScaler("mean_norm", with_mean=with_mean).fit_transform(bags)
    assert scaled.mean_norm() == pytest.approx(1.0)
    assert len(set(BagScaler("mean_norm").fit(bags).factor_)) == 1


def test_dividing_copies_no_features_and_keeps_their_type():
    bags = Bags(np.random.default_rng(0).normal(size=(20, 4)).astype(np.float16), [0, 5, 20], scale=2.0)
    scaled = BagScaler().fit_transform(bags)
    assert scaled._store is bags._store
    assert scaled.dtype == np.float16
    np.testing.assert_allclose(np.concatenate(list(scaled)).std(axis=0), 1.0)
    assert BagScaler(with_mean=True).fit_transform(bags).dtype == np.float32


@pytest.mark.parametrize("unit", ["std", "mean_norm"])
def test_constant_features_stay_finite(unit):
    bags = [np.full((3, 2), 7.0), np.full((2, 2), 7.0)]
    assert np.isfinite(np.concatenate(list(BagScaler(unit).fit_transform(bags)))).all()
    zeros = BagScaler(unit, with_mean=True).fit_transform(bags)
    np.testing.assert_array_equal(np.concatenate(list(zeros)), 0.0)


def test_new_bags_are_scaled_as_the_training_ones():
    bags, _ = planted()
    scaler = BagScaler().fit(bags)
    np.testing.assert_allclose(scaler.transform([10 * bags[0]])[0], 10 * scaler.transform(bags)[0])


@pytest.mark.parametrize("wrap", [list, Bags.from_arrays])
def test_a_pipeline_of_scaler_and_learner_trains_and_answers(wrap):
    bags, y = planted()
    model = pipeline().fit(wrap(bags), y)
    by_hand = LatentRankSVM(C=5.0).fit(BagScaler().fit_transform(bags), y)
    np.testing.assert_array_equal(
        model.decision_function(wrap(bags)), by_hand.decision_function(model[:-1].transform(bags))
    )
    assert model.score(wrap(bags), y) > 0.9
    assert LatentRankSVM(C=5.0).fit(bags, y).score(bags, y) < 0.9  # the largest unit drowns the others


def test_fit_parameters_reach_the_learner():
    bags, y = planted()
    known = np.where(y > 0, 2, -1)
    model = pipeline().fit(bags, y, svm__fixed_windows=known)
    assert model.score(bags, y) > 0.9


@pytest.mark.parametrize("wrap", [list, Bags.from_arrays])
def test_searches_and_folds_take_bags_through_a_pipeline(wrap):
    bags, y = planted()
    grid = {"scale__unit": ["std", "mean_norm"], "svm__C": [0.1, 5.0]}
    search = GridSearchCV(pipeline(), grid, cv=3).fit(wrap(bags), y)
    assert search.best_params_["scale__unit"] == "std"
    assert search.predict(wrap(bags)).shape == y.shape
    scores = cross_val_score(make_pipeline(BagScaler(), LatentSVM(J=2.0)), wrap(bags), y, cv=3, scoring="roc_auc")
    assert scores.mean() > 0.8
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    held_out = cross_val_predict(pipeline(), wrap(bags), y, cv=folds, method="decision_function")
    assert held_out.shape == y.shape


def test_each_fold_is_scaled_by_its_own_training_windows():
    bags, y = planted()
    train, test = np.arange(10, 30), np.arange(10)
    expected = pipeline().fit([bags[i] for i in train], y[train]).score([bags[i] for i in test], y[test])
    found = cross_val_score(pipeline(), Bags.from_arrays(bags), y, cv=[(train, test)])
    assert found.tolist() == [expected]


def test_a_clone_has_the_parameters_and_nothing_learned():
    bags, y = planted()
    copy = clone(pipeline().set_params(scale__with_mean=True).fit(bags, y))
    assert copy["scale"].with_mean
    with pytest.raises(NotFittedError):
        copy["scale"].transform(bags)


def test_no_rank_loss_sees_the_mean():
    bags, y = planted()
    plain, centred = (
        make_pipeline(BagScaler(with_mean=with_mean), LatentRankSVM(C=5.0, tol=1e-6, scale=None)).fit(bags, y)
        for with_mean in (False, True)
    )
    assert centred[-1].objective_ == pytest.approx(plain[-1].objective_, rel=1e-5)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"unit": "max"}, OptionError, "unit must be one of std, mean_norm, got 'max'."),
        ({"unit": ["std"]}, OptionError, "unit must be one of std, mean_norm, got ['std']."),
        ({"with_mean": "no"}, InputError, "with_mean must be True or False, got 'no'."),
    ],
)
def test_parameters_that_make_no_sense_are_refused(options, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        BagScaler(**options).fit(planted()[0])


def test_bags_of_other_features_are_refused():
    scaler = BagScaler().fit(planted()[0])
    with pytest.raises(ShapeError, match=r"^bags must have 4 features, as in fit, got 3\.$"):
        scaler.transform([np.ones((2, 3))])
    with pytest.raises(ShapeError, match="bags must be one or more, got 0"):
        scaler.transform([])
