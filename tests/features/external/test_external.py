"""Other programs' files of windows: what is read, and the sentence for each thing that is wrong."""

import json

import numpy as np
import pytest
from scipy.io import savemat

from lapsvm.errors import ExternalFileError, LapsvmError, MissingError, OptionError
from lapsvm.features import ArrayNames, BoxConvention, open_external

BOXES = np.array([[0.0, 0.0, 10.0, 20.0], [2.0, 3.0, 5.0, 7.0]])
FEATURES = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


@pytest.mark.parametrize(
    ("convention", "written"),
    [
        (BoxConvention(), [2, 3, 5, 7]),
        (BoxConvention("xyxy", 1, "inclusive"), [3, 4, 5, 7]),
        (BoxConvention("xyxy", 0, "inclusive"), [2, 3, 4, 6]),
        (BoxConvention("xyxy", 1, "exclusive"), [3, 4, 6, 8]),
        (BoxConvention("yxyx", 1, "inclusive"), [4, 3, 7, 5]),
        (BoxConvention("xywh", 0), [2, 3, 3, 4]),
        (BoxConvention("xywh", 1, "inclusive"), [3, 4, 3, 4]),
    ],
)
def test_one_box_in_every_convention(convention, written):
    np.testing.assert_array_equal(convention.to_xyxy(np.array([written], dtype=float)), [[2, 3, 5, 7]])


@pytest.mark.parametrize("values", [("xxyy", 0, "inclusive"), ("xyxy", 2, "inclusive"), ("xyxy", 0, "open")])
def test_other_conventions_are_refused(values):
    with pytest.raises(OptionError, match="of boxes must be one of"):
        BoxConvention(*values)


def npz(folder, **arrays):
    np.savez(folder / "one.npz", **arrays)
    return folder / "one.npz"


def read(path, **names):
    source = open_external(path, names=ArrayNames(**names))
    return source.read(source.keys[0])


def test_a_file_of_a_folder_below_is_named_by_its_path(tmp_path):
    (tmp_path / "cat").mkdir()
    np.savez(tmp_path / "cat" / "one.npz", rois=BOXES, feat=FEATURES)
    np.savez(tmp_path / "two.npz", rois=BOXES, feat=FEATURES)
    source = open_external(tmp_path)
    assert source.keys == ("cat/one", "two")
    np.testing.assert_array_equal(source.read("cat/one").features, FEATURES)
    assert source.read("two", features=False).features is None


def test_a_fifth_column_of_scores_is_passed_over(tmp_path):
    np.testing.assert_array_equal(read(npz(tmp_path, bbs=np.hstack([BOXES, [[9], [8]]]))).boxes, BOXES)


def test_flags_of_ground_truth_are_read_from_every_format(tmp_path):
    flags = np.array([True, False])
    np.testing.assert_array_equal(read(npz(tmp_path, boxes=BOXES, gt=flags)).truth, flags)
    file = tmp_path / "some.json"
    file.write_text(json.dumps({"one": {"boxes": BOXES.tolist(), "gt": [1, 0]}}))
    np.testing.assert_array_equal(read(file).truth, flags)


def test_equal_content_has_an_equal_hash_wherever_it_lies(tmp_path):
    (tmp_path / "other").mkdir()
    one, two = npz(tmp_path, boxes=BOXES, features=FEATURES), npz(tmp_path / "other", boxes=BOXES, features=FEATURES)
    assert read(one).content_hash == read(two).content_hash
    npz(tmp_path / "other", boxes=BOXES, features=FEATURES + 1)
    assert read(one).content_hash != read(two).content_hash


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"boxes": BOXES, "features": FEATURES[:1]}, "features and boxes must have the same length, got 1 and 2"),
        ({"boxes": BOXES, "features": FEATURES * np.nan}, "features must be finite, got nan at index \\(0, 0\\)"),
        ({"boxes": BOXES + np.inf}, "boxes must be finite, got inf at index \\(0, 0\\)"),
        ({"boxes": BOXES[:, :3]}, r"boxes must have shape \(n, 4\) with n at least 1, got \(2, 3\)"),
        ({"boxes": BOXES[:0]}, "with n at least 1"),
        ({"boxes": BOXES, "features": FEATURES[:, :0]}, "with d at least 1"),
        ({"boxes": BOXES, "features": FEATURES[0]}, r"features must have shape \(n, d\)"),
        ({"boxes": BOXES.astype("U")}, "boxes must be a table of numbers, got <U"),
        ({"boxes": BOXES, "gt": [True]}, "gt must have one flag per box, got 1 of bool for 2 boxes"),
        ({"windows": BOXES}, "must hold an array named boxes or .*, got windows"),
        ({"boxes": np.array([BOXES, None], dtype=object)}, "holds pickled objects, which are refused"),
    ],
)
def test_what_is_wrong_in_an_npz_file_is_told_with_its_name(tmp_path, arrays, sentence):
    path = npz(tmp_path, **arrays)
    with pytest.raises(ExternalFileError, match=sentence) as caught:
        read(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("kind", ["npz", "mat", "json", "npy"])
def test_a_truncated_file_is_told_with_its_name(tmp_path, kind, share):
    path = tmp_path / f"one.{kind}"
    if kind == "npz":
        np.savez(path, boxes=BOXES, features=FEATURES)
    elif kind == "mat":
        savemat(path, {"boxes": BOXES, "feat": FEATURES}, do_compression=True)
    elif kind == "json":
        path.write_text(json.dumps({"one": {"boxes": BOXES.tolist()}}))
    else:
        np.save(path, FEATURES)
        np.save(tmp_path / "boxes.npy", BOXES)
        np.save(tmp_path / "offsets.npy", [0, 2])
        (tmp_path / "ids.txt").write_text("one\n")
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ExternalFileError, match=r"is truncated|got an empty file") as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_pickled_npy_files_are_refused(tmp_path):
    np.save(tmp_path / "boxes.npy", np.array([{"code": 1}], dtype=object))
    np.save(tmp_path / "offsets.npy", [0, 1])
    (tmp_path / "ids.txt").write_text("one\n")
    with pytest.raises(ExternalFileError, match="pickled objects, which are refused"):
        open_external(tmp_path)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"offsets": [0, 1]}, "offsets must be 3 whole numbers for 2 ids"),
        ({"offsets": [0.0, 1.0, 2.0]}, "offsets must be whole numbers"),
        ({"offsets": [0, 3, 2]}, "offsets must rise from 0 to the number of boxes 2"),
        ({"offsets": [1, 1, 2]}, "offsets must rise from 0 to the number of boxes 2, got 1 to 2"),
        ({"ids": ["one", "one"]}, "ids of .* must differ, got 'one' twice"),
        ({"features": FEATURES[:1]}, "must have as many features as boxes, got 1 for 2 boxes"),
    ],
)
def test_what_is_wrong_in_arrays_with_offsets(tmp_path, changes, sentence):
    parts = {"ids": ["one", "two"], "offsets": [0, 1, 2], "features": FEATURES} | changes
    np.save(tmp_path / "features.npy", parts.pop("features"))
    np.save(tmp_path / "boxes.npy", BOXES)
    np.save(tmp_path / "offsets.npy", parts["offsets"])
    (tmp_path / "ids.txt").write_text("\n".join(parts["ids"]))
    with pytest.raises(ExternalFileError, match=sentence):
        open_external(tmp_path / "features.npy")


def test_a_companion_that_is_not_there_is_named(tmp_path):
    np.save(tmp_path / "features.npy", FEATURES)
    with pytest.raises(MissingError, match=r"boxes\.npy is not there"):
        open_external(tmp_path / "features.npy")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"one": [[0, 0, 1, 1]], "one": [[0, 0, 1, 1]]}', "must have each key once, got 'one' twice"),
        ('{"images": [], "annotations": []}', "holds annotations, which are ground truth"),
        ('{"one": 3}', "must be an object or a list of boxes, got int"),
        ('{"one": [[0, 0, 1, 1], [0, 0, 1]]}', "boxes must be a table of numbers; setting an array"),
        ('{"one": [[0, 0, NaN, 1]]}', "boxes must be finite, got nan at index \\(0, 2\\)"),
        ('[{"image_id": 1}]', "entry 0 must have an image_id and a bbox"),
        ("3", "must hold an object or a list of pictures, got int"),
        ("{}", "must hold an object or a list of pictures, got none"),
        ("[]", "must hold an object or a list of pictures, got none"),
        ('[{"image_id": true, "bbox": [0, 0, 1, 1]}]', "entry 0 must have an image_id and a bbox"),
    ],
)
def test_what_is_wrong_in_json(tmp_path, text, sentence):
    (tmp_path / "some.json").write_text(text)
    with pytest.raises(ExternalFileError, match=sentence):
        read(tmp_path / "some.json")


def test_a_picture_without_features_among_others_with_them_is_named(tmp_path):
    (tmp_path / "some.json").write_text('{"a": {"boxes": [[0, 0, 1, 1]], "features": [[1]]}, "b": [[0, 0, 1, 1]]}')
    source = open_external(tmp_path / "some.json")
    with pytest.raises(ExternalFileError, match="picture b must hold features as the other pictures do"):
        source.read("b")


def test_the_best_scored_proposals_of_a_list_come_first(tmp_path):
    rows = [{"image_id": 7, "bbox": [place, 0, 1, 1], "score": place} for place in range(3)]
    (tmp_path / "some.json").write_text(json.dumps(rows))
    np.testing.assert_array_equal(read(tmp_path / "some.json").boxes[:, 0], [2, 1, 0])


def test_whole_numbers_are_ids_also_as_tables_with_gaps_write_them(tmp_path):
    rows = [{"image_id": number, "bbox": [0, 0, 1, 1]} for number in (7.0, 7, "7")]
    (tmp_path / "some.json").write_text(json.dumps(rows))
    assert open_external(tmp_path / "some.json").keys == ("7",)
    assert len(read(tmp_path / "some.json").boxes) == 3


def test_matlabs_version_73_is_refused_with_the_way_out(tmp_path):
    (tmp_path / "one.mat").write_bytes(
        b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(512, b" ") + b"\x89HDF\r\n\x1a\n"
    )
    with pytest.raises(ExternalFileError, match=r"of MATLAB's version 7\.3, which is not read; .* '-v7'"):
        open_external(tmp_path)


def test_a_struct_is_read_like_its_fields(tmp_path):
    savemat(tmp_path / "one.mat", {"d": {"boxes": BOXES, "feat": FEATURES, "gt": [[1], [0]]}})
    found = read(tmp_path / "one.mat")
    np.testing.assert_array_equal(found.features, FEATURES)
    np.testing.assert_array_equal(found.truth, [True, False])
    assert open_external(tmp_path).convention == BoxConvention("xyxy", 1, "inclusive")


def test_lists_whose_cells_do_not_fit_are_refused(tmp_path):
    boxes = np.empty((1, 1), dtype=object)
    boxes[0, 0] = BOXES
    savemat(tmp_path / "list.mat", {"images": np.array([["a"], ["b"]], dtype=object), "boxes": boxes})
    with pytest.raises(ExternalFileError, match="boxes must have one cell per picture, got 1 for 2"):
        open_external(tmp_path / "list.mat")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("none.json", "is not there"), ("some.pickle", "of one of npz, npy, json, mat"), ("empty", "of one of npz")],
)
def test_what_is_no_source_is_refused(tmp_path, name, sentence):
    (tmp_path / "some.pickle").write_bytes(b"x")
    (tmp_path / "empty").mkdir()
    with pytest.raises(LapsvmError, match=sentence):
        open_external(tmp_path / name)


def test_a_format_may_be_named(tmp_path):
    npz(tmp_path, boxes=BOXES)
    (tmp_path / "one.mat").write_bytes(b"x")
    with pytest.raises(ExternalFileError, match="files of mat and npz"):
        open_external(tmp_path)
    assert open_external(tmp_path, "npz").keys == ("one",)
    with pytest.raises(OptionError, match="must be one of npz, npy, json, mat, got 'pkl'"):
        open_external(tmp_path, "pkl")
