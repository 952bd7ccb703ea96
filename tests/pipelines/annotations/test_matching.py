"""Which picture of a run the name of another program means."""

from pathlib import Path

import pytest
from lapsvm.pipelines.annotations.matching import match_pictures

from lapsvm.catalog import ImageRecord

ROOT = Path("/photos/animals")


def records(**sets):
    return {
        name: [ImageRecord(path.rsplit(".", 1)[0], ROOT / name / path) for path in paths]
        for name, paths in sets.items()
    }


ANIMALS = records(trainval=["cat/001.jpg", "dog/001.jpg", "dog/my dog.v2.png"], test=["cat/001.jpg", "cat/007.jpg"])


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("007.jpg", ("test", "cat/007")),
        ("images/007.png", ("test", "cat/007")),  # the suffix says nothing, nor does a folder that nobody shares
        ("C:\\work\\dog\\001.jpg", ("trainval", "dog/001")),
        ("dog/001", ("trainval", "dog/001")),
        ("trainval/cat/001.jpg", ("trainval", "cat/001")),
        ("/mnt/photos/animals/test/cat/001.jpg", ("test", "cat/001")),
        ("my dog.v2.png", ("trainval", "dog/my dog.v2")),
        ("my dog.v2", ("trainval", "dog/my dog.v2")),
        ("my%20dog.v2.png", ("trainval", "dog/my dog.v2")),
        ("007_jpg.rf.0a1b2c3d.jpg", ("test", "cat/007")),
        ("0A1B2C3D-007.jpg", ("test", "cat/007")),
        ("images\\0a1b2c3d-007_jpg.rf.9f.jpg", ("test", "cat/007")),
        ("dog/001_jpg.rf.9f.jpg", ("trainval", "dog/001")),
    ],
)
def test_a_name_means_the_picture_with_most_of_its_path(name, found):
    matches = match_pictures([[name]], ANIMALS)
    assert matches.pictures == {found: 0}
    assert not matches.unknown
    assert not matches.ambiguous


@pytest.mark.parametrize("name", ["001.jpg", "cat/001.jpg", "elsewhere/001.jpg"])
def test_equal_names_in_several_folders_or_sets_are_ambiguous(name):
    matches = match_pictures([[name]], ANIMALS)
    assert matches.ambiguous == [0]
    assert not matches.pictures


@pytest.mark.parametrize("name", ["002.jpg", "", "/", "my dog.png", "x0a1b2c3d-007.jpg", "0a1b2c3d-/x007.jpg"])
def test_a_name_of_no_picture_is_unknown(name):
    assert match_pictures([[name]], ANIMALS).unknown == [0]


def test_the_first_of_several_names_that_means_one_picture_counts():
    matches = match_pictures([["cat__001", "001.jpg", "dog/001.jpg", "007.jpg"]], ANIMALS)
    assert matches.pictures == {("trainval", "dog/001"): 0}


def test_what_several_names_of_one_picture_say_counts_if_it_is_the_same():
    names = [["a/007.jpg"], ["b/007.jpg"]]
    for contents in ((), ("one", "other")):
        matches = match_pictures(names, ANIMALS, contents)
        assert (matches.pictures, matches.ambiguous, matches.unequal) == ({}, [], [0, 1])
    matches = match_pictures(names, ANIMALS, ("one", "one"))
    assert (matches.pictures, matches.ambiguous, matches.unequal) == ({("test", "cat/007"): 0}, [], [])


def test_the_closest_of_several_names_of_one_picture_counts():
    matches = match_pictures([["a/007.jpg"], ["cat/007.jpg"]], ANIMALS)
    assert (matches.pictures, matches.ambiguous) == ({("test", "cat/007"): 1}, [0])


def test_a_file_in_two_sets_is_matched_in_both():
    shared = {name: [ImageRecord("007", ROOT / "JPEGImages" / "007.jpg")] for name in ("trainval", "test")}
    assert match_pictures([["007.jpg"]], shared).pictures == {("trainval", "007"): 0, ("test", "007"): 0}


def test_ids_of_other_readers_are_names_too():
    own = {"trainval": [ImageRecord("herd/a", Path("/cache/x1.bin")), ImageRecord("herd/b", Path("/cache/x2.bin"))]}
    assert match_pictures([["herd/b"], ["a.jpg"]], own).pictures == {
        ("trainval", "herd/b"): 0,
        ("trainval", "herd/a"): 1,
    }
