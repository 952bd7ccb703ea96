"""What is wrong with the input of latent learners is said in one sentence; what is only odd is trained all the same."""

import re

import numpy as np
import pytest

from lapsvm.errors import InputError, LapsvmError, NotFiniteError, OneClassError, ShapeError
from lapsvm.latent import HingeRisk, LatentProblem, fit_many
from lapsvm.models import LatentRankSVM, LatentStructSVM, LatentSVM
from lapsvm.ranking import average_precision

rng = np.random.default_rng(0)
Y = np.where(np.arange(12) % 3 == 0, 1, -1)
BAGS = list(rng.normal(size=(12, 3, 2)) + (Y > 0)[:, None, None])
LATENT = (LatentRankSVM, LatentSVM, LatentStructSVM)


@pytest.mark.parametrize("kind", LATENT)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"C": "1"}, "C must be a finite number greater than 0, got '1'."),
        ({"C": None}, "C must be a finite number greater than 0, got None."),
        ({"C": True}, "C must be a finite number greater than 0, got True."),
        ({"C": np.ones(2)}, "C must be a finite number greater than 0, got array"),
        ({"C": -1}, "C must be a finite number greater than 0, got -1."),
        ({"tol": "x"}, "tol must be a finite number greater than 0, got 'x'."),
        ({"max_iter": 1.5}, "max_iter must be a whole number of 1 or more, got 1.5."),
        ({"max_iter": "x"}, "max_iter must be a whole number of 1 or more, got 'x'."),
        ({"max_iter": 0}, "max_iter must be a whole number of 1 or more, got 0."),
        ({"max_calls": np.nan}, "max_calls must be a whole number of 1 or more, got nan."),
        ({"random_state": -1}, "random_state must be a whole number of 0 or more, got -1."),
        ({"random_state": None}, "random_state must be a whole number of 0 or more, got None."),
        ({"random_state": 1.5}, "random_state must be a whole number of 0 or more, got 1.5."),
        ({"n_init": "x"}, "n_init must be a whole number of 1 or more, got 'x'."),
        ({"scale": [1, 2]}, "scale must be a finite number greater than 0, got [1, 2]."),
        ({"scale": np.nan}, "scale must be a finite number greater than 0, got nan."),
        ({"callback": 3}, "callback must be callable or None, got 3."),
        ({"init": [[1], [1, 2]]}, "init must be one of mean, whole_image, random, windows or weights, got"),
        ({"init": None}, "init must be one of mean, whole_image, random, windows or weights, got None."),
        ({"init": np.full(2, np.nan)}, "init must be finite, got nan at index 0."),
    ],
    ids=str,
)
def test_a_parameter_that_breaks_its_rule_is_named(kind, options, message):
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        kind(**options).fit(BAGS, Y)


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (LatentRankSVM(top=1.5).fit, "top must be a share below 1 or a whole number, got 1.5."),
        (LatentRankSVM(top=np.nan).fit, "top must be a finite number greater than 0, got nan."),
        (LatentRankSVM(top="x").fit, "top must be a finite number greater than 0, got 'x'."),
        (LatentRankSVM(loss=3).fit, "loss must be one of ap,"),
        (LatentSVM(J="x").fit, "J must be a finite number greater than 0, got 'x'."),
        (LatentSVM(J=0).fit, "J must be a finite number greater than 0, got 0."),
        (LatentSVM(c="x").fit, "trim must be at least 0 and below 1, got 'x'."),
        (LatentSVM(c=np.nan).fit, "trim must be at least 0 and below 1, got nan."),
        (LatentSVM(fit_intercept="no").fit, "fit_intercept must be True or False, got 'no'."),
        (lambda _, y: LatentProblem(y, risk=3), "risk must have a method violation, got 3."),
        (lambda _, y: LatentProblem(y, seed=-1), "seed must be a whole number of 0 or more, got -1."),
        (lambda *_: HingeRisk(np.inf), "J must be a finite number greater than 0, got inf."),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_parameter_of_one_learner_or_problem_that_breaks_its_rule_is_named(fit, message):
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        fit(BAGS, Y)


@pytest.mark.parametrize("kind", LATENT)
@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        (np.ones(12), OneClassError, "y must hold two classes, got 1."),
        (np.zeros(12), OneClassError, "y must hold two classes, got 1."),
        (np.arange(12) % 3, OneClassError, "y must hold two classes, got 3."),
        (np.repeat([-1, 0], 6), OneClassError, "y must hold two classes, got only -1: with labels -1 and 0"),
        (["a", "b"] * 6, InputError, "y must be numbers, got <U1."),
        (["0", "1"] * 6, InputError, "y must be numbers, got <U1."),
        (None, InputError, "y must be numbers, got None."),
        ([1, -1], ShapeError, "y must have one label per bag, got 2 for 12 bags."),
        (np.ones((12, 1)), ShapeError, "y must have 1 dimension(s), got shape (12, 1)."),
        (np.append(Y[1:], np.inf), NotFiniteError, "y must be finite, got inf at index 11."),
    ],
)
def test_labels_that_are_not_two_classes_are_refused(kind, y, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        kind().fit(BAGS, y)


@pytest.mark.parametrize("kind", LATENT)
@pytest.mark.parametrize(
    ("bags", "message"),
    [
        ([], "bags must be one or more, got 0."),
        ([np.ones((0, 2)), *BAGS[1:]], "every bag must be an array of one or more windows"),
        ([np.ones((2, 3)), *BAGS[1:]], "every bag must be an array of one or more windows"),
        ([np.full((1, 2), np.nan), *BAGS[1:]], "features must be finite, got nan in window 0."),
        ([np.full((1, 2), -np.inf), *BAGS[1:]], "features must be finite, got -inf in window 0."),
        ([bag * 1e300 for bag in BAGS], "the features' mean norm must be finite, got inf; rescale the features."),
        ([[["a", "b"]]] * 12, "bags must be numbers, got <U1."),
        (7, "bags must be a sequence of arrays, got 7."),
    ],
    ids=lambda bags: str(bags)[:20],
)
def test_bags_that_are_none_are_refused(kind, bags, message):
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        kind().fit(bags, Y)


@pytest.mark.parametrize("kind", LATENT)
def test_new_bags_must_fit_the_model(kind):
    model = kind().fit(BAGS, Y)
    with pytest.raises(LapsvmError, match=r"^bags must have 2 features, as those of training, got 3\.$"):
        model.predict([np.ones((2, 3))])
    with pytest.raises(LapsvmError, match=r"^bags must have 2 features, as those of training, got 1\.$"):
        model.score_windows([np.ones((2, 1))])
    with pytest.raises(NotFiniteError, match=r"^features must be finite, got nan in window 0\.$"):
        model.decision_function([np.full((1, 2), np.nan)])
    with pytest.raises(ShapeError, match=r"^y and bags must have the same length, got 3 and 12\.$"):
        model.score(BAGS, Y[:3])


@pytest.mark.parametrize("known", [["a"] * 12, [[0], [0, 1]], np.full(12, 0.5)])
def test_fixed_windows_that_are_none_are_refused(known):
    with pytest.raises(InputError, match=r"^fixed_windows must be whole numbers"):
        LatentRankSVM().fit(BAGS, Y, fixed_windows=known)


@pytest.mark.parametrize("kind", LATENT)
@pytest.mark.parametrize("y", [np.arange(12) == 0, np.arange(12) > 0], ids=["one positive", "one negative"])
def test_one_image_of_a_class_is_enough(kind, y):
    options = {"fit_intercept": True, "J": 11.0 if y.sum() == 1 else 1.0} if kind is LatentSVM else {}
    model = kind(C=5.0, **options).fit(BAGS, y)
    assert model.duality_gap_ <= 1e-3
    assert set(model.predict(BAGS)) <= {False, True}


@pytest.mark.parametrize("kind", LATENT)
def test_images_that_are_all_the_same_are_told(kind):
    where = "with weights that give" if kind is LatentSVM else "at w = 0, which gives"
    with pytest.warns(UserWarning, match=f"training ended {where} every image the same score"):
        kind().fit([BAGS[0]] * 12, Y)


@pytest.mark.parametrize("kind", LATENT)
def test_constant_features_and_duplicated_windows_change_no_ranking(kind):
    plain = kind(C=5.0, tol=1e-5, scale=1.0).fit(BAGS, Y)
    more = [np.vstack([bag, bag]) @ np.eye(2, 3) + [0, 0, 7.0] for bag in BAGS]
    odd = kind(C=5.0, tol=1e-5, scale=1.0).fit(more, Y)
    if kind is not LatentSVM:  # to whom a constant feature is an intercept
        assert odd.objective_ == pytest.approx(plain.objective_, rel=1e-4)
        assert abs(odd.coef_[2]) < 1e-6
    assert odd.duality_gap_ <= 1e-5


@pytest.mark.parametrize("unit", [2.0**-20, 2.0**20])  # exact, so that no near tie is decided otherwise
@pytest.mark.parametrize("kind", LATENT)
def test_the_same_C_gives_the_same_ranking_whatever_the_unit_of_the_features(kind, unit):
    rng = np.random.default_rng(1)
    y = np.where(np.arange(40) % 4 == 0, 1, -1)
    bags = list(rng.normal(size=(40, 3, 4)) + 1.5 * (y > 0)[:, None, None])
    train, test = np.arange(25), np.arange(25, 40)

    def trained(C, factor):
        return kind(C=C, tol=1e-6).fit([bags[i] * factor for i in train], y[train])

    def scores(model, factor):
        return model.decision_function([bags[i] * factor for i in test])

    grid = (0.1, 1.0, 10.0)
    plain, other = ({C: scores(trained(C, factor), factor) for C in grid} for factor in (1.0, unit))
    for C in grid:
        np.testing.assert_allclose(other[C], plain[C], atol=2e-3 * np.ptp(plain[C]))
    chosen = [max(grid, key=lambda C: average_precision(found[C], y[test])) for found in (plain, other)]
    assert chosen[0] == chosen[1]


def test_without_the_default_scale_C_means_something_else_in_another_unit():
    found = [LatentRankSVM(scale=None).fit([bag * unit for bag in BAGS], Y).objective_ for unit in (1.0, 1e-3)]
    assert found[1] > 1.1 * found[0]


def test_side_by_side_is_refused_like_alone():
    with pytest.raises(ShapeError, match=r"^y must have one label per bag, got 2 for 12 bags\.$"):
        fit_many([LatentProblem(Y), LatentProblem([1, -1])], BAGS)
