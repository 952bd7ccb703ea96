"""How many boxes are right: of random pictures, and of held-out boxes alone."""

import numpy as np
import pytest
from lapsvm.pipelines.fitting.verdicts.reviewed import ReviewedClass
from lapsvm.pipelines.results.held_out import HeldOut
from lapsvm.pipelines.results.verified import Verified, verified, wilson
from lapsvm.pipelines.run.verdicts import Verdict
from scipy.stats import binom

BOX = (10.0, 10.0, 50.0, 50.0)


def held_out(count):
    boxes = np.tile(BOX, (count, 1))
    ones = np.ones(count)
    return HeldOut(tuple(map(str, range(count))), ones.astype(np.int8), ones.astype(np.intp), 0 * ones, boxes, ones)


def reviewed(*verdicts):
    return ReviewedClass("cat", {one.picture: one for one in verdicts})


def said(picture, verdict, *boxes, order="random"):
    return Verdict(picture, "cat", verdict, boxes, order=order)


def test_the_sentence_of_the_issue():
    assert str(Verified(14, 20)) == "14 of 20 right: 48 to 85 %"
    assert Verified(14, 20).row() == pytest.approx({"right": 14, "of": 20, "low": 0.481, "high": 0.855}, abs=1e-3)


def test_the_interval_is_that_of_wilson():
    for right, of in ((0, 1), (1, 1), (0, 20), (20, 20), (7, 13)):
        low, high = wilson(right, of)
        assert 0 <= low <= right / of <= high <= 1
        for limit in {low, high} - {0.0, 1.0}:  # where the share is just 1.96 standard errors of the limit away
            assert abs(right / of - limit) == pytest.approx(1.959964 * np.sqrt(limit * (1 - limit) / of), rel=1e-4)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.7, 0.9])
def test_the_interval_holds_the_truth_in_95_of_100_draws(share):
    counts = np.arange(21)
    held = [low <= share <= high for low, high in (wilson(int(count), 20) for count in counts)]
    assert 0.91 <= binom.pmf(counts, 20, share)[held].sum() <= 0.99


def test_boxes_count_by_their_overlap_with_true_ones():
    figure = verified(
        reviewed(
            said("0", "boxes", BOX),
            said("1", "boxes", (10.0, 10.0, 50.0, 31.0)),  # more than half
            said("2", "boxes", (10.0, 10.0, 50.0, 29.0)),  # less
            said("3", "boxes", (60.0, 60.0, 90.0, 90.0), BOX),  # one of two
            said("4", "none"),
            said("5", "absent"),
        ),
        held_out(6),
    )
    assert (figure.right, figure.of) == (3, 5)


def test_chosen_pictures_and_those_without_a_held_out_box_never_count():
    chosen = said("0", "boxes", BOX, order="next")
    assert verified(reviewed(chosen), held_out(2)) is None
    assert verified(reviewed(said("7", "boxes", BOX)), held_out(2)) is None
    figure = verified(reviewed(chosen, said("1", "none")), held_out(2))
    assert (figure.right, figure.of) == (0, 1)
