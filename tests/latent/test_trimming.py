"""Negative images without their most confusing windows."""

import re

import numpy as np
import pytest

from lapsvm.bags import Bags
from lapsvm.errors import InputError, OptionError
from lapsvm.latent import HingeRisk, LatentProblem, RankRisk, StructuralProblem, fit_many
from lapsvm.latent.cccp.imputation import Trimming
from lapsvm.models import LatentSVM


def planted(seed=0, n_bags=30, size=8, dim=4, shift=4.0, polluted=0):
    """Return bags with a shifted window in every third one, and in `polluted` of the negatives too."""
    rng = np.random.default_rng(seed)
    windows = rng.normal(size=(n_bags, size, dim))
    y = np.where(np.arange(n_bags) % 3 == 0, 1, -1)
    windows[y > 0, 2, 0] += shift
    windows[np.flatnonzero(y < 0)[:polluted], 3, 0] += shift
    return list(windows), y


@pytest.mark.parametrize("risk", [HingeRisk(2.0), RankRisk("ap")])
@pytest.mark.parametrize("share", [0.125, 0.5, 0.9])
def test_the_objective_is_that_of_the_windows_left(risk, share):
    bags, y = planted()
    found = fit_many([LatentProblem(y, risk=risk, C=2.0, trim=share)], bags)[0]
    best = [np.sort(bag @ found.coef)[::-1] for bag in bags]
    left = min(int(8 * share + 1e-9), 7)
    scores = np.array([own[0 if label > 0 else left] for own, label in zip(best, y, strict=True)])
    plane = risk.violation(scores, y.astype(float))
    objective = found.coef @ found.coef / 2 + 2.0 * (plane.offset - plane.coefficients @ scores)
    assert objective <= found.objective * (1 + 1e-9)
    if found.history[-1]["changed"] == 0:
        assert objective == pytest.approx(found.objective, rel=1e-9)
    assert found.gap <= 1e-3


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("share", [0.25, 0.9])
def test_the_objective_never_rises_and_ends_below_that_of_all_windows(share, seed):
    bags, y = planted(seed, shift=1.5)
    trimmed, plain = fit_many([LatentProblem(y, C=5.0, trim=c, risk=HingeRisk()) for c in (share, 0)], bags)
    objectives = [record["objective"] for record in trimmed.history]
    assert (np.diff(objectives) <= 1e-9 * np.abs(objectives[:-1])).all()
    assert trimmed.objective <= plain.objective * (1 + 1e-3)


def test_a_share_that_leaves_all_windows_changes_nothing():
    bags, y = planted()
    none, little = fit_many([LatentProblem(y, C=5.0, trim=c) for c in (0.0, 0.1)], bags)
    np.testing.assert_allclose(none.coef, little.coef, atol=0.05 * np.linalg.norm(none.coef))
    assert little.objective == pytest.approx(none.objective, rel=2e-3)


def test_objects_in_negatives_are_forgiven():
    bags, y = planted(shift=6.0, polluted=10)
    plain, robust = (LatentSVM(C=10.0, J=2.0, c=c, fit_intercept=True).fit(bags, y) for c in (0.0, 0.125))
    assert robust.objective_ < 0.5 * plain.objective_
    first = [model.coef_[0] / np.linalg.norm(model.coef_) for model in (plain, robust)]
    assert first[1] > first[0]


def test_positives_and_fixed_windows_are_not_trimmed():
    bags, y = planted()
    known = np.where(y < 0, 5, -1)
    found = fit_many([LatentProblem(y, C=5.0, fixed_windows=known, trim=0.9)], bags)[0]
    plain = fit_many([LatentProblem(y, C=5.0, fixed_windows=known)], bags)[0]
    assert found.objective == pytest.approx(plain.objective, rel=2e-3)


@pytest.mark.parametrize("share", [0.3, 0.7, 0.99])
def test_one_window_at_least_is_kept_and_the_best_are_ignored(share):
    rng = np.random.default_rng(0)
    bags, w = [rng.normal(size=(size, 2)) for size in (1, 2, 5, 10)], np.array([1.0, -2.0])
    trimming = Trimming(Bags.from_arrays(bags), share)
    np.testing.assert_allclose(trimming.best(w).score, [(bag @ w).max() for bag in bags])
    changed = trimming.renew(w)
    counts = [min(int(share * len(bag) + 1e-9), len(bag) - 1) for bag in bags]
    assert changed == np.count_nonzero(counts)
    expected = [np.sort(bag @ w)[::-1][count] for bag, count in zip(bags, counts, strict=True)]
    np.testing.assert_allclose(trimming.best(w).score, expected)
    assert trimming.renew(w) == 0


@pytest.mark.parametrize("share", [-0.1, 1.0, np.nan])
def test_shares_that_are_none_are_refused(share):
    with pytest.raises(InputError, match=re.escape(f"trim must be at least 0 and below 1, got {share}.")):
        LatentProblem(np.array([1, -1]), trim=share)


def test_rankings_with_their_own_windows_cannot_ignore_any():
    with pytest.raises(OptionError, match=re.escape("trim must be 0, since rankings choose among all windows")):
        StructuralProblem(np.array([1, -1]), trim=0.5)
