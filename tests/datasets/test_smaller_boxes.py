"""Boxes of smaller pictures, in files that do not say of which size their pictures are."""

from hypothesis import given
from hypothesis import strategies as st

from lapsvm.box_faults import smaller_sentence

SHARES = st.lists(st.tuples(st.floats(0, 0.4), st.floats(0, 0.4)), min_size=10)


@given(SHARES, st.integers(0, 9), st.sampled_from([0.61, 0.9, 1.0]))
def test_many_boxes_in_one_corner_are_asked_for_and_one_elsewhere_answers(shares, place, far):
    size = (200.0, 100.0)
    rows = [((200 * x, 100 * y, 200 * (x + 0.1), 100 * (y + 0.1)), size) for x, y in shares]
    assert f"all {len(rows)} boxes lie in the upper left" in smaller_sentence(rows)
    assert smaller_sentence(rows[:9]) == ""
    rows[place] = ((0, 0, 10, 100 * far), size)
    assert smaller_sentence(rows) == ""
