"""How many boxes are right: of random pictures, and of held-out boxes alone."""

import numpy as np
import pytest
from lapsvm.pipelines.fitting.verdicts.reviewed import ReviewedClass
from lapsvm.pipelines.results.held_out import HeldOut
from lapsvm.pipelines.results.verified import Verified, share_interval, verified
from lapsvm.pipelines.run.verdicts import Verdict
from scipy.stats import hypergeom

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
    assert str(Verified(14, 20, 10_000)) == "14 of 20 right: 48 to 87 %"
    assert Verified(14, 20, 40).row() == pytest.approx({"right": 14, "of": 20, "low": 0.55, "high": 0.825}, abs=1e-3)


def test_the_interval_ends_where_a_draw_is_too_unlikely():
    for right, of, among in ((0, 1, 9), (0, 20, 30), (20, 20, 30), (7, 13, 50)):
        low, high = (round(limit * among) for limit in share_interval(right, of, among))
        for number in range(right, among - of + right + 1):
            drawn, half = hypergeom(among, number, of), hypergeom.pmf(right, among, number, of) / 2
            tails = drawn.pmf(np.arange(right)).sum() + half, drawn.pmf(np.arange(right + 1, of + 1)).sum() + half
            assert (min(tails) > 0.025) == (low <= number <= high)


def test_when_all_have_been_looked_at_the_share_is_known():
    assert share_interval(7, 20, 20) == (0.35, 0.35)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.7, 0.9])
@pytest.mark.parametrize("among", [30, 80, 1000])
def test_the_interval_holds_the_truth_in_95_of_100_draws(share, among):
    counts, right = np.arange(21), round(share * among)
    intervals = [share_interval(int(count), 20, among) for count in counts]
    held = [low <= right / among <= high for low, high in intervals]
    assert 0.91 <= hypergeom.pmf(counts, among, right, 20)[held].sum() <= 0.99


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
    assert (figure.right, figure.of, figure.among) == (3, 5, 5)  # the picture without the class is none of them


def test_chosen_pictures_and_those_without_a_held_out_box_never_count():
    chosen = said("0", "boxes", BOX, order="next")
    assert verified(reviewed(chosen), held_out(2)) is None
    assert verified(reviewed(said("7", "boxes", BOX)), held_out(2)) is None
    figure = verified(reviewed(chosen, said("1", "none")), held_out(2))
    assert (figure.right, figure.of) == (0, 1)
