"""scikit-learn's searches and folds over bags."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict, cross_val_score

from lapsvm.bags import Bags
from lapsvm.models import LatentRankSVM, LatentSVM


def planted(n_bags=30, size=5, shift=4.0):
    """Return bags and labels; the first feature of one window tells the classes apart."""
    windows = np.random.default_rng(0).normal(size=(n_bags, size, 4))
    y = np.where(np.arange(n_bags) % 3 == 0, 1, -1)
    windows[y > 0, 2, 0] += shift
    return list(windows), y


@pytest.mark.parametrize("wrap", [list, Bags.from_arrays])
def test_searches_and_folds_take_bags(wrap):
    bags, y = planted()
    search = GridSearchCV(LatentRankSVM(), {"C": [0.1, 5.0]}, cv=3).fit(wrap(bags), y)
    assert search.best_score_ > 0.8
    assert search.predict(wrap(bags)).shape == y.shape
    scores = cross_val_score(LatentSVM(J=2.0), wrap(bags), y, cv=3, scoring="roc_auc")
    assert scores.mean() > 0.8
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    held_out = cross_val_predict(LatentRankSVM(), wrap(bags), y, cv=folds, method="decision_function")
    assert held_out.shape == y.shape


def test_a_fold_is_trained_on_its_own_bags():
    bags, y = planted()
    train, test = np.arange(10, 30), np.arange(10)
    expected = LatentRankSVM().fit([bags[i] for i in train], y[train]).score([bags[i] for i in test], y[test])
    found = cross_val_score(clone(LatentRankSVM()), Bags.from_arrays(bags), y, cv=[(train, test)])
    assert found.tolist() == [expected]
