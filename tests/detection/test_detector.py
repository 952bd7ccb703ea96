"""Detectors: what they score, and the file they are kept in."""

import json
import struct

import numpy as np
import pytest

from lapsvm.detection import Detector, score_many
from lapsvm.errors import InputError, MissingError, ModelFileError, NotFiniteError, ShapeError


def detector(d=3, **changes):
    values = {
        "class_name": "potted plant",
        "coef": np.arange(1.0, d + 1),
        "intercept": 0.1 + 0.2,
        "scale": np.linspace(0.5, 2, d),
        "provenance": {"loss": "ap", "C": 1e-3, "data": {"trainval": "00ff"}},
    }
    return Detector(**(values | changes))


def test_a_score_is_the_weighted_scaled_features_plus_the_intercept():
    features = np.array([[1, 2, 4], [0, 0, 0]])
    found = detector(scale=[2, 1, 0.5], intercept=-1).score(features)
    assert found.tolist() == [1 * 2 * 1 + 2 * 1 * 2 + 3 * 0.5 * 4 - 1, -1]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_scores_are_float64_sums_whatever_the_features_are(dtype):
    features = np.random.default_rng(8).normal(size=(5000, 300)).astype(dtype)
    one = detector(300)
    expected = features.astype(np.float64) @ (one.coef * one.scale) + one.intercept
    assert one.score(features).dtype == np.float64
    np.testing.assert_allclose(one.score(features), expected, rtol=1e-12, atol=1e-9)


def test_float16_features_do_not_overflow_in_the_sum():
    features = np.full((1, 1000), 60000, dtype=np.float16)
    assert Detector("car", np.ones(1000)).score(features) == pytest.approx(1000 * float(np.float16(60000)))


def test_one_number_scales_all_features():
    assert detector(scale=2).scale.tolist() == [2, 2, 2]


def test_several_detectors_score_at_once():
    features = np.random.default_rng(9).normal(size=(20, 3))
    pair = [detector(), detector(coef=[-1, 0, 2], intercept=4)]
    np.testing.assert_allclose(score_many(pair, features), np.column_stack([one.score(features) for one in pair]))


def test_no_windows_no_scores():
    assert score_many([detector()] * 2, np.empty((0, 3), np.float16)).shape == (0, 2)


def test_a_detector_comes_back_from_its_file_as_it_was(tmp_path):
    one = detector()
    one.save(tmp_path / "a.safetensors")
    back = Detector.load(tmp_path / "a.safetensors")
    np.testing.assert_array_equal(back.coef, one.coef)
    np.testing.assert_array_equal(back.scale, one.scale)
    kept = ("class_name", "intercept", "provenance")
    assert [getattr(back, name) for name in kept] == [getattr(one, name) for name in kept]


def test_the_same_detector_gives_the_same_bytes_wherever_it_lies(tmp_path):
    (tmp_path / "deeper").mkdir()
    detector(provenance={"a": 1, "b": 2}).save(tmp_path / "a.safetensors")
    detector(provenance={"b": 2, "a": 1}).save(tmp_path / "deeper" / "b.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "deeper" / "b.safetensors").read_bytes()


def test_a_file_has_one_metadata_key_with_sorted_json(tmp_path):
    detector().save(tmp_path / "a.safetensors")
    content = (tmp_path / "a.safetensors").read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    metadata = json.loads(content[8 : 8 + size])["__metadata__"]
    assert list(metadata) == ["lapsvm"]
    assert metadata["lapsvm"] == json.dumps(json.loads(metadata["lapsvm"]), sort_keys=True)


def test_a_truncated_file_and_a_flipped_byte_are_refused_with_one_sentence(tmp_path):
    path = tmp_path / "a.safetensors"
    detector(1, provenance={}).save(path)
    whole = path.read_bytes()
    damaged = [whole[:n] for n in range(0, len(whole), 3)]
    damaged += [whole[:n] + bytes([whole[n] ^ 0x15]) + whole[n + 1 :] for n in range(0, len(whole), 3)]
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(ModelFileError) as caught:
            Detector.load(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


def rewritten(path, tensors, **metadata):
    from safetensors.numpy import save_file

    save_file(tensors, path, metadata=metadata or None)
    return path


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({}, "is no detector of lapsvm: its header has no 'lapsvm' entry"),
        ({"lapsvm": "{"}, "is damaged or no safetensors file"),
        ({"lapsvm": "[]"}, "is no detector of lapsvm, but None"),
        ({"lapsvm": '{"format": "lapsvm shard"}'}, "is no detector of lapsvm, but 'lapsvm shard'"),
        ({"lapsvm": '{"format": "lapsvm detector", "version": 9}'}, "must have format version 1, got 9"),
        ({"lapsvm": '{"format": "lapsvm detector", "version": 1}'}, "is damaged: its content is not what was written"),
    ],
)
def test_a_file_of_another_kind_or_version_is_refused(tmp_path, metadata, message):
    with pytest.raises(ModelFileError, match=message):
        Detector.load(rewritten(tmp_path / "a.safetensors", {"coef": np.ones(3)}, **metadata))


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(MissingError, match=r"^model .*none\.safetensors is not there\.$"):
        Detector.load(tmp_path / "none.safetensors")


def test_provenance_that_json_cannot_hold_is_refused_and_no_file_is_made(tmp_path):
    for thing in (object(), float("nan")):
        with pytest.raises(InputError, match=r"^provenance must be what JSON can hold; "):
            detector(provenance={"x": thing}).save(tmp_path / "a.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_features_of_another_length_are_refused():
    with pytest.raises(ShapeError, match=r"^features must have shape \(n, 3\), got \(2, 4\)\.$"):
        detector().score(np.zeros((2, 4)))
    with pytest.raises(ShapeError, match=r"^features must have shape \(n, 3\), got \(3,\)\.$"):
        detector().score(np.zeros(3))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_features_that_are_not_finite_are_refused_with_their_place(value):
    features = np.zeros((5000, 3), np.float16)
    features[4500, 2] = value
    with pytest.raises(NotFiniteError, match=r"^features must be finite, got \w+ at index \(4500, 2\)\.$"):
        detector().score(features)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"coef": [[1.0]]}, ShapeError, r"coef must have 1 dimension\(s\), got shape \(1, 1\)"),
        ({"coef": [1, np.nan, 3]}, NotFiniteError, "coef must be finite, got nan at index 1"),
        ({"scale": [1, 2]}, ShapeError, r"scale must be one number or have the shape of coef \(3,\), got \(2,\)"),
        ({"scale": np.inf}, NotFiniteError, "scale must be finite, got inf at index 0"),
        ({"intercept": np.nan}, NotFiniteError, "intercept must be finite, got nan"),
    ],
)
def test_weights_that_make_no_detector_are_refused(changes, error, message):
    with pytest.raises(error, match=message):
        detector(**changes)


def test_detectors_of_different_features_are_not_scored_together():
    with pytest.raises(ShapeError, match=r"must have the same number of features, got \[3, 4\]"):
        score_many([detector(3), detector(4)], np.zeros((1, 3)))
    with pytest.raises(InputError, match="must hold at least one detector, got none"):
        score_many([], np.zeros((1, 3)))
