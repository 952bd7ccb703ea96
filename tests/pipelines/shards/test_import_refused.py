"""What is wrong with windows from elsewhere: one sentence with the file, the rule and the value."""

import json
import shutil

import numpy as np
import pytest

from lapsvm.catalog import open_dataset
from lapsvm.features import open_shards


@pytest.fixture
def out(tmp_path):
    return tmp_path / "RUN"


@pytest.fixture
def source(digits, tmp_path):
    """A folder with one window and the whole picture of every picture of both sets."""
    folder = tmp_path / "source"
    folder.mkdir()
    for set_name in ("trainval", "test"):
        for record in open_dataset("voc", digits).records(set_name):
            height, width = record.pixels().shape[:2]
            boxes = np.array([[0, 0, width, height], [5, 6, 30, 40]])
            np.savez(folder / record.id, boxes=boxes, features=np.eye(2, 3))
    return folder


@pytest.fixture
def line(digits, source, out):
    return ["import", source, "--data", "voc", "--root", digits, "--out", out]


def change(source, image_id="000001", **changes):
    """Give a picture's file other arrays."""
    path = source / f"{image_id}.npz"
    with np.load(path) as archive:
        arrays = dict(archive)
    for name, function in changes.items():
        arrays[name] = function(arrays[name])
    np.savez(path, **arrays)
    return path


def second(box):
    """Return a function that gives another second box."""
    return lambda boxes: np.array([boxes[0], box])


@pytest.mark.parametrize(
    ("name", "function", "sentence"),
    [
        ("features", lambda f: f * np.nan, "features must be finite, got nan at index (0, 0)"),
        (
            "features",
            lambda f: f + 1e5,
            "features must be at most 65504 in size to fit float16, got 100001; give --set features.dtype=float32",
        ),
        ("features", lambda f: -1e5 * f, "must be at most 65504"),
        ("features", lambda f: f[:1], "features and boxes must have the same length, got 1 and 2"),
        ("features", lambda f: f[:, :2], "a window must have 3 features as in "),
        ("boxes", second([5, 6, 300, 40]), "the box of row 1 must lie in the picture of "),
        ("boxes", second([-5, 6, 30, 40]), "got -5, 6, 30, 40 as x1, y1, x2, y2"),
        ("boxes", second([30, 6, 5, 40]), "the box of row 1 must have an area, got 30, 6, 5, 40"),
        ("boxes", second([5, 6, 5, 40]), "must have an area"),
        ("boxes", second([5, 6, np.inf, 40]), "boxes must be finite, got inf at index (1, 2)"),
    ],
)
def test_a_picture_that_breaks_a_rule_is_named_with_the_value(source, line, refused, name, function, sentence):
    path = change(source, "000005", **{name: function})
    said = refused(*line)
    assert sentence in said
    assert str(path) in said


def test_larger_features_fit_float32(source, line, command):
    change(source, features=lambda f: f + 1e5)
    assert command(*line, "--set=features.dtype=float32").status == 0


def test_boxes_that_reach_out_by_rounding_are_cut_and_counted(source, line, out, command):
    change(source, "000001", boxes=second([-1, -0.5, 30, 40]))
    assert "1 boxes cut to the picture" in command(*line).err
    shard = open_shards(out / "shards" / "trainval").read(0)
    place = shard.image_ids.index("000001")
    np.testing.assert_array_equal(shard.boxes[shard.offsets[place] + 1], [0, 0, 30, 40])


def test_clip_cuts_boxes_and_leaves_out_those_beside_the_picture(source, line, out, command):
    path = source / "000001.npz"
    with np.load(path) as archive:
        boxes = archive["boxes"]
    np.savez(path, boxes=np.vstack([boxes, [-90, 1, 20, 20], [900, 1, 920, 20]]), features=np.eye(4, 3))
    said = command(*line, "--clip").err
    assert "1 boxes outside the picture left out, 1 boxes cut to the picture" in said
    shard = open_shards(out / "shards" / "trainval").read(0)
    place = shard.image_ids.index("000001")
    rows = slice(shard.offsets[place], shard.offsets[place + 1])
    np.testing.assert_array_equal(shard.boxes[rows][2], [0, 1, 20, 20])
    np.testing.assert_array_equal(shard.features[rows], np.eye(4, 3)[:3])


def test_repeated_boxes_are_kept_once_and_counted(source, line, command):
    change(source, boxes=lambda boxes: boxes[[1, 1]])
    said = command(*line).err
    assert "1 repeated boxes left out" in said
    assert "1 pictures without a window of the whole picture" in said


def test_a_picture_without_a_file_is_named_with_what_is_there(source, line, refused):
    (source / "000007.npz").rename(source / "0000007.npz")
    said = refused(*line)
    assert "1 of 40 are not there, the first is '000007'" in said
    assert str(source) in said


def test_files_of_other_pictures_are_told_and_passed_over(source, line, command):
    (source / "elsewhere.npz").write_bytes((source / "000001.npz").read_bytes())
    assert "1 pictures of " in command(*line).err


def test_files_that_name_no_picture_of_the_set_are_refused(source, line, refused):
    for path in source.iterdir():
        path.rename(source / f"img_{path.name}")
    said = refused(*line)
    assert "40 of 40 are not there, the first is '000001'" in said
    assert "the first is 'img_000001'" in said


@pytest.mark.parametrize(
    ("name", "rule"), [("000003.jpg", "be in one file"), ("3", "have one entry, got 000003 and 3")]
)
def test_a_picture_in_two_files_or_under_two_names_is_refused(source, line, tmp_path, refused, name, rule):
    (tmp_path / "more.json").write_text(json.dumps({name: {"boxes": [[0, 0, 9, 9]], "features": [[1, 2, 3]]}}))
    said = refused(*line[:2], tmp_path / "more.json", *line[2:])
    assert f"picture '000003' must {rule}" in said


def test_only_ground_truth_in_a_file_leaves_no_window(source, line, refused):
    path = source / "000002.npz"
    np.savez(path, boxes=[[1, 2, 3, 4]], features=np.ones((1, 3)), gt=[1])
    assert "at least one window must be left, got none of 1 rows" in refused(*line)


def test_a_bad_picture_stops_the_import_or_is_left_out(source, line, digits, tmp_path, command, refused):
    root = shutil.copytree(digits, tmp_path / "data")
    bad = next((root / "JPEGImages").glob("000004.*"))
    bad.unlink()
    line[line.index(digits)] = root
    assert "000004" in refused(*line)
    result = command(*line, "--skip-bad")
    assert result.status == 0
    assert "picture 000004 is left out" in result.err
    assert command(*line, "--skip-bad").status == 0


def test_no_file_and_no_data_set_are_told(line, out, refused):
    assert "files with windows must be named" in refused(line[0], *line[2:])
    assert "must be named with --data and --root" in refused("import", line[1], "--out", out)
    assert "is not there" in refused("import", "nowhere", *line[2:])


def test_annotations_that_are_wanted_must_be_there(source, tmp_path, digits, refused):
    folder = tmp_path / "pictures"
    for place, record in enumerate(open_dataset("voc", digits).records("trainval")):
        own = folder / ("cat" if place % 2 else "background")
        own.mkdir(parents=True, exist_ok=True)
        (own / record.path.name).write_bytes(record.path.read_bytes())
        (source / own.name).mkdir(exist_ok=True)
        (source / f"{record.id}.npz").rename(source / own.name / f"{record.id}.npz")
    line = ["import", source, "--data", "folder", "--root", folder, "--out", tmp_path / "RUN", "--drop-equal-boxes"]
    assert "option --drop-equal-boxes needs the boxes of set 'trainval', which has none" in refused(*line)


def test_proposals_and_a_method_do_not_go_together(source, digits, out, refused):
    line = ["extract", "--proposals", source, "--data", "voc", "--root", digits, "--out", out, "--extractor", "hog"]
    assert "options --proposals and --windows must not go together, got 'grid'" in refused(*line, "--windows", "grid")
    assert "files with windows must be named" in refused(*line[:1], *line[3:], "--windows", "file")


def test_changed_proposals_are_refused(source, digits, out, command, refused):
    line = ["extract", "--proposals", source, "--data", "voc", "--root", digits, "--out", out, "--extractor", "hog"]
    assert command(*line).status == 0
    assert command(*line).status == 0
    change(source, boxes=second([5, 6, 31, 40]))
    assert "windows.source.content" in refused(*line)


def test_proposals_keep_the_limits_of_number_and_area(source, digits, out, command):
    line = ["extract", "--proposals", source, "--data", "voc", "--root", digits, "--out", out, "--extractor", "hog"]
    assert command(*line, "--set=windows.max_area=0.5").status == 0
    for shard in open_shards(out / "shards" / "trainval"):
        np.testing.assert_array_equal(shard.boxes, np.tile([[5, 6, 30, 40]], (len(shard.image_ids), 1)))


def test_normalised_boxes_are_refused(source, line, out, refused):
    for path in source.iterdir():
        change(source, path.stem, boxes=lambda boxes: boxes / boxes[0].max())
    said = refused(*line)
    assert "boxes must be in pixels, but all 2 lie within 0 to 1, as normalised ones do" in said
    assert not list(out.glob("shards/*/*"))


def test_a_hint_says_what_applies_to_imported_features_and_it_does(source, line, out, command):
    draw = np.random.default_rng(0)
    for path in source.iterdir():
        change(source, path.stem, features=lambda features: draw.normal(size=features.shape))
    hint = "recipe: plain; imported features take the parts of best that need no network"
    said = command(*line, "--classes", "six")
    assert said.status == 0
    assert hint in said.err
    assert hint not in command(*line, "--classes", "six").err  # everything is imported
    for verb in ("train", "refine", "detect", "evaluate"):
        more = ["--recipe", "best"] if verb == "train" else []
        done = command(verb, "--out", out, "--quiet", *more)
        assert done.status == 0, done.err
    assert (out / "first" / "six.safetensors").is_file()
