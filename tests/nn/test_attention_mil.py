"""Gated attention: loss and scores against plain NumPy, what is learned, seeds, and what is refused."""

import re

import numpy as np
import pytest

from lapsvm.errors import InputError
from lapsvm.nn import AttentionMIL

from .planted import FEATURES, PLACES, Y


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture(scope="module")
def trained(torch):
    return AttentionMIL(hidden=8).fit(FEATURES, Y)


def numpy_values(model, features):
    """Equation 9 as it stands there: attention and class scores (n, k)."""
    content, gate = np.split(features @ model.gate_coef_ + model.gate_intercept_, 2, axis=1)
    raw = (np.tanh(content) / (1 + np.exp(-gate))) @ model.attention_coef_
    shares = np.exp(raw - raw.max(axis=0))
    return shares / shares.sum(axis=0), features @ model.class_coef_ + model.class_intercept_


def test_scores_are_attention_times_the_sigmoid_of_the_class_score(trained):
    attention, classes = numpy_values(trained, FEATURES[3])
    found = trained.score_windows([FEATURES[3]])
    np.testing.assert_allclose(np.exp(found), attention / (1 + np.exp(-classes)), rtol=1e-3)
    pooled = FEATURES[3].T @ attention  # (d, k): the attention-weighted mean of the windows
    logits = (pooled * trained.class_coef_).sum(axis=0) + trained.class_intercept_
    np.testing.assert_allclose(trained.decision_function([FEATURES[3]])[0], -np.log1p(np.exp(-logits)), rtol=1e-3)


def test_the_loss_is_the_binary_log_loss_of_the_pictures(torch, trained):
    tensors = {name: torch.tensor(np.ascontiguousarray(getattr(trained, f"{name}_").T)) for name in trained.parts}
    log_present = trained.decision_function(list(FEATURES[:5]))
    for bag, labels in enumerate([[1, 1, -1], [1, 0, 0], [0, -1, 0], [-1, -1, -1], [0, 0, 1]]):
        windows = torch.tensor(FEATURES[bag], dtype=torch.float32)
        loss = trained._loss(tensors, windows, torch.tensor(labels), None)
        present = np.exp(log_present[bag])
        terms = [-np.log(p if y > 0 else 1 - p) for p, y in zip(present, labels, strict=True) if y]
        assert loss.item() == pytest.approx(sum(terms), rel=1e-3)


def test_training_lowers_the_loss_and_finds_the_planted_windows(trained):
    losses = [record["loss"] for record in trained.history_]
    assert losses[-1] < losses[0] / 2
    best = trained.score_windows(list(FEATURES)).reshape(40, 12, 3).argmax(axis=1)
    assert (best == PLACES)[Y > 0].mean() > 0.8


def test_one_class_alone_can_be_learned(torch):
    model = AttentionMIL(hidden=8).fit(FEATURES, Y[:, :1])
    best = model.score_windows(list(FEATURES)).reshape(40, 12).argmax(axis=1)
    assert (best == PLACES[:, 0])[Y[:, 0] > 0].mean() > 0.8


def test_the_seed_decides_and_nothing_else(trained):
    again = AttentionMIL(hidden=8).fit(FEATURES, Y)
    other = AttentionMIL(hidden=8, random_state=1).fit(FEATURES, Y)
    np.testing.assert_array_equal(trained.gate_coef_, again.gate_coef_)
    assert not np.array_equal(trained.gate_coef_, other.gate_coef_)


@pytest.mark.parametrize(
    ("options", "labels", "message"),
    [
        ({"hidden": 0}, Y, "hidden must be a whole number of 1 or more, got 0."),
        ({"lr": -1}, Y, "lr must be a finite number greater than 0, got -1."),
        ({}, Y[:, :0], "Y must have a class, got 0."),
    ],
)
def test_what_breaks_a_rule_is_named(torch, options, labels, message):
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        AttentionMIL(**options).fit(FEATURES, labels)
