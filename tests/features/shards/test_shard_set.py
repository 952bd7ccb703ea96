"""A folder of shards: opened by headers, and refused when its settings are not those wanted."""

import numpy as np
import pytest

from lapsvm.errors import MissingError, SettingsError, ShardError
from lapsvm.features import (
    PictureWindows,
    assemble_shard,
    check_settings,
    open_shards,
    read_header,
    read_shard,
    settings_difference,
    shard_name,
    shard_paths,
    write_shard,
)

SETTINGS = {"extractor": {"kind": "onnx", "size": 640, "mean": [127.5], "runtime": {"version": "1"}}, "seed": 0}


def put(folder, index, names="a", *, dim=3, dtype="float16", provenance=SETTINGS):
    rng = np.random.default_rng(index)
    pictures = [PictureWindows(n, np.zeros((2, 4)), rng.normal(size=(2, dim)), n, (4, 4)) for n in names]
    path = folder / shard_name(index)
    write_shard(path, assemble_shard(pictures, provenance, dtype))
    return path


def test_shards_are_sorted_and_others_are_none(tmp_path):
    paths = [put(tmp_path, index, str(index % 7)) for index in (10, 2, 33)]
    (tmp_path / ".0000001.safetensors.ab.partial").touch()
    (tmp_path / ".0000001.safetensors").touch()
    (tmp_path / "notes.txt").touch()
    assert shard_paths(tmp_path) == sorted(paths) == [tmp_path / shard_name(index) for index in (2, 10, 33)]


def test_a_set_counts_and_reads_in_order(tmp_path):
    put(tmp_path, 0, "ab")
    put(tmp_path, 1, "c")
    shards = open_shards(tmp_path)
    assert (len(shards), shards.n_images, shards.n_windows, shards.dim, shards.dtype) == (2, 3, 6, 3, "float16")
    assert shards.image_ids == ("a", "b", "c")
    assert shards.pixel_hashes == ("a", "b", "c")
    assert shards.provenance == {"extractor": {"kind": "onnx", "size": 640, "mean": [127.5]}, "seed": 0}
    for shard, path in zip(shards, shard_paths(tmp_path), strict=True):
        np.testing.assert_array_equal(shard.features, read_shard(path).features)
    np.testing.assert_array_equal(shards.read(1, mapped=False, verify=True).features, shards.read(1).features)


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(MissingError, match="holds no shards"):
        open_shards(tmp_path)
    with pytest.raises(MissingError, match="absent of shards is not there"):
        open_shards(tmp_path / "absent")


@pytest.mark.parametrize("changed", [{"dim": 4}, {"dtype": "float32"}], ids=["columns", "type"])
def test_shards_of_two_kinds_do_not_mix(tmp_path, changed):
    put(tmp_path, 0, "a")
    put(tmp_path, 1, "b", **changed)
    with pytest.raises(ShardError, match=r"0000001\.safetensors must have 3 features of float16 as 0000000"):
        open_shards(tmp_path)


def test_a_picture_in_two_shards_is_refused(tmp_path):
    put(tmp_path, 0, "ab")
    put(tmp_path, 1, "b")
    with pytest.raises(ShardError, match="picture b is in two shards"):
        open_shards(tmp_path)


def test_shards_made_with_different_settings_do_not_mix(tmp_path):
    put(tmp_path, 0, "a")
    put(tmp_path, 1, "b", provenance=SETTINGS | {"seed": 1})
    with pytest.raises(SettingsError, match=r"0000001\.safetensors was made with seed 1 instead of 0\.$"):
        open_shards(tmp_path)


def changed_extractor(**changes):
    return {"extractor": SETTINGS["extractor"] | changes, "seed": 0}


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        (changed_extractor(size=448), r"0000000\.safetensors was made with extractor\.size 640 instead of 448\.$"),
        (changed_extractor(mean=(1, 2)), r"extractor\.mean \[127\.5\] instead of \[1, 2\]\.$"),
        (changed_extractor(norm="l2"), r"extractor\.norm \(not set\) instead of 'l2'\.$"),
        ({"extractor": SETTINGS["extractor"]}, r"made with seed 0 instead of \(not set\)\.$"),
        ({"a": 1, "b": 2}, r"a \(not set\) instead of 1, b \(not set\) instead of 2, extractor\.kind .* and 3 more\.$"),
        ({"extractor": "hog", "seed": 0}, r"extractor \(not set\) instead of 'hog', extractor\.kind 'onnx' instead"),
    ],
)
def test_the_setting_that_differs_is_named_with_both_values(tmp_path, wanted, sentence):
    with pytest.raises(SettingsError, match=sentence):
        check_settings(read_header(put(tmp_path, 0)), wanted)


def test_the_same_settings_pass_whatever_the_runtime(tmp_path):
    header = read_header(put(tmp_path, 0))
    check_settings(header, changed_extractor(mean=(127.5,), runtime={"version": "2", "name": "other"}))
    check_settings(header, changed_extractor(runtime="another"))


def test_settings_that_agree_have_no_difference():
    assert settings_difference(SETTINGS, changed_extractor(runtime=None)) == ""
    assert settings_difference({"a": {"b": 1}}, {"a": {"b": 2}}) == "a.b 1 instead of 2"
    assert settings_difference({"a": {}}, {}) == "a {} instead of (not set)"
