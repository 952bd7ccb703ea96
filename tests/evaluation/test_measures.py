"""The table of measures: what figures have seen, and titles, keys and sentences that are there once."""

import pytest

from lapsvm.evaluation.measures import MEASURES, Pictures, Seen, Shown, seen_note, shown_in


@pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
def test_a_figure_of_other_pictures_never_sees_more(measure):
    order = list(Seen)
    seen = [order.index(measure.seen(pictures)) for pictures in (Pictures.TEST, Pictures.HELD_OUT, Pictures.TRAINING)]
    assert seen == sorted(seen)
    assert measure.seen(Pictures.TEST) == "no"


def test_every_measure_has_a_title_of_its_own_a_sentence_and_a_table():
    assert len({measure.title for measure in MEASURES.values()}) == len(MEASURES)
    for measure in MEASURES.values():
        assert measure.sentence[0].isalnum()
        assert not measure.sentence.endswith(".")
        assert measure.shown
    assert all(shown_in(table) for table in Shown)


def notes(keys, pictures):
    return seen_note([MEASURES[key] for key in keys], pictures)


def test_a_note_says_what_figures_have_seen():
    start = "figures have seen the labels of these pictures:"
    assert notes(["ap_area", "npos"], Pictures.TEST) == f"{start} no"
    assert notes(["image_ap", "corloc"], Pictures.TRAINING) == f"{start} yes"
    held_out = notes(["corloc", "image_ap", "chance"], Pictures.HELD_OUT)
    assert held_out == f"{start} constants (CorLoc, image AP); no (chance)"
    assert notes(["npos"], Pictures.TEST) == ""
