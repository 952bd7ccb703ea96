"""How objectness counts when the window of a positive picture is chosen, and when it does not."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lapsvm.pipelines.fitting.refining.chains import Chain, TrainedModels, initial_chains, with_new_windows
from lapsvm.pipelines.fitting.refining.choice import choose_windows, count_unmoved, prior_share
from lapsvm.pipelines.fitting.refining.pictures import StoredPictures
from lapsvm.pipelines.fitting.refining.prior import STANDS_OUT, ObjectnessPrior
from lapsvm.pipelines.settings.settings import RefineSettings

from lapsvm.bags import Bags
from lapsvm.boxes import iou
from lapsvm.detection import box_voting, smooth_scores
from lapsvm.latent import KnownBoxes

NAN = np.nan
BOXES = [[0, 0, 10, 10], [20, 20, 30, 30], [40, 40, 50, 50]]
PLAIN = RefineSettings(box_voting=False)


def pictures_of(scores, objectness, weight=4.0, **decided):
    """Return pictures with these scores (n, windows) for the weights [1], and objectness alike."""
    scores = np.array(scores, dtype=float)
    n, windows = scores.shape
    bags = Bags(scores.reshape(-1, 1), np.arange(n + 1) * windows)
    prior = ObjectnessPrior(np.array(objectness, dtype=np.float32).reshape(-1), weight, **decided)
    boxes = np.tile(np.array(BOXES[:windows], dtype=float), (n, 1))
    return StoredPictures(bags, boxes, np.ones(1), tuple(map(str, range(n))), np.ones(1, dtype=bool), prior=prior)


def chosen(pictures, settings=PLAIN, y=None, seen=None):
    y = np.ones(pictures.bags.n_bags, dtype=np.int8) if y is None else y
    return choose_windows(pictures, settings, y, np.ones(1), seen).tolist()


def slow_choice(pictures, settings, weight):
    """Choose by the definition: z + weight * objectness, smoothed, and moved to the voted box."""
    found = []
    for row in range(pictures.bags.n_bags):
        own = slice(pictures.bags.offsets[row], pictures.bags.offsets[row + 1])
        scores, boxes = pictures.bags[row][:, 0], pictures.boxes[own]
        values = (scores - scores.mean()) / scores.std() + weight * pictures.prior.values[own]
        best = int(np.argmax(smooth_scores(boxes, values, settings.score_smoothing)))
        if settings.box_voting:
            best = int(np.argmax(iou(boxes, box_voting(boxes[[best]], boxes, values))[:, 0]))
        found.append(best)
    return found


def test_a_window_that_stands_out_is_chosen_before_one_with_a_higher_score():
    pictures = pictures_of([[3.0, 2.9, 0.0]] * 2, [[0.4, 0.9, 0.0]] * 2)
    assert chosen(replace(pictures, prior=None)) == [0, 0]
    assert chosen(pictures) == [1, 1]
    assert chosen(replace(pictures, prior=replace(pictures.prior, weight=1e-6))) == [0, 0]


@pytest.mark.parametrize("voting", [False, True])
def test_the_choice_is_that_of_the_definition(voting):
    rng = np.random.default_rng(1)
    corner = rng.uniform(0, 20, (120, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(20, 50, (120, 2))], axis=1)
    prior = ObjectnessPrior(rng.uniform(0.3, 1, 120).astype(np.float32), 2.0)
    bags = Bags(rng.normal(size=(120, 1)), np.arange(5) * 30)
    pictures = StoredPictures(bags, boxes, np.ones(1), tuple("abcd"), np.ones(1, dtype=bool), prior=prior)
    settings = RefineSettings(box_voting=voting, score_smoothing=0.5 if voting else 0.0)
    assert chosen(pictures, settings) == slow_choice(pictures, settings, 2.0)
    assert chosen(pictures, settings) != chosen(replace(pictures, prior=None), settings)


def test_a_picture_that_was_not_measured_goes_by_scores_alone():
    pictures = pictures_of([[3.0, 2.9, 0.0]] * 3, [[0.4, 0.9, 0.0], [NAN] * 3, [0.4, 0.9, 0.0]])
    assert chosen(pictures) == [1, 0, 1]
    assert chosen(pictures_of([[3.0, 2.9, 0.0]], [[NAN] * 3])) == [0]
    assert chosen(pictures_of([[3.0, 2.9, 0.0]], [[NAN] * 3], is_decided=True)) == [0]


def test_windows_of_one_score_are_chosen_by_what_stands_out():
    assert chosen(pictures_of([[1.0, 1.0, 1.0]], [[0.3, 0.5, 0.9]])) == [2]


@pytest.mark.parametrize(("standing", "chosen_windows"), [(0.09, [0, 0]), (0.21, [1, 1])])
def test_objects_that_do_not_stand_out_go_by_scores_alone(standing, chosen_windows):
    """Cells among cells: what stands out in such pictures is something else."""
    assert chosen(pictures_of([[3.0, 2.9, 0.0]] * 2, [[standing, 0.9, 0.0]] * 2)) == chosen_windows


def test_a_user_decides_for_what_does_not_stand_out():
    assert chosen(pictures_of([[3.0, 2.9, 0.0]], [[0.0, 0.9, 0.0]], is_decided=True)) == [1]


@given(st.floats(0, 1), st.floats(0, 1))
def test_the_share_rises_with_what_stands_out_and_has_no_step(one, other):
    prior = ObjectnessPrior(np.zeros(1), 2.0)
    low, high = sorted((one, other))
    assert 0 <= prior.share(low) <= prior.share(high) <= 1
    assert prior.share(high) - prior.share(low) <= (high - low) / (STANDS_OUT[1] - STANDS_OUT[0]) + 1e-9
    assert (prior.share(STANDS_OUT[0]), prior.share(STANDS_OUT[1]), prior.share(None)) == (0, 1, 0)


def test_labels_of_the_fold_do_not_decide_for_the_chain_without_it():
    """Only pictures that the chain may see decide: here its own positive does not stand out, that of the fold does."""
    pictures = pictures_of([[3.0, 2.9, 0.0]] * 2, [[0.0, 0.9, 0.0], [0.9, 0.95, 0.0]])
    seen = np.array([1, 0], dtype=np.int8)
    assert chosen(pictures, seen=seen) == [0, 0]
    assert chosen(pictures) == [1, 1]
    models = TrainedModels(np.ones(2, dtype=np.int8), np.array([1, 2]), np.ones((1, 3)))
    choose = partial(choose_windows, pictures, PLAIN)
    chains = with_new_windows(initial_chains(models, choose), models.fold, choose)
    assert [chain.windows.tolist() for chain in chains[1:]] == [[1, 1], [0, 0]]


def test_what_a_person_knows_goes_first():
    pictures = pictures_of([[3.0, 2.9, 0.0]] * 2, [[0.4, 0.9, 0.0]] * 2)
    known = {0: KnownBoxes(np.array([BOXES[2]], dtype=float), np.empty((0, 4)))}
    assert chosen(replace(pictures, known=known)) == [2, 1]


def test_the_share_and_what_it_is_made_of_are_told():
    pictures, y = pictures_of([[3.0, 2.9, 0.0]] * 2, [[0.1, 0.9, 0.0], [0.2, 0.9, 0.0]]), np.ones(2, dtype=np.int8)
    told = prior_share(pictures, PLAIN, y, np.ones(1))
    assert told["stands_out"] == pytest.approx(0.15)
    assert told["share"] == pytest.approx(0.5)
    assert prior_share(replace(pictures, prior=None), PLAIN, y, np.ones(1)) == {}
    assert prior_share(pictures_of([[1.0, 0.0]], [[NAN, NAN]]), PLAIN, y[:1], np.ones(1)) == {}


def test_a_box_stayed_if_the_detector_alone_finds_it():
    """Detection has no objectness: a window that only the prior finds is not settled."""
    pictures = pictures_of([[3.0, 2.9, 0.0]], [[0.4, 0.9, 0.0]])
    chain = Chain(np.ones(1, dtype=np.int8), np.ones(1), np.array(chosen(pictures)))
    assert count_unmoved(pictures, PLAIN, chain, chain) == (0, 1)
