"""Which pictures are the same: by pixels, by names of versions, and by an expression for one object."""

from pathlib import Path

import numpy as np
import pytest
from lapsvm.pipelines.run.groups import BEFORE_LAST, looks_grouped, picture_groups
from PIL import Image

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


def records_of(*names):
    return [ImageRecord(name, Path("root") / f"{name}.jpg", {}) for name in names]


@pytest.mark.parametrize("name", ["good/part{:02d}-{}", "{}.{}", "my-parts/{:03d}_{}", "line 7/part {} {}"])
@pytest.mark.parametrize("views", [("1", "2"), ("left", "top", "right"), ("a", "b"), ("01", "12")])
def test_names_that_end_in_a_short_number_or_word_behind_another_look_grouped(name, views):
    records = records_of(*(name.format(number, view) for number in range(10) for view in views))
    found = looks_grouped(records)
    assert found == [record.id for record in records[: len(views)]]
    same = picture_groups(records, [""] * len(records), BEFORE_LAST)
    assert same.tolist() == [row - row % len(views) for row in range(len(records))]
    assert looks_grouped(records + records_of(*(f"other{number}" for number in range(len(records))))) == found
    assert looks_grouped(records + records_of(*(f"other{number}" for number in range(len(records) + 1)))) == []
    assert looks_grouped(records[: 9 * len(views)]) == []  # few of them are a chance


@pytest.mark.parametrize(
    "name",
    [
        "{first:02d}{second}",  # no sign
        "{first}_{second:06d}",  # a year and a number
        "class{first}_{second:04d}",
        "raccoon-{both}",
        "{both:04d}-left",
        "{both}_jpg.rf.0a1b",
        "part{first}/{second}",  # folders are classes
        "fold{first}-{second}{both:03d}",
    ],
)
def test_other_names_do_not_look_grouped(name):
    pairs = [(first, second) for first in range(20) for second in range(5)]
    names = [name.format(first=first, second=second, both=5 * first + second) for first, second in pairs]
    assert looks_grouped(records_of(*names)) == []


def test_numbered_classes_do_not_look_grouped():
    assert looks_grouped(records_of(*(f"class{kind}_{number}" for kind in range(12) for number in range(25)))) == []
    assert looks_grouped([]) == []


def test_a_run_asks_for_the_objects_that_names_suggest_until_it_is_told(tmp_path, command):
    for row, pixels in enumerate(np.random.default_rng(0).integers(0, 256, (20, 36, 48, 3), dtype=np.uint8)):
        folder = tmp_path / "data" / ("good" if row < 10 else "scratch")
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / f"part{row // 2:02d}-{row % 2}.png")
    line = ["extract", "--data", "folder", "--root", tmp_path / "data", "--out", tmp_path / "RUN", "--windows", "grid"]
    line += ["--extractor", "hog", "--max-windows", "5"]
    said = " ".join(command(*line).err.split())
    told = f"do good/part00-0 and good/part00-1 show one object, and so on? Then --group '{BEFORE_LAST}' keeps"
    assert f"pictures: {told} an object's pictures in one fold; held-out figures are too high without." in said
    said = " ".join(command(*line, "--group", BEFORE_LAST).err.split())
    assert "show one object" not in said
    assert f"pictures: {BEFORE_LAST!r} puts the 20 training pictures into 10 groups." in said
