"""Objectness in other programs' files: one number from 0 to 1 a window, in every format, and never needed."""

import json
from hashlib import blake2b

import numpy as np
import pytest
from scipy.io import savemat

from lapsvm.errors import ExternalFileError
from lapsvm.features import ArrayNames, open_external

BOXES = np.array([[0.0, 0.0, 10.0, 20.0], [2.0, 3.0, 5.0, 7.0]])
FEATURES = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
NUMBERS = np.array([0.25, 1.0])


def write_npz(folder, name, numbers):
    np.savez(folder / "one.npz", boxes=BOXES, features=FEATURES, **{name: numbers})
    return folder / "one.npz"


def write_json(folder, name, numbers):
    one = {"boxes": BOXES.tolist(), "features": FEATURES.tolist(), name: np.asarray(numbers).tolist()}
    (folder / "some.json").write_text(json.dumps({"one": one}))
    return folder / "some.json"


def write_mat(folder, name, numbers):
    savemat(
        folder / "one.mat",
        {"boxes": BOXES + np.array([1, 1, 0, 0]), "feat": FEATURES, name: np.asarray(numbers)[:, None]},
    )
    return folder / "one.mat"


def write_list(folder, name, numbers):
    cells = {"images": "one", "boxes": BOXES[:, [1, 0, 3, 2]], "feat": FEATURES, name: numbers}
    content = {key: np.empty((1, 1), dtype=object) for key in cells}
    for key, value in cells.items():
        content[key][0, 0] = value
    savemat(folder / "all.mat", content)
    return folder / "all.mat"


def write_npy(folder, name, numbers):
    for key, array in {"features": FEATURES, "boxes": BOXES, "offsets": [0, 2], name: numbers}.items():
        np.save(folder / f"{key}.npy", array)
    (folder / "ids.txt").write_text("one")
    return folder


NAMED = [write_npz, write_json, write_mat, write_list]


def read(path, features=True, **names):
    source = open_external(path, names=ArrayNames(**names))
    return source.read(source.keys[0], features)


@pytest.mark.parametrize("write", [*NAMED, write_npy], ids=lambda write: write.__name__)
def test_it_is_read_from_every_format_beside_features(tmp_path, write):
    windows = read(write(tmp_path, "objectness", NUMBERS))
    assert windows.objectness.dtype == np.float64
    np.testing.assert_array_equal(windows.objectness, NUMBERS)
    np.testing.assert_array_equal(windows.features, FEATURES)
    assert read(write(tmp_path, "objectness", NUMBERS), features=False).objectness is None


@pytest.mark.parametrize("write", NAMED, ids=lambda write: write.__name__)
def test_it_may_have_another_name(tmp_path, write):
    path = write(tmp_path, "saliency", NUMBERS)
    assert read(path).objectness is None
    np.testing.assert_array_equal(read(path, objectness="saliency").objectness, NUMBERS)
    with pytest.raises(ExternalFileError, match="must hold an array named nosuch"):
        read(path, objectness="nosuch")


@pytest.mark.parametrize(
    ("numbers", "sentence"),
    [
        ([0.5, np.nan], "objectness must be from 0 to 1, got nan"),
        ([np.nan, np.nan], "objectness must be from 0 to 1, got nan"),
        ([0.5, 1.5], r"objectness must be from 0 to 1, got 1\.5"),
        ([-0.5, 0.5], r"objectness must be from 0 to 1, got -0\.5"),
        ([0.5, np.inf], "objectness must be from 0 to 1, got inf"),
    ],
)
@pytest.mark.parametrize("write", [*NAMED, write_npy], ids=lambda write: write.__name__)
def test_a_number_that_breaks_the_rule_is_one_sentence_with_its_file(tmp_path, write, numbers, sentence):
    path = write(tmp_path, "objectness", numbers)
    with pytest.raises(ExternalFileError, match=f"{sentence}.$") as caught:
        read(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("numbers", "sentence"),
    [
        ([0.5], "objectness must have one number per box, got 1 for 2 boxes"),
        ([[0.5, 0.5], [0.5, 0.5]], "objectness must have one number per box, got 4 for 2 boxes"),
        (["a", "b"], "objectness must be numbers, got <U1"),
        ([0.5j, 0.5], "objectness must be numbers, got complex128"),
    ],
)
def test_what_is_no_number_a_box_is_one_sentence(tmp_path, numbers, sentence):
    with pytest.raises(ExternalFileError, match=f"one.npz: {sentence}"):
        read(write_npz(tmp_path, "objectness", numbers))


def test_one_file_of_all_pictures_has_as_many_numbers_as_boxes(tmp_path):
    with pytest.raises(ExternalFileError, match="must have as many objectness as boxes, got 1 for 2 boxes"):
        read(write_npy(tmp_path, "objectness", NUMBERS[:1]))


@pytest.mark.parametrize("empty", [[], None])
def test_an_empty_array_is_none(tmp_path, empty):
    one = {"boxes": BOXES.tolist(), "features": FEATURES.tolist(), "objectness": empty}
    (tmp_path / "some.json").write_text(json.dumps({"one": one}))
    assert read(tmp_path / "some.json").objectness is None


def test_the_hash_of_content_counts_it_where_it_is(tmp_path):
    plain, measured = read(write_npz(tmp_path, "other", NUMBERS)), read(write_npz(tmp_path, "objectness", NUMBERS))
    digest = blake2b(digest_size=16)
    for array in (plain.boxes, plain.truth, plain.features):
        digest.update(f"{array.dtype.str} {array.shape}".encode() + array.tobytes())
    assert plain.content_hash == digest.hexdigest()
    assert len({plain.content_hash, measured.content_hash}) == 2
    assert read(write_npz(tmp_path, "objectness", NUMBERS / 2)).content_hash != measured.content_hash
