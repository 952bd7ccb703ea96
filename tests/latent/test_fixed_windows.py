"""Images whose window is known: they have no other one, in any kind of problem."""

import re
from dataclasses import replace

import numpy as np
import pytest

from lapsvm.bags import Bags
from lapsvm.errors import InputError, ShapeError
from lapsvm.latent import HingeRisk, LatentProblem, RankRisk, StructuralProblem, fit_many
from lapsvm.models import LatentRankSVM, LatentStructSVM, LatentSVM

PROBLEMS = [
    LatentProblem([1, -1], C=5.0),
    LatentProblem([1, -1], C=5.0, top=2),
    LatentProblem([1, -1], C=5.0, risk=HingeRisk(2.0), init="whole_image", fit_intercept=True),
    StructuralProblem([1, -1], C=5.0),
]


def drawn(seed=0, n_bags=18, dim=4):
    """Return bags of 3 to 6 windows, labels, and a window of about every second bag, -1 for the others."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n_bags) % 3 == 0, 1, -1)
    bags = [rng.normal(size=(rng.integers(3, 7), dim)) + 0.5 * (label > 0) for label in y]
    known = np.array([rng.integers(len(bag)) if rng.random() < 0.5 else -1 for bag in bags])
    known[[0, 1]] = 1, 2  # a positive one and a negative one
    return bags, y, known


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_known_image_is_trained_as_a_bag_of_its_window_alone(problem):
    bags, y, known = drawn()
    narrow = [bag if window < 0 else bag[[window]] for bag, window in zip(bags, known, strict=True)]
    found = fit_many([replace(problem, y=y, fixed_windows=known)], bags)[0]
    expected = fit_many([replace(problem, y=y)], narrow)[0]
    np.testing.assert_allclose(found.coef, expected.coef, atol=1e-12)
    assert found.objective == pytest.approx(expected.objective, rel=1e-12)
    np.testing.assert_array_equal(found.windows, np.where(known < 0, expected.windows, known))


@pytest.mark.parametrize("risk", [RankRisk("ap"), HingeRisk()])
def test_with_all_windows_known_nothing_is_latent(risk):
    bags, y, _ = drawn()
    known = np.array([len(bag) - 1 for bag in bags])
    found = fit_many([LatentProblem(y, risk=risk, C=5.0, fixed_windows=known)], bags)[0]
    supervised = fit_many([LatentProblem(y, risk=risk, C=5.0)], [bag[-1:] for bag in bags])[0]
    np.testing.assert_allclose(found.coef, supervised.coef, atol=1e-12)
    np.testing.assert_array_equal(found.windows, known)


def test_problems_with_and_without_fixed_windows_share_passes():
    bags, y, known = drawn()
    problems = [LatentProblem(y, C=5.0), LatentProblem(y, C=5.0, fixed_windows=known), StructuralProblem(y)]
    for problem, found in zip(problems, fit_many(problems, bags), strict=True):
        np.testing.assert_allclose(found.coef, fit_many([problem], bags)[0].coef, atol=1e-9)


def test_fixed_windows_win_over_given_first_ones():
    bags, y, known = drawn()
    given = np.array([len(bag) - 1 for bag in bags])
    found = fit_many([LatentProblem(y, C=5.0, init=given, fixed_windows=known)], bags)[0]
    fixed = (known >= 0) & (y > 0)
    np.testing.assert_array_equal(found.windows[fixed], known[fixed])


def test_no_window_known_is_as_if_nothing_was_said():
    bags, y, known = drawn()
    plain, none = fit_many([LatentProblem(y), LatentProblem(y, fixed_windows=np.full_like(known, -1))], bags)
    np.testing.assert_array_equal(plain.coef, none.coef)


def test_narrowed_bags_hold_the_same_features():
    bags, _, known = drawn()
    narrow = Bags.from_arrays(bags, scale=2.0).narrowed(known)
    for own, bag, window in zip(narrow, bags, known, strict=True):
        np.testing.assert_array_equal(own, 2 * (bag if window < 0 else bag[[window]]))


@pytest.mark.parametrize("model", [LatentRankSVM(C=5.0), LatentSVM(), LatentStructSVM(C=5.0)], ids=str)
def test_estimators_take_fixed_windows_in_fit(model):
    bags, y, known = drawn()
    narrow = [bag if window < 0 else bag[[window]] for bag, window in zip(bags, known, strict=True)]
    model.set_params(scale=1.0)
    expected = model.fit(narrow, y).coef_
    np.testing.assert_allclose(model.fit(bags, y, fixed_windows=known).coef_, expected, atol=1e-12)


@pytest.mark.parametrize(
    ("known", "error", "message"),
    [
        (np.zeros(3, int), ShapeError, "fixed_windows must have one window per bag, got shape (3,) for 18 bags."),
        (np.full(18, 9), InputError, "fixed_windows must be -1 or a window inside its bag, got 9 for bag 0 of"),
        (np.full(18, -2), InputError, "fixed_windows must be -1 or a window inside its bag, got -2 for bag 0 of"),
        (np.zeros(18), InputError, "fixed_windows must be whole numbers, got float64."),
    ],
)
def test_windows_that_are_none_are_refused(known, error, message):
    bags, y, _ = drawn()
    with pytest.raises(error, match=re.escape(message)):
        LatentRankSVM().fit(bags, y, fixed_windows=known)
