"""Which instance of a bag it is: scores of instances, transformers of instances, and tests of what a learner relies on.

The three data sets follow the unit tests of multiple-instance learners by E. Raff and J. Holt, NeurIPS 2023: each has
a rule that a learner may find in training and that is wrong on the test bags.
"""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from lapsvm.bags import Bags
from lapsvm.errors import ShapeError
from lapsvm.models import BagTransformer, LatentRankSVM, LatentStructSVM, LatentSVM

DIM, COUNT = 8, 60
LEARNERS = [LatentRankSVM("ap", C=10, top=1), LatentRankSVM("auc", C=10, top=1), LatentSVM(C=1, fit_intercept=True)]


def drawn(seed, present, count=COUNT):
    """Return bags of 10 background instances and of given numbers of each of three concepts, and their labels.

    `present(positive, rng)` returns the numbers of instances of the concepts 0, 1 and 2, which lie on three axes.
    """
    rng, bags = np.random.default_rng(seed), []
    labels = np.repeat([1, -1], count // 2)
    for label in labels:
        centres = np.repeat(np.eye(DIM)[:3] * 6, present(label > 0, rng), axis=0)
        bags.append(np.vstack([rng.normal(size=(10, DIM)), centres + rng.normal(size=centres.shape) * 0.3]))
    return bags, labels


def absence(positive, rng):
    """Concept 0 makes a bag positive; concept 1 is in all negative training bags, and says nothing."""
    return (int(positive), 0 if positive else rng.integers(1, 3), 0)


def absence_turned(positive, rng):
    """The test bags: concept 1 is in the positive bags, of which it says nothing either."""
    return (int(positive), rng.integers(1, 3) if positive else 0, 0)


def threshold(positive, rng):
    """Concepts 0 and 1 together make a bag positive; each alone is in negative bags; concept 2 is a poison."""
    alone = rng.integers(2)
    return (1, 1, 1) if positive else (alone, 1 - alone, 0)


def threshold_turned(positive, rng):
    alone = rng.integers(2)
    return (1, 1, 0) if positive else (alone, 1 - alone, 1)


def frequency(positive, rng):
    """Concepts 0 and 1 together make a bag positive; in training negative bags have few of one of them."""
    return (2, 2, 0) if positive else ((1, 0, 0), (0, 1, 0))[rng.integers(2)]


def frequency_turned(positive, rng):
    return (1, 1, 0) if positive else ((4, 0, 0), (0, 4, 0))[rng.integers(2)]


@pytest.mark.parametrize("model", LEARNERS, ids=lambda model: type(model).__name__ + getattr(model, "loss", ""))
def test_what_is_absent_is_no_evidence(model):
    """A maximum of linear scores passes: an instance can only raise the score of its bag."""
    model.fit(*drawn(0, absence))
    bags, labels = drawn(1, absence_turned)
    assert roc_auc_score(labels, model.decision_function(bags)) > 0.99
    best = model.best_windows(bags)[labels > 0]
    assert (best == 10).mean() > 0.95  # the instance of concept 0


@pytest.mark.parametrize(("seen", "turned"), [(threshold, threshold_turned), (frequency, frequency_turned)])
def test_two_concepts_together_are_beyond_one_linear_score(seen, turned):
    """Both tests of two concepts are failed, as pages say: the best instance of a negative bag is as good."""
    model = LatentRankSVM("ap", C=10, top=1).fit(*drawn(0, seen))
    bags, labels = drawn(1, turned)
    assert roc_auc_score(labels, model.decision_function(bags)) < 0.65


@pytest.mark.parametrize("model", [*LEARNERS, LatentStructSVM("ap", C=1)], ids=lambda model: repr(model)[:24])
def test_scores_of_instances_are_those_of_windows_and_bags(model):
    bags, labels = drawn(2, absence, count=12)
    scores = model.fit(bags, labels).instance_scores(bags)
    assert [len(one) for one in scores] == [len(bag) for bag in bags]
    assert np.array_equal(np.concatenate(scores), model.score_windows(bags))
    assert np.allclose([one.max() for one in scores], model.decision_function(bags), rtol=1e-6)
    assert np.array_equal([one.argmax() for one in scores], model.best_windows(bags))


def test_a_transformer_stands_before_a_learner():
    bags, _ = drawn(3, absence, count=20)
    scaler = StandardScaler().fit(np.concatenate(bags))
    transformed = BagTransformer(StandardScaler()).fit(bags).transform(Bags.from_arrays(bags))
    assert np.allclose(transformed[4], scaler.transform(bags[4]))
    assert np.array_equal(transformed.offsets, Bags.from_arrays(bags).offsets)


def test_a_transformer_that_is_not_fitted_or_drops_instances_is_named():
    bags, _ = drawn(3, absence, count=4)
    with pytest.raises(NotFittedError):
        BagTransformer(StandardScaler()).transform(bags)
    dropping = BagTransformer(FunctionTransformer(lambda rows: rows[1:])).fit(bags)
    with pytest.raises(ShapeError, match=r"^instances and transformed instances must have the same length, got 45 and"):
        dropping.transform(bags)


def test_a_kernel_finds_instances_in_a_ball():
    """Instances near zero make a bag positive, which no linear score finds."""
    rng = np.random.default_rng(4)
    labels = np.repeat([1, -1], 30)
    rows = rng.normal(size=(60, 6, 2))
    bags = 3 * rows / np.linalg.norm(rows, axis=2, keepdims=True)
    bags[labels > 0, 0] *= 0.1
    bags = list(bags)
    linear = LatentRankSVM("ap", C=10, top=1)
    kernel = make_pipeline(BagTransformer(Nystroem(gamma=0.5, n_components=40, random_state=0)), linear)
    search = GridSearchCV(kernel, {"latentranksvm__C": [1, 10]}, cv=3).fit(bags, labels)
    assert roc_auc_score(labels, cross_val_predict(search, bags, labels, cv=3, method="decision_function")) > 0.95
    assert search.best_estimator_[-1].best_windows(search.best_estimator_[0].transform(bags))[0] == 0
    alone = cross_val_predict(linear, bags, labels, cv=3, method="decision_function")
    assert roc_auc_score(labels, alone) < 0.7
