"""The windows of a picture that shows several things, and when refinement learns from them."""

from dataclasses import replace

import numpy as np
import pytest
from lapsvm.pipelines.fitting.refining.chains import Chain, TrainedModels
from lapsvm.pipelines.fitting.refining.things import (
    MOST,
    choose_things,
    count_things,
    count_unseen_things,
    teach_as_well,
)
from lapsvm.pipelines.settings.settings import RefineSettings

from lapsvm.bags import Bags
from lapsvm.latent import KnownBoxes

NONE = np.empty((0, 4))
BOXES = [[0, 0, 10, 10], [1, 0, 11, 10], [20, 0, 30, 10], [2, 2, 6, 6], [40, 0, 50, 10], [60, 0, 70, 10]]
Y = np.array([1, -1, -1], dtype=np.int8)
PLAIN = RefineSettings(box_voting=False, score_smoothing=0.0)


@pytest.fixture
def pictures(stored):
    """One picture with the class, and two without, whose best scores are 0 and .2."""

    def pictures(*scores):
        return stored([[score, 0] for score in (*scores, *[0.0] * 6, 0.2, *[-1.0] * 5)], BOXES * 3, [0, 6, 12, 18])

    return pictures


@pytest.mark.parametrize(
    ("scores", "chosen"),
    [
        ((1.0, 0.9, 0.8, 0.9, 0.7, 0.1), [0, 2, 4]),  # neither what overlaps, nor a part, nor what is near negatives
        ((1.0, 0.9, 0.5, 0.9, 0.54, 0.56), [0, 5]),  # half the way from the median of negatives, .1
        ((1.0, 0.0, 0.0, 0.0, 0.0, 0.0), [0]),
    ],
)
def test_windows_apart_with_scores_near_the_best_count(pictures, scores, chosen):
    found = choose_things(pictures(*scores), PLAIN, Y, np.array([1.0, 0]))
    assert found.shape == (3, MOST)
    assert found[0].tolist() == chosen + [-1] * (MOST - len(chosen))
    assert (found[1:, 1:] == -1).all()
    assert count_things(pictures(*scores), PLAIN, Chain(Y, np.array([1.0, 0]), found)) == len(chosen)


def test_votes_move_each_window(pictures):
    settings = RefineSettings(score_smoothing=0.0)
    found = choose_things(pictures(1.0, 0.99, 0.8, 0.0, 0.7, 0.1), settings, Y, np.array([1.0, 0]))
    assert found[0, :3].tolist() == [0, 2, 4]


def test_labels_that_a_model_may_not_see_decide_nothing(pictures):
    own, hidden = pictures(1.0, 0.0, 0.5, 0.0, 0.0, 0.0), np.array([1, -1, 0], dtype=np.int8)
    weights = np.array([1.0, 0])
    assert choose_things(own, PLAIN, Y, weights)[0, :2].tolist() == [0, -1]
    assert choose_things(own, PLAIN, Y, weights, hidden)[0, :2].tolist() == [0, 2]


def test_a_person_s_boxes_stand_alone(pictures):
    known = replace(pictures(1.0, 0, 0.9, 0, 0, 0), known={0: KnownBoxes(np.array([BOXES[4]], dtype=float), NONE)})
    assert choose_things(known, PLAIN, Y, np.array([1.0, 0]))[0].tolist() == [4] + [-1] * (MOST - 1)


def test_windows_that_pictures_without_the_class_reach_are_not_counted(stored):
    """Two folds of one picture with the class and three without it, one of which scores .85 in the first fold."""
    shown, plain = (1.0, 0, 0.9, 0, 0.8, 0), (0.1, 0, 0, 0, 0, 0)
    rows = [shown, (0.85, 0, 0, 0, 0, 0), plain, plain, shown, plain, plain, plain]
    pictures = stored([[score, 0] for row in rows for score in row], BOXES * 8, list(range(0, 54, 6)))
    y, fold = np.tile([1, -1, -1, -1], 2).astype(np.int8), np.repeat([1, 2], 4)
    chains = [Chain(y, np.array(weights), np.zeros(8, dtype=int)) for weights in ([-1.0, 0], [1.0, 0], [1.0, 0])]
    assert count_unseen_things(pictures, PLAIN, TrainedModels(y, fold, np.ones((2, 3))), chains) == np.mean([2, 3])
    assert count_unseen_things(pictures, PLAIN, TrainedModels(y, 0 * fold, np.ones((2, 1))), chains[:1]) == 1


@pytest.mark.parametrize(("several", "expected"), [(1.0, True), (-1.0, False)])
def test_several_windows_are_learned_from_if_unseen_pictures_are_told_as_well(several, expected):
    y, fold = np.tile([1, -1], 6).astype(np.int8), np.repeat([1, 2], 6)
    bags = Bags.from_arrays([np.array([[float(label)]]) for label in y])
    models = TrainedModels(y, fold, np.ones((1, 3)))
    one, more = ([Chain(y, np.array([weight]), np.zeros(12, dtype=int))] * 3 for weight in (1.0, several))
    assert teach_as_well(bags, models, one, more) is expected
