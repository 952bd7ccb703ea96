"""What rounding may do to a certificate: bounds against exact rational arithmetic, and bounds that cannot be."""

from fractions import Fraction

import numpy as np
import pytest

from lapsvm.errors import CertificateError
from lapsvm.latent import LatentProblem, fit_many
from lapsvm.latent.cccp.problem import Violation
from lapsvm.models import TopPush
from lapsvm.optim import Plane, cutting_plane, minimise, run_with_oracle
from lapsvm.optim.certificate import relative_gap


def planes(seed, d=5):
    """Return gradients of length near 1, some of them opposed, and offsets."""
    rng = np.random.default_rng(seed)
    gradients = rng.normal(size=(12, d))
    gradients /= np.linalg.norm(gradients, axis=1)[:, None]
    return np.vstack([gradients, -0.7 * gradients[:3]]), rng.random(15)


def highest_plane(gradients, offsets):
    def oracle(w):
        heights = gradients @ w + offsets
        i = int(np.argmax(heights))
        return Plane(gradients[i], float(offsets[i])) if heights[i] > 0 else Plane(np.zeros_like(w), 0.0)

    return oracle


def exact_objective(gradients, offsets, w, C):
    """Return |w|^2 / 2 + C max(0, heights of the planes) without any rounding."""
    point = [Fraction(float(value)) for value in w]
    heights = [
        sum(Fraction(float(g)) * value for g, value in zip(gradient, point, strict=True)) + Fraction(float(offset))
        for gradient, offset in zip(gradients, offsets, strict=True)
    ]
    return sum(value * value for value in point) / 2 + Fraction(C) * max(Fraction(0), *heights)


@pytest.mark.filterwarnings("ignore:the duality gap")
@pytest.mark.parametrize("C", [1e2, 1e6, 1e8, 1e10])
@pytest.mark.parametrize("seed", range(8))
def test_the_dual_value_is_below_the_exact_objective_however_large_C_is(C, seed):
    gradients, offsets = planes(seed)
    found = minimise(highest_plane(gradients, offsets), 5, C, tol=1e-9, max_calls=400)
    exact = exact_objective(gradients, offsets, found.w, C)
    assert Fraction(found.dual) <= exact
    assert found.dual >= float(exact) * (1 - 1e-6)  # and it says something
    assert found.objective == pytest.approx(float(exact), rel=1e-9)


def test_planes_above_the_risk_are_an_error_and_no_convergence():
    def wrong(w):  # 1 + w at first, and 0 afterwards
        return Plane(np.zeros(1), 0.0) if w.any() else Plane(np.ones(1), 1.0)

    with pytest.raises(CertificateError, match="the lower bound of the minimum must not exceed the objective, got"):
        minimise(wrong, 1, 0.5, tol=1e-6)


def test_where_planes_are_known_not_to_touch_a_bound_above_the_objective_ends_the_search():
    steps = cutting_plane(1, 10.0, 1e-6, exact=False, planes=[Plane(np.zeros(1), 1.0)])
    found = run_with_oracle(steps, lambda w: Plane(np.zeros(1), 0.25))
    assert (found.objective, found.gap, found.converged) == (2.5, 0.0, True)
    assert found.dual == pytest.approx(10.0)


def test_the_gap_forgives_rounding_alone():
    assert relative_gap(1.0, 1.0 + 1e-12, 1e-11) == 0.0
    assert relative_gap(2.0, 1.0) == 0.5
    with pytest.raises(CertificateError):
        relative_gap(1.0, 1.0 + 1e-10, 1e-11)


class Falling:
    """A risk that is less at every call."""

    def __init__(self):
        self.calls = 0

    def violation(self, scores, labels):
        self.calls += 1
        inside = labels * scores < 1
        return Violation(float(inside.sum()) / self.calls**2, inside * labels / self.calls**2)


def test_a_users_risk_that_breaks_its_law_is_an_error_in_latent_training():
    rng = np.random.default_rng(0)
    y = np.where(np.arange(20) % 2 == 0, 1, -1)
    bags = list(rng.normal(size=(20, 3, 4)) + y[:, None, None])

    with pytest.raises(CertificateError, match="the planes do not lie below the risk"):
        fit_many([LatentProblem(y, risk=Falling(), C=1.0, tol=1e-6)], bags, candidates=0)


@pytest.mark.filterwarnings("ignore:the duality gap")
@pytest.mark.parametrize("max_iter", [1, 100])
@pytest.mark.parametrize("seed", range(3))
def test_toppushs_exponential_loss_stopped_early_reports_its_own_objective(seed, max_iter):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(3000) < 30, 1, -1)
    X = rng.standard_normal((3000, 200))
    X[:, 0] += 0.5 * (y > 0)
    model = TopPush(1e-6, loss="exponential", max_iter=max_iter).fit(X, y)
    scores = X @ model.coef_
    z = scores[y < 0].max() - scores[y > 0]
    exact = 1e-6 / 2 * model.coef_ @ model.coef_ + np.mean(np.exp(z))
    assert model.objective_ == pytest.approx(exact, rel=1e-9)
    assert model.history_[-1]["objective"] == model.objective_
    assert (max_iter == 1) == (model.duality_gap_ > 0.5)
