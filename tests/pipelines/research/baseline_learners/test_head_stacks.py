"""Heads trained in one pass: each is what it would be alone, whatever stands beside it; what is refused."""

import re

import numpy as np
import pytest
from baseline_learners.head_stacks import HeadStack
from baseline_learners.oicr import OICR
from baseline_learners.window_heads import orders
from baseline_learners.wsddn import WSDDN

from lapsvm.errors import InputError

from .planted import BOXES, FEATURES, Y

KINDS = [WSDDN, OICR]
BAGS = list(FEATURES)
HELD_OUT = np.arange(40) % 3 == 0


@pytest.fixture(autouse=True)
def torch():
    return pytest.importorskip("torch", reason="torch is not installed")


def alone(model, labels):
    """Train a head by torch's own optimiser."""
    import torch

    pictures, offsets = (
        [torch.tensor(windows, dtype=torch.float32) for windows in BAGS],
        np.cumsum([0, *map(len, BAGS)]),
    )
    generator = torch.Generator().manual_seed(model.random_state)
    parameters = model._start(generator, pictures[0].shape[1], labels.shape[1])
    for tensor in parameters.values():
        tensor.requires_grad_()
    adam = torch.optim.Adam(parameters.values(), lr=model.lr, weight_decay=model.weight_decay)
    known, model.history_ = torch.tensor(labels, dtype=torch.float64), []
    for epoch, order in enumerate(orders(np.abs(labels), model.epochs, model.random_state), start=1):
        losses = []
        for bag in order:
            adam.zero_grad()
            loss = model._loss(parameters, pictures[bag], known[bag], BOXES[offsets[bag] : offsets[bag + 1]])
            loss.backward()
            adam.step()
            losses.append(loss.item())
        model.history_.append({"epoch": epoch, "loss": np.mean(losses)})
    model._set_fitted(parameters, pictures[0].shape[1])
    return model


def assert_same(model, other, **tolerances):
    for name in model.parts:
        np.testing.assert_allclose(getattr(model, f"{name}_"), getattr(other, f"{name}_"), **tolerances)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("labels", [Y, Y[:, :1]], ids=["classes", "class"])
def test_a_head_of_a_stack_is_the_head_alone(kind, labels):
    """Up to rounding: another multiplication, and Adam's formula in another order."""
    own, beside = kind(epochs=2), kind(epochs=3, lr=3e-3, weight_decay=0.0)
    HeadStack([own, beside]).fit(BAGS, [labels, labels], BOXES)
    for model in (own, beside):
        lone = alone(kind(**{**model.get_params(), "callback": None}), labels)
        assert_same(model, lone, rtol=1e-3, atol=2e-4)
        assert [record["epoch"] for record in model.history_] == [record["epoch"] for record in lone.history_]
        losses, expected = ([record["loss"] for record in one.history_] for one in (model, lone))
        np.testing.assert_allclose(losses, expected, rtol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_head_does_not_depend_on_its_neighbours(kind):
    """With another seed and with held-out pictures, in the order that the first head draws."""
    fold = np.where(HELD_OUT[:, None], 0, Y)
    first, other, seen = kind(epochs=2), kind(epochs=2, random_state=1), kind(epochs=2)
    HeadStack([first, other, seen]).fit(BAGS, [Y, Y, fold], BOXES)
    pair = [kind(epochs=2), kind(epochs=2)]
    HeadStack(pair).fit(BAGS, [Y, fold], BOXES)
    assert_same(first, pair[0], rtol=1e-3, atol=2e-4)
    assert_same(seen, pair[1], rtol=1e-3, atol=2e-4)
    assert not np.allclose(first.class_coef_, other.class_coef_, atol=1e-3)
    assert not np.allclose(first.class_coef_, seen.class_coef_, atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_each_head(kind):
    models = [kind(epochs=1), kind(epochs=1, random_state=1)]
    stack = HeadStack(models).fit(BAGS, [Y, Y], BOXES)
    images = stack.decision_function(BAGS)
    for number, model in enumerate(models):
        np.testing.assert_allclose(images[number], model.decision_function(BAGS), rtol=1e-4, atol=1e-5)
    wanted = np.array([HELD_OUT, ~HELD_OUT])
    np.testing.assert_array_equal(np.isnan(stack.decision_function(BAGS, wanted)).all(axis=2), ~wanted)


def test_the_heads_of_every_epoch_can_be_scored():
    found = []
    models = [WSDDN(epochs=2, random_state=seed) for seed in range(2)]
    HeadStack(models).fit(BAGS, [Y, Y], visit=lambda epoch: found.append((epoch, models[1].decision_function(BAGS))))
    assert [epoch for epoch, _ in found] == [1, 2]
    np.testing.assert_array_equal(found[1][1], models[1].decision_function(BAGS))
    assert not np.allclose(found[0][1], found[1][1])


@pytest.mark.parametrize("kind", KINDS)
def test_pictures_that_only_finished_heads_learn_from_are_skipped(kind):
    fold = np.where(HELD_OUT[:, None], 0, Y)
    short, long = kind(epochs=1), kind(epochs=2)
    HeadStack([short, long]).fit(BAGS, [Y, fold], BOXES)
    ends = HeadStack([kind(epochs=2), kind(epochs=2)]).fit(BAGS, [Y, fold], BOXES).models
    assert [len(model.history_) for model in (short, long)] == [1, 2]
    assert short.history_[0] == pytest.approx(ends[0].history_[0], rel=1e-3)
    assert_same(long, ends[1], rtol=1e-3, atol=2e-4)


TWICE = WSDDN()


@pytest.mark.parametrize(
    ("models", "labels", "boxes", "message"),
    [
        ([], [], None, "models must be heads of one kind that differ in no parameter but epochs, lr, "),
        ([WSDDN(), OICR()], [Y, Y], BOXES, "models must be heads of one kind"),
        ([OICR(), OICR(min_iou=0.4)], [Y, Y], BOXES, "models must be heads of one kind"),
        ([WSDDN(), WSDDN()], [Y], None, "Ys must hold labels for each of 2 models, got 1."),
        ([WSDDN()], [], None, "Ys must hold labels for each of 1 models, got 0."),
        ([WSDDN(), WSDDN()], [Y, Y[:, :1]], None, "Ys must have equally many columns, got 3, 1."),
        ([WSDDN(), WSDDN()], [Y, 0 * Y], None, "Ys[1] must hold a label other than 0, got only 0."),
        ([TWICE, WSDDN(), TWICE], [Y, Y, Y], None, "models must be different objects, got 2 of 3."),
        ([OICR()], [Y], None, "boxes must be those of 480 windows, got 0."),
        ([WSDDN(), WSDDN(lr=-1)], [Y, Y], None, "lr must be a finite number greater than 0, got -1."),
        ([WSDDN(random_state=-1)], [Y], None, "random_state must be a whole number of 0 or more, got -1."),
    ],
)
def test_what_breaks_a_rule_is_named(models, labels, boxes, message):
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        HeadStack(models).fit(BAGS, labels, boxes)
