"""Which pictures are the same: by pixels, by names of versions, and by an expression for one object."""

from pathlib import Path

import numpy as np
import pytest
from lapsvm.pipelines.run.groups import picture_groups

from lapsvm.catalog import ImageRecord


def groups(names, hashes=None, *expressions):
    """Return the groups of pictures with these ids."""
    records = [ImageRecord(name, Path("root") / f"{name}.jpg", {}) for name in names]
    return picture_groups(records, hashes or [""] * len(names), *expressions).tolist()


def test_pictures_without_anything_in_common_are_groups_of_their_own():
    assert groups(["a", "b", "c"], ["1", "2", "3"]) == [0, 1, 2]
    assert groups(["a", "b"]) == [0, 1]  # hashes that are not known are not equal


def test_equal_pixels_make_a_group():
    assert groups(["a", "b", "c", "d"], ["1", "2", "1", "2"]) == [0, 1, 0, 1]


def test_versions_of_one_original_are_a_group_in_one_folder_of_a_class():
    names = ["cat/7_jpg.rf.0a1b", "cat/7_jpg.rf.77ef", "dog/7_jpg.rf.0c2d", "cat/7", "cat/8_jpg.rf.0a1b"]
    assert groups(names) == [0, 0, 2, 3, 4]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (r"tile\d+", [0, 0, 2, 3, 4]),
        (r"tile(\d)_", [0, 0, 2, 3, 4]),
        (r"_exp(\d)", [0, 1, 0, 3, 4]),
        (r"^(?:tile(\d)|other)", [0, 0, 2, 3, 4]),  # a group that takes no part names no object
        (r"x*", [0, 1, 2, 3, 4]),  # nor does an empty match
        ("", [0, 1, 2, 3, 4]),
    ],
)
def test_an_expression_names_the_object_of_a_picture(expression, expected):
    assert groups(["tile1_exp1", "tile1_exp2", "tile2_exp1", "other", "others"], None, expression) == expected


def test_a_chain_of_equal_pairs_is_one_group_in_every_order():
    names = [f"part{number // 2}_{number}" for number in range(12)]
    hashes = [str((number + 1) // 2 % 6) if number < 8 else f"own{number}" for number in range(12)]
    known = np.array(groups(names, hashes, r"part\d+"))
    assert known.tolist() == [0] * 8 + [8, 8, 10, 10]
    for seed in range(20):
        order = np.random.default_rng(seed).permutation(12)
        found = np.array(groups([names[row] for row in order], [hashes[row] for row in order], r"part\d+"))
        assert (found[:, None] == found).tolist() == (known[order][:, None] == known[order]).tolist()
        assert (found <= np.arange(12)).all()  # the number is that of the first picture


def test_several_expressions_join_what_each_joins():
    assert groups(["a1x", "a2y", "b2x", "c3z"], None, "^[a-c]", r"\d") == [0, 0, 0, 3]
