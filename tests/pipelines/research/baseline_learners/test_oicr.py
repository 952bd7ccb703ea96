"""OICR: pseudo labels against the slow twin, the loss against plain NumPy, what is learned, and what is refused."""

import re

import numpy as np
import pytest
from baseline_learners.oicr import OICR, pseudo_labels

from lapsvm.bags import Bags
from lapsvm.errors import InputError

from ....twins import pseudo_labels as reference
from .planted import BOXES, FEATURES, PLACES, Y, softmax


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture(scope="module")
def trained(torch):
    return OICR().fit(FEATURES, Y, BOXES)


@pytest.mark.parametrize("seed", range(60))
def test_pseudo_labels_are_those_of_the_slow_twin(seed):
    draw = np.random.default_rng(seed)
    n, k = draw.integers(1, 9), draw.integers(1, 5)
    scores = draw.integers(0, 4, (n, k)) / 3  # with ties
    labels = draw.choice([-1, 0, 1], k)
    corner = draw.integers(0, 4, (n, 2))
    boxes = np.hstack([corner, corner + draw.integers(0, 5, (n, 2))]).astype(float)
    min_iou = draw.choice([0.0, 1 / 3, 0.5])
    classes, weights = pseudo_labels(scores, labels, boxes, min_iou)
    slow_classes, slow_weights = reference.pseudo_labels(scores.tolist(), labels.tolist(), boxes.tolist(), min_iou)
    assert classes.tolist() == slow_classes
    assert weights.tolist() == slow_weights


def test_an_iou_of_exactly_the_limit_is_background():
    boxes = np.array([[0, 0, 10, 10], [0, 0, 10, 5], [0, 0, 10, 6]])
    classes, weights = pseudo_labels(np.array([[0.9], [0.1], [0.2]]), np.array([1]), boxes)
    assert classes.tolist() == [0, 1, 0]
    assert weights.tolist() == [0.9, 0.9, 0.9]


@pytest.mark.parametrize(("labels", "weight"), [([-1, -1], 1.0), ([-1, 0], 0.0)])
def test_a_picture_without_a_class_is_background_if_every_class_is_known_to_be_absent(labels, weight):
    classes, weights = pseudo_labels(np.full((3, 2), 0.5), np.array(labels), np.zeros((3, 4)))
    assert classes.tolist() == [2, 2, 2]
    assert weights.tolist() == [weight] * 3


def numpy_loss(parts, features, labels, boxes):
    """The paper's section 3 as it stands there, with the slow twin."""
    product = softmax(features @ parts["class_coef"].T + parts["class_intercept"], 1)
    product = product * softmax(features @ parts["window_coef"].T, 0)
    present = product.sum(axis=0)
    loss = -np.log(present[labels > 0]).sum() - np.log(1 - present[labels < 0]).sum()
    values = features @ parts["refinement_coef"].T + parts["refinement_intercept"]
    scores = product
    for head in np.split(values, 3, axis=1):
        classes, weights = reference.pseudo_labels(scores.tolist(), labels.tolist(), boxes.tolist())
        probabilities = softmax(head, 1)
        terms = [w * -np.log(row[c]) for w, row, c in zip(weights, probabilities, classes, strict=True)]
        loss += np.mean(terms)
        scores = probabilities[:, :-1]
    return loss


@pytest.mark.parametrize("seed", range(4))
def test_the_loss_is_that_of_the_formula(torch, seed):
    draw = np.random.default_rng(seed)
    shapes = {"class_coef": (3, 8), "class_intercept": (3,), "window_coef": (3, 8)}
    shapes |= {"refinement_coef": (12, 8), "refinement_intercept": (12,)}
    parts = {name: draw.normal(size=shape) for name, shape in shapes.items()}
    tensors = {name: torch.tensor(part) for name, part in parts.items()}
    features, labels, boxes = FEATURES[seed], Y[seed], BOXES[12 * seed : 12 * seed + 12]
    loss = OICR()._loss(tensors, torch.tensor(features), torch.tensor(labels), boxes)
    assert loss.item() == pytest.approx(numpy_loss(parts, features, labels, boxes), rel=1e-6)


def test_training_lowers_the_loss_and_finds_the_planted_windows(trained):
    losses = [record["loss"] for record in trained.history_]
    assert losses[-1] < losses[0] / 2
    best = trained.score_windows(list(FEATURES)).reshape(40, 12, 3).argmax(axis=1)
    assert (best == PLACES)[Y > 0].mean() > 0.9


def test_a_score_is_the_mean_of_the_refined_probabilities(trained):
    values = FEATURES[0] @ trained.refinement_coef_ + trained.refinement_intercept_
    expected = np.mean([softmax(head, 1)[:, :-1] for head in np.split(values, 3, axis=1)], axis=0)
    found = trained.score_windows([FEATURES[0]])
    np.testing.assert_allclose(np.exp(found), expected, rtol=1e-4)
    np.testing.assert_array_equal(trained.decision_function([FEATURES[0]])[0], found.max(axis=0))


def test_the_seed_decides_and_nothing_else(trained):
    again, other = OICR().fit(FEATURES, Y, BOXES), OICR(random_state=1).fit(FEATURES, Y, BOXES)
    np.testing.assert_array_equal(trained.refinement_coef_, again.refinement_coef_)
    assert not np.array_equal(trained.refinement_coef_, other.refinement_coef_)


@pytest.mark.parametrize(
    ("options", "boxes", "message"),
    [
        ({"n_refinements": 0}, BOXES, "n_refinements must be a whole number of 1 or more, got 0."),
        ({"min_iou": 1}, BOXES, "min_iou must be at least 0 and below 1, got 1."),
        ({}, BOXES[:5], "boxes must be those of 480 windows, got 5."),
        ({}, BOXES[:, :3], "boxes must have shape (n, 4), got (480, 3)."),
    ],
)
def test_what_breaks_a_rule_is_named(torch, options, boxes, message):
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        OICR(**options).fit(Bags.from_arrays(list(FEATURES)), Y, boxes)
