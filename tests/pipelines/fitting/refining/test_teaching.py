"""A person's few boxes and the labels of all pictures make one model."""

import numpy as np
import pytest
from lapsvm.pipelines.fitting.refining import teaching
from lapsvm.pipelines.fitting.refining.chains import Chain

from lapsvm.latent import KnownBoxes

COUNT = 48
BOX = np.array([[0.0, 0, 10, 10]])
TRUE, REJECTED = KnownBoxes(BOX, BOX[:0]), KnownBoxes(BOX[:0], BOX)
FOLD = np.arange(COUNT) % 3 + 1
Y = np.where(np.arange(COUNT) < 36, 1, -1).astype(np.int8)


def chains(*weights):
    """Return the models that see all folds, and all but 1, 2 and 3, with these weights or the last of them."""
    labels = [np.where(number == FOLD, 0, Y).astype(np.int8) for number in range(4)]
    weights = [weights[min(number, len(weights) - 1)] for number in range(4)]
    windows = np.zeros(COUNT, dtype=np.intp)
    return [Chain(y, np.array(w, dtype=float), windows) for y, w in zip(labels, weights, strict=True)]


def reviewed(*boxes, weights=((0.0, 1.0),)):
    return teaching.reviewed_chains(chains(*weights), dict(enumerate(boxes)))


def test_reviewed_positives_and_all_negatives_are_trained_on():
    for number, chain in enumerate(reviewed(*[TRUE] * 8, *[REJECTED] * 4)):
        rows = [row for row in range(COUNT) if (row < 8 or Y[row] < 0) and FOLD[row] != number]
        assert np.flatnonzero(chain.y).tolist() == rows


@pytest.mark.parametrize(("boxes", "can"), [([TRUE] * 4, False), ([TRUE] * 5, True), ([REJECTED] * 20, False)])
def test_five_known_objects_teach(boxes, can):
    assert teaching.can_teach(reviewed(*boxes)) == can


def test_none_teach_where_a_model_without_a_fold_sees_one():
    own = teaching.reviewed_chains(chains([0, 1]), dict.fromkeys([0, 3, 6, 9, 12, 1], TRUE))  # five of fold 1, one of 2
    assert not teaching.can_teach(own)
    assert teaching.can_teach(own[:1])  # a class without folds


def angle(weights):
    return np.degrees(np.arctan2(weights[1], weights[0]))


def test_the_more_are_reviewed_the_more_their_model_counts():
    angles = []
    for count in (5, teaching.HALF, 30):
        teacher = teaching.teachers(chains([7, 0]), reviewed(*[TRUE] * count))[0]
        assert np.isclose(np.linalg.norm(teacher), 1)
        angles.append(angle(teacher))
    assert angles == sorted(angles)
    assert np.isclose(angles[1], 45)  # so many count as much as the labels
    np.testing.assert_allclose(np.tan(np.radians(angles)), [5 / 6, 1, 5])


def test_joined_weights_lie_between_and_keep_the_norm_of_the_taught():
    joined = teaching.joined(chains([3, 0]), reviewed(*[TRUE] * 10))
    assert np.isclose(np.linalg.norm(joined[0].weights), 3)
    assert np.isclose(np.tan(np.radians(angle(joined[0].weights))), 10 / 16)


def test_the_length_of_a_teacher_does_not_count():
    given = [reviewed(*[TRUE] * 10, weights=([0.0, length],)) for length in (0.1, 50)]
    for make in (teaching.teachers, teaching.joined):
        first, second = (make(chains([1, 0]), own)[0] for own in given)
        np.testing.assert_allclose(getattr(first, "weights", first), getattr(second, "weights", second))


def test_a_model_that_learned_nothing_does_not_count():
    joined = teaching.joined(chains([3, 4]), reviewed(*[TRUE] * 10, weights=([0.0, 0.0],)))
    np.testing.assert_allclose(joined[0].weights, [3, 4])


def test_each_chain_is_joined_with_its_own():
    of_labels = chains([1, 0], [2, 1], [1, 3], [5, 1])
    own = reviewed(*[TRUE] * 9, weights=([0.0, 1.0], [1.0, 1.0], [0.0, 2.0], [1.0, 0.0]))
    for number, teacher in enumerate(teaching.teachers(of_labels, own)):
        share = 9 / (9 + teaching.HALF) if number == 0 else 6 / (6 + teaching.HALF)
        first, second = of_labels[number].weights, own[number].weights
        mean = (1 - share) * first / np.linalg.norm(first) + share * second / np.linalg.norm(second)
        np.testing.assert_allclose(teacher, mean / np.linalg.norm(mean))
