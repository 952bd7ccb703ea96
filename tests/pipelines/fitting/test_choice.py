"""Verdicts on random pictures choose among a class's models, and a fold's verdicts not for the model without it."""

from pathlib import Path

import numpy as np
import pytest
from lapsvm.pipelines.fitting.refinement import Chain, StoredPictures
from lapsvm.pipelines.fitting.tasks import FitTask
from lapsvm.pipelines.fitting.verdicts.choice import Variant, chosen_by_verdicts, sign_test
from lapsvm.pipelines.fitting.verdicts.reviewed import Reviews
from lapsvm.pipelines.run.settings import Settings

from lapsvm.bags import Bags
from lapsvm.latent import KnownBoxes

COUNT = 24
PART, WHOLE = np.array([[0.0, 0, 10, 10]]), np.array([[0.0, 0, 40, 40]])
NONE = np.empty((0, 4))
FOLD = np.arange(COUNT) % 3 + 1
Y = np.ones(COUNT, dtype=np.int8)


@pytest.fixture
def pictures():
    """Pictures with two windows each, a part and the whole; a model sees one of them."""
    bags = Bags(np.tile(np.eye(2), (COUNT, 1)), np.arange(0, 2 * COUNT + 1, 2))
    boxes = np.tile(np.vstack([PART, WHOLE]), (COUNT, 1)).astype(np.float32)
    return StoredPictures(bags, boxes, np.ones(2), tuple(map(str, range(COUNT))), np.ones(2, dtype=bool))


class Listener:
    """Keeps what is said."""

    def __init__(self):
        self.lines = []

    def say(self, line):
        self.lines.append(line)


def variant(values, weights):
    windows = np.zeros(COUNT, dtype=np.intp)
    return Variant(values, [Chain(Y, np.array(weights), 0.0, windows) for _ in range(4)])


def choose(pictures, known, listener=None):
    """Return the weights that the four chains end with, and the record."""
    task = FitTask("cat", Y, {}, Path("cat"), Reviews(known, random=tuple(known)))
    found = [variant({}, [1.0, 0.0]), variant({"refine.rounds": 0}, [0.0, 1.0])]
    chains, record = chosen_by_verdicts(found, FOLD, task, pictures, Settings(), listener or Listener())
    return [chain.weights.tolist() for chain in chains], record


def test_the_model_with_more_right_boxes_is_taken_and_said(pictures):
    listener = Listener()
    weights, record = choose(pictures, {row: KnownBoxes(WHOLE, NONE) for row in range(9)}, listener)
    assert weights == [[0.0, 1.0]] * 4
    counts = {"the settings": 0, "refine.rounds 0": 9}
    assert record == {"chosen_by_verdicts": {"taken": "refine.rounds 0", "of": 9, "right": counts}}
    assert listener.lines == [
        (
            "refine: cat: right boxes in 9 reviewed pictures: 0 by the settings, 9 by refine.rounds 0; "
            "it takes refine.rounds 0."
        )
    ]


def test_the_model_of_the_settings_stays_where_none_is_better(pictures):
    known = {row: KnownBoxes(WHOLE if row % 2 else PART, NONE) for row in range(6)}
    assert choose(pictures, known)[0] == [[1.0, 0.0]] * 4


def test_one_picture_more_is_not_enough(pictures):
    known = {row: KnownBoxes(WHOLE if row < 4 else PART, NONE) for row in range(7)}
    weights, record = choose(pictures, known)
    assert list(record["chosen_by_verdicts"]["right"].values()) == [3, 4]
    assert weights == [[1.0, 0.0]] * 4


@pytest.mark.parametrize(("won", "lost", "taken"), [(5, 0, True), (6, 1, False), (7, 1, True), (11, 4, False)])
def test_as_many_wins_are_asked_for_as_a_coin_rarely_has(pictures, won, lost, taken):
    known = {row: KnownBoxes(WHOLE if row < won else PART, NONE) for row in range(won + lost)}
    assert choose(pictures, known)[0][0] == ([0.0, 1.0] if taken else [1.0, 0.0])


def test_a_fold_is_not_chosen_for_by_the_few_verdicts_of_the_others(pictures):
    """Of five verdicts each chain without a fold sees three or four, which choose nothing."""
    weights, _ = choose(pictures, {row: KnownBoxes(WHOLE, NONE) for row in range(5)})
    assert weights == [[0.0, 1.0], *[[1.0, 0.0]] * 3]


def test_few_verdicts_choose_nothing(pictures):
    weights, record = choose(pictures, {row: KnownBoxes(WHOLE, NONE) for row in range(4)})
    assert (weights, record) == ([[1.0, 0.0]] * 4, {})


@pytest.mark.parametrize(("won", "lost"), [(0, 0), (3, 0), (5, 0), (7, 2), (4, 9)])
def test_the_sign_test_is_that_of_the_binomial_distribution(won, lost):
    from scipy.stats import binomtest

    expected = binomtest(won, won + lost, 0.5, "greater").pvalue if won + lost else 1.0
    assert sign_test(won, lost) == pytest.approx(expected, rel=1e-12)


def test_the_model_without_a_fold_is_chosen_by_the_other_folds(pictures):
    """Eight pictures of fold 1 mean the whole, one of another fold the part."""
    known = {row: KnownBoxes(WHOLE, NONE) for row in np.flatnonzero(FOLD == 1).tolist()}
    known |= {row: KnownBoxes(PART, NONE) for row in (1,)}
    weights, _ = choose(pictures, known)
    assert weights == [[0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]


def test_a_rejected_box_counts_against_the_models_that_find_it(pictures):
    weights, record = choose(pictures, {row: KnownBoxes(NONE, PART) for row in range(6)})
    assert weights[0] == [0.0, 1.0]
    assert list(record["chosen_by_verdicts"]["right"].values()) == [0, 3]
