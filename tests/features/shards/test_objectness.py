"""The optional objectness of a shard's windows: measured in whole pictures, checked, and absent where nothing was."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save

from lapsvm.errors import InputError, SettingsError, ShapeError, ShardError
from lapsvm.features import PictureWindows, assemble_shard, open_shards, read_header, read_shard, write_shard
from lapsvm.features.shards.shard import TENSORS

SOURCE = {"kind": "u2netp", "content": "12ab"}
OLD = Path(__file__).parents[2] / "compatibility" / "0.2.0" / "shards"


def picture(name, objectness=None, n=2):
    rng = np.random.default_rng(len(name) + n)
    boxes, features = rng.uniform(0, 50, (n, 4)), rng.normal(size=(n, 3))
    return PictureWindows(name, boxes, features, name * 32, (40, 50), objectness=objectness)


def shard(*pictures, **provenance):
    return assemble_shard(pictures, provenance)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "0000000.safetensors"


def measured(path):
    """Return picture -> the objectness that a file holds of it, as a list, or None."""
    stored = {one.image_id: one.objectness for one in read_shard(path).pictures()}
    return {name: None if numbers is None else numbers.tolist() for name, numbers in stored.items()}


@pytest.mark.parametrize("dtype", ["float16", "float32", "bfloat16"])
@pytest.mark.parametrize("mapped", [False, True])
def test_objectness_comes_back_beside_everything_else(path, dtype, mapped):
    pictures = [picture("a"), picture("b", [0.25, 1.0]), picture("c", np.float32([0.0])[:0], n=0)]
    write_shard(path, assemble_shard(pictures, {"objectness": SOURCE, "seed": 1}, dtype))
    back, plain = read_shard(path, mapped=mapped), assemble_shard([replace(p, objectness=None) for p in pictures], {})
    assert back.objectness.dtype == np.float32
    np.testing.assert_array_equal(back.objectness, [np.nan, np.nan, 0.25, 1.0])
    assert measured(path) == {"a": None, "b": [0.25, 1.0], "c": None}
    assert (back.boxes.tolist(), back.provenance) == (plain.boxes.tolist(), {"objectness": SOURCE, "seed": 1})
    assert read_header(path).has_objectness


def test_a_file_with_it_has_the_bytes_that_safetensors_writes(path):
    whole = shard(picture("a", [0.5, 0.75]), objectness=SOURCE)
    write_shard(path, whole)
    with safe_open(path, framework="numpy") as file:
        assert path.read_bytes() == save(whole.tensors, metadata=file.metadata())


@pytest.mark.parametrize("nothing", [None, [np.nan, np.nan], np.full(2, np.nan, np.float32)])
def test_a_shard_of_which_nothing_was_measured_has_the_bytes_of_one_without(tmp_path, nothing):
    for name, one in {
        "0": shard(picture("a", nothing), objectness=SOURCE, seed=1),
        "1": shard(picture("a"), seed=1),
    }.items():
        write_shard(tmp_path / name, one)
    assert (tmp_path / "0").read_bytes() == (tmp_path / "1").read_bytes()
    assert not read_header(tmp_path / "0").has_objectness
    with safe_open(tmp_path / "0", framework="numpy") as file:
        assert sorted(file.keys()) == sorted(TENSORS)


@pytest.mark.parametrize("old", sorted(OLD.glob("*/*")), ids=lambda path: path.parent.name)
def test_shards_of_earlier_versions_are_written_as_the_same_bytes(old, path):
    stored = read_shard(old)
    assert stored.objectness is None
    write_shard(path, stored)
    assert path.read_bytes() == old.read_bytes()
    pictures = list(stored.pictures())
    write_shard(path, assemble_shard(pictures, stored.provenance, read_header(old).dtype))
    assert path.read_bytes() == old.read_bytes()


@pytest.mark.parametrize(
    ("numbers", "error", "sentence"),
    [
        ([0.5, np.nan], InputError, "picture a must be a number in all of its windows or in none, got NaN in 1 of 2"),
        ([0.5, 1.5], InputError, r"objectness of picture a must be from 0 to 1, got 1\.5"),
        ([-1e-9, 0.5], InputError, "objectness of picture a must be from 0 to 1, got -1e-09"),
        ([0.5, np.inf], InputError, "must be from 0 to 1, got inf"),
        ([0.5, 1e300], InputError, r"must be from 0 to 1, got 1e\+300"),
        ([0.5], ShapeError, r"picture a must have objectness of shape \(2,\), got \(1,\)"),
        ([[0.5, 0.5]], ShapeError, r"got \(1, 2\)"),
        (0.5, ShapeError, r"got \(\)"),
        (["0.5", "0.5"], InputError, "objectness of picture a must be numbers"),
        ([0.5j, 0.5], InputError, "objectness of picture a must be numbers, got complex128"),
    ],
)
def test_numbers_that_break_the_rule_are_refused_with_their_picture(numbers, error, sentence):
    with pytest.raises(error, match=sentence):
        shard(picture("b", [0.0, 1.0]), picture("a", numbers))


@pytest.mark.parametrize(
    ("numbers", "sentence"),
    [
        (np.array([0.5, 0.5, 0.5]), "objectness of a shard must be float32, got float64"),
        (np.float32([0.5, 0.5]), r"objectness of a shard must have shape \(3,\), got \(2,\)"),
        (np.float32([0.5, np.nan, 0.5]), "objectness of picture b must be a number in all of its windows or in none"),
        (np.float32([0.5, 0.5, 1.1]), "objectness of picture b must be from 0 to 1"),
        (np.float32([np.nan] * 3), "objectness of a shard must be measured in a picture or more, got NaN alone"),
    ],
)
def test_a_shard_checks_its_tensor(numbers, sentence):
    with pytest.raises(InputError, match=sentence):
        replace(shard(picture("a", n=1), picture("b")), objectness=numbers)


def test_every_flipped_byte_and_every_truncation_is_found_or_harmless(path):
    whole = shard(picture("a", [0.5, 0.75]), picture("b"), objectness=SOURCE)
    write_shard(path, whole)
    content = path.read_bytes()
    for place in range(len(content)):
        path.write_bytes(content[:place])
        with pytest.raises(ShardError):
            read_header(path)
        damaged = bytearray(content)
        damaged[place] ^= 1 << (place % 8)
        path.write_bytes(damaged)
        try:
            np.testing.assert_array_equal(read_shard(path).objectness, whole.objectness)
        except ShardError as error:
            assert path.name in str(error)  # noqa: PT017


def test_a_number_that_breaks_the_rule_is_found_without_the_checksum(path):
    write_shard(path, shard(picture("a", [0.5, 0.75]), objectness=SOURCE))
    half = np.float32([0.5, 0.75]).tobytes()
    assert path.read_bytes().count(half) == 1
    path.write_bytes(path.read_bytes().replace(half, np.float32([0.5, 7.5]).tobytes()))
    with pytest.raises(ShardError, match=r"is damaged: objectness of picture a must be from 0 to 1, got 7\.5"):
        read_shard(path, verify=False)


def test_another_type_or_name_is_no_tensor_of_a_shard(path):
    write_shard(path, shard(picture("a", [0.5, 0.75]), objectness=SOURCE))
    content = path.read_bytes()
    for old, new, sentence in (
        (
            b'"objectness":{"dtype":"F32"',
            b'"objectness":{"dtype":"I32"',
            "its objectness are missing or of another type",
        ),
        (b'"objectness":{"dtype"', b'"objecthood":{"dtype"', "it holds other tensors than a shard's"),
    ):
        assert old in content
        path.write_bytes(content.replace(old, new))
        with pytest.raises(ShardError, match=sentence):
            read_header(path)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.none() | st.integers(0, 3), min_size=1, max_size=6), st.integers(0, 99))
def test_any_mixture_comes_back_and_keeps_its_bytes(tmp_path_factory, counts, seed):
    rng, path = np.random.default_rng(seed), tmp_path_factory.mktemp("shards") / "0.safetensors"
    pictures = [picture(f"p{i}", None if n is None else rng.uniform(size=n), n=n or 1) for i, n in enumerate(counts)]
    pictures = [replace(one, boxes=one.boxes[:n], features=one.features[:n]) if n == 0 else one
                for n, one in zip(counts, pictures, strict=True)]  # fmt: skip
    write_shard(path, assemble_shard(pictures, {"objectness": SOURCE}))
    content = path.read_bytes()
    expected = {one.image_id: None if not n else np.float32(one.objectness).tolist()
                for n, one in zip(counts, pictures, strict=True)}  # fmt: skip
    assert measured(path) == expected
    write_shard(path, assemble_shard(list(read_shard(path).pictures()), read_shard(path).provenance))
    assert path.read_bytes() == content


def test_its_source_is_no_setting_of_the_features(tmp_path):
    sources = {"0": None, "1": SOURCE, "2": SOURCE | {"runtime": {"version": "2"}}}
    for name, source in sources.items():
        one = shard(picture(name, source and [0.5, 0.5]), seed=1, **({"objectness": source} if source else {}))
        write_shard(tmp_path / f"{name}.safetensors", one)
    shards = open_shards(tmp_path)
    assert (shards.provenance, shards.objectness) == ({"seed": 1}, SOURCE)
    assert [header.has_objectness for header in shards.headers] == [False, True, True]
    (tmp_path / "1.safetensors").unlink()
    (tmp_path / "2.safetensors").unlink()
    assert open_shards(tmp_path).objectness is None


def test_two_sources_in_one_folder_are_told_where_objectness_is_asked_for(tmp_path):
    for name, content in {"0": "12ab", "1": "34cd"}.items():
        write_shard(tmp_path / f"{name}.safetensors", shard(picture(name, [0.5, 0.5]), objectness={"content": content}))
    shards = open_shards(tmp_path)
    assert shards.provenance == {}
    with pytest.raises(
        SettingsError, match=r"1\.safetensors has objectness measured with content '34cd' instead of '12a"
    ):
        _ = shards.objectness


def test_other_numbers_leave_the_features_alone():
    first = shard(picture("a", [0.5, 0.75]), picture("b"), objectness=SOURCE, seed=1)
    other = first.with_objectness({"b": [0.25, 0.0]}, {"content": "34cd"})
    np.testing.assert_array_equal(other.objectness, [np.nan, np.nan, 0.25, 0.0])
    assert (other.provenance, other.features is first.features) == (
        {"objectness": {"content": "34cd"}, "seed": 1},
        True,
    )
    without = other.with_objectness({}, {"content": "34cd"})
    assert (without.objectness, without.provenance) == (None, {"seed": 1})
    with pytest.raises(InputError, match="objectness of picture a must be from 0 to 1"):
        first.with_objectness({"a": [2.0, 0.0]}, SOURCE)
