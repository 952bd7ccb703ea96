"""The table of what figures have seen: every figure of a run is in it, and the notes say what it says."""

import pytest
from lapsvm.pipelines.figures.tables import TITLES

from lapsvm.evaluation.measures import MEASURES, Pictures, Seen, seen_note


@pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
def test_a_figure_of_other_pictures_never_sees_more(measure):
    order = list(Seen)
    seen = [order.index(measure.seen(pictures)) for pictures in (Pictures.TEST, Pictures.HELD_OUT, Pictures.TRAINING)]
    assert seen == sorted(seen)
    assert measure.seen(Pictures.TEST) == "no"


def test_every_printed_figure_but_a_count_is_in_the_table():
    assert TITLES.keys() - MEASURES.keys() == {"npos"}


def test_a_note_says_what_figures_have_seen():
    start = "figures have seen the labels of these pictures:"
    assert seen_note(["ap_area", "npos"], Pictures.TEST) == f"{start} no"
    assert seen_note(["image_ap", "corloc"], Pictures.TRAINING) == f"{start} yes"
    held_out = seen_note(["corloc", "image_ap", "chance", "corloc"], Pictures.HELD_OUT)
    assert held_out == f"{start} constants (CorLoc, image AP); no (chance)"
    assert seen_note(["npos", "duality_gap"], Pictures.TEST) == ""
