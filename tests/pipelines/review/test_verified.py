"""How many boxes are right: of random pictures, and of held-out boxes alone."""

import numpy as np
import pytest
from lapsvm.pipelines.fitting.reviewed import ReviewedClass
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


def test_the_interval_is_wilsons_where_pictures_are_many_and_narrower_where_they_are_few():
    assert str(Verified(14, 20, 10_000)) == "14 of 20 right: 48 to 85 %"
    assert Verified(14, 20, 40).row() == pytest.approx({"right": 14, "of": 20, "low": 0.544, "high": 0.820}, abs=1e-3)


def test_pictures_that_were_looked_at_bound_the_share():
    for right, of, among in ((0, 1, 2), (0, 20, 21), (20, 20, 22), (7, 13, 15)):
        low, high = share_interval(right, of, among)
        assert right / among <= low <= high <= 1 - (of - right) / among


def test_when_all_have_been_looked_at_the_share_is_known():
    assert share_interval(7, 20, 20) == (0.35, 0.35)


@pytest.mark.parametrize("among", [30, 80, 300])
def test_the_interval_holds_the_truth_in_95_of_100_draws(among):
    """In the mean over the shares: for one share the numbers are whole, so coverage jumps."""
    counts, held = np.arange(21), []
    for right in range(1, among):
        limits = [share_interval(int(count), 20, among) if count <= right else (2.0, 2.0) for count in counts]
        holds = [low - 1e-9 <= right / among <= high + 1e-9 for low, high in limits]
        held.append(hypergeom.pmf(counts, among, right, 20)[holds].sum())
    assert 0.93 <= np.mean(held) <= 0.97


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
