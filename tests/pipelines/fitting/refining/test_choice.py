"""Which window of a positive picture is chosen, and whether refinement moved it."""

from dataclasses import replace

import numpy as np
import pytest
from lapsvm.pipelines.fitting.refining.chains import Chain
from lapsvm.pipelines.fitting.refining.choice import choose_windows, count_unmoved, voted_windows
from lapsvm.pipelines.fitting.refining.pictures import StoredPictures
from lapsvm.pipelines.settings.settings import RefineSettings

from lapsvm.bags import Bags
from lapsvm.boxes import iou
from lapsvm.detection import box_voting, smooth_scores
from lapsvm.latent import KnownBoxes

POSITIVE = np.array([1], dtype=np.int8)


@pytest.mark.parametrize("smoothing", [0.0, 0.5, 1.0])
def test_the_window_of_a_picture_is_the_nearest_to_its_voted_box(smoothing):
    rng = np.random.default_rng(0)
    corner = rng.uniform(0, 20, (90, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(30, 50, (90, 2))], axis=1)
    bags = Bags(rng.normal(size=(90, 5)), np.array([0, 30, 60, 90]))
    weights = rng.normal(size=5)
    chosen = bags.best(weights).index
    pictures = StoredPictures(bags, boxes, np.ones(5), tuple("abc"), np.ones(5, dtype=bool))
    moved = voted_windows(pictures, np.array([0, 2]), weights, smoothing)
    assert moved[1] == 0
    for picture in (0, 2):
        own, scores = boxes[30 * picture : 30 * picture + 30], bags[picture] @ weights
        best = [smooth_scores(own, scores, smoothing).argmax()]
        assert smoothing or best == chosen[picture]
        voted = box_voting(own[best], own, scores, min_iou=0.45)
        assert moved[picture] == iou(own, voted)[:, 0].argmax()
    assert (moved[[0, 2]] != chosen[[0, 2]]).any()


@pytest.mark.parametrize(("voting", "smoothing", "chosen"), [(False, 1.0, 2), (True, 1.0, 0), (True, 0.0, 2)])
def test_a_round_may_begin_with_voted_windows_of_smoothed_scores(stored, voting, smoothing, chosen):
    boxes = [[0, 0, 10, 10], [0, 0, 10, 10.5], [20, 20, 30, 30], [40, 40, 50, 50]]
    pictures = stored([[1.0, 0], [0.99, 0], [1.02, 0], [0, 0]], boxes, [0, 4])
    settings = RefineSettings(box_voting=voting, score_smoothing=smoothing)
    assert choose_windows(pictures, settings, POSITIVE, np.array([1.0, 0])).tolist() == [chosen]


@pytest.mark.parametrize(("share", "chosen"), [(1.0, 1), (0.8, 0)])
def test_voting_lowers_the_weights_of_surroundings(stored, apart, share, chosen):
    pictures = stored([[1.0, 0.0], [0.0, 1.1]], apart, [0, 2])
    settings = RefineSettings(box_voting=True, context_share=share)
    assert choose_windows(pictures, settings, POSITIVE, np.ones(2)).tolist() == [chosen]


@pytest.mark.parametrize("voting", [False, True])
def test_a_box_stayed_if_both_chains_choose_overlapping_windows(stored, apart, voting):
    pictures = stored([[1.0, 0.0], [0.0, 1.0]] * 4, apart * 4, [0, 2, 4, 6, 8])
    pictures = replace(pictures, known={3: KnownBoxes(np.empty((0, 4)), np.empty((0, 4)))})
    settings = RefineSettings(box_voting=voting, context_share=0.0)
    y, weights = np.array([1, 1, -1, 1], dtype=np.int8), np.array([2.0, 1.0])
    initial = Chain(y, weights, choose_windows(pictures, settings, y, weights))
    assert count_unmoved(pictures, settings, initial, initial) == (2, 0)  # nothing is counted in picture 3
    final = initial._replace(weights=np.array([1.0, 2.0]))
    assert count_unmoved(pictures, settings, initial, final) == (0, 2)  # final weights are not lowered
    half = initial._replace(windows=np.array([0, 1, 0, 0]))
    assert count_unmoved(pictures, settings, half, initial) == (1, 1)


@pytest.mark.parametrize("voting", [False, True])
def test_a_rejected_window_gives_way_to_the_best_that_is_not(stored, apart, voting):
    """By the model's own weights: voting lowers those of surroundings for windows that nobody rejected."""
    boxes = [*apart, [40, 40, 50, 50]]
    pictures = stored([[1.0, 0.0], [0.8, 0.0], [0.0, 0.9]] * 2, boxes * 2, [0, 3, 6])
    rejected = {0: KnownBoxes(np.empty((0, 4)), np.array([boxes[0]])), 1: KnownBoxes(np.empty((0, 4)), np.array(boxes))}
    settings = RefineSettings(box_voting=voting, context_share=0.5)
    y, said = np.ones(2, dtype=np.int8), replace(pictures, known=rejected)
    assert choose_windows(pictures, settings, y, np.ones(2)).tolist() == [0, 0]
    assert choose_windows(said, settings, y, np.ones(2)).tolist() == [2, 0]  # it stays where all are rejected
