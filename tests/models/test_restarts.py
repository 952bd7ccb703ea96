"""Seeded restarts and the callback of the latent estimators."""

import re

import numpy as np
import pytest
from sklearn.base import clone

from lapsvm.errors import InputError
from lapsvm.models import LatentRankSVM, LatentStructSVM, LatentSVM

MODELS = [LatentRankSVM(C=5.0), LatentSVM(C=3.0, J=2.0, fit_intercept=True), LatentStructSVM(C=5.0)]


def noise(seed=0, n_bags=18):
    """Return bags whose classes hardly differ, so that the start decides where training ends."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n_bags) % 3 == 0, 1, -1)
    return list(rng.normal(size=(n_bags, 5, 4)) + 0.3 * (y > 0)[:, None, None]), y


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_the_restart_with_the_lowest_objective_is_kept(model):
    bags, y = noise()
    single = [clone(model).set_params(init="random", random_state=seed).fit(bags, y) for seed in (4, 5, 6)]
    kept = clone(model).set_params(init="random", random_state=4, n_init=3).fit(bags, y)
    best = min(single, key=lambda one: one.objective_)
    assert kept.objective_ == pytest.approx(best.objective_, rel=1e-9)
    np.testing.assert_allclose(kept.coef_, best.coef_, atol=1e-9)
    assert len({round(one.objective_, 6) for one in single}) > 1


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_the_callback_is_told_every_outer_step_of_every_restart(model):
    bags, y = noise()
    told = []
    fitted = clone(model).set_params(init="random", n_init=2, callback=told.append).fit(bags, y)
    assert {record["restart"] for record in told} == {0, 1}
    histories = [
        [
            {name: value for name, value in record.items() if name != "restart"}
            for record in told
            if record["restart"] == i
        ]
        for i in (0, 1)
    ]
    assert fitted.history_ in histories
    assert [record["step"] for record in histories[0]] == list(range(len(histories[0])))


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_a_model_begins_where_an_earlier_one_ended_whatever_the_unit_of_the_features(model):
    bags, y = noise()
    histories = []
    for size in (1.0, 1024.0):  # powers of two, so that rounding is the same
        own = [size * bag for bag in bags]
        first = clone(model).fit(own, y)
        warm = clone(model).set_params(init=first.coef_).fit(own, y)
        assert warm.objective_ <= first.objective_ * (1 + 1e-3)
        assert warm.n_iter_ < first.n_iter_
        histories.append(warm.history_)
    assert histories[0] == histories[1]


def test_an_error_in_the_callback_stops_training():
    bags, y = noise()

    def stop(record):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        LatentRankSVM(callback=stop).fit(bags, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_init": 0, "init": "random"}, "n_init must be a whole number of 1 or more, got 0."),
        ({"n_init": 1.5, "init": "random"}, "n_init must be a whole number of 1 or more, got 1.5."),
        ({"n_init": 2}, "n_init must be 1 unless init is 'random', got 2."),
        ({"n_init": 2, "init": np.zeros(18, int)}, "n_init must be 1 unless init is 'random', got 2."),
    ],
)
def test_restarts_that_make_no_sense_are_refused(options, message):
    bags, y = noise()
    with pytest.raises(InputError, match=re.escape(message)):
        LatentRankSVM(**options).fit(bags, y)
