"""Records of one thing: equal ones are one, and of unequal ones none is taken; against a slow reading of it."""

from hypothesis import given
from hypothesis import strategies as st

from lapsvm.ground_truth import distinct_objects, truth_by_class
from lapsvm.texts.agreement import agreed, distinct

RECORDS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)))


@given(RECORDS)
def test_a_thing_is_taken_where_all_its_records_are_equal(records):
    found = agreed(records)
    said = {key: [value for one, value in records if one == key] for key, _ in records}
    assert found.taken == {key: values[0] for key, values in said.items() if len({*values}) == 1}
    assert found.unequal == {key: list(dict.fromkeys(values)) for key, values in said.items() if len({*values}) > 1}
    assert list(found.taken) == [key for key in said if key in found.taken]
    assert found.n_repeated == len(records) - len({*records})


@given(RECORDS)
def test_the_order_of_records_decides_nothing_but_the_order(records):
    found, other = agreed(records), agreed(reversed(records))
    assert found.taken == other.taken
    assert {key: {*given} for key, given in found.unequal.items()} == {
        key: {*given} for key, given in other.unequal.items()
    }


def test_what_is_the_same_can_be_said():
    found = agreed([("a", 1), ("a", -1), ("b", 2), ("b", 3)], same=lambda one, other: abs(one) == abs(other))
    assert (found.taken, found.unequal, found.n_repeated) == ({"a": 1}, {"b": [2, 3]}, 1)


@given(st.lists(st.integers(0, 3)))
def test_distinct_records_are_the_first_of_each(records):
    assert distinct(records) == (list(dict.fromkeys(records)), len(records) - len({*records}))


def test_an_object_that_is_given_twice_in_a_picture_is_one():
    box, other = (1.0, 2.0, 30.0, 40.0), (1.0, 2.0, 30.0, 41.0)
    rows = [("cat", box, False), ("dog", box, False), ("cat", [1, 2, 30, 40], False), ("cat", other, False)]
    assert distinct_objects(rows) == ([rows[0], rows[1], rows[3]], 1)
    unusable = [("cat", "without a box", False)] * 2
    assert distinct_objects(unusable) == (unusable, 0)
    truth = truth_by_class({"a": rows + unusable}, ["cat", "dog"])
    assert truth["cat"]["a"].boxes.tolist() == [list(box), list(other)]
    assert truth.sentence == (
        "2 of 5 annotations are left out of evaluation (2 without a box); 1 boxes are given twice and count once"
    )
