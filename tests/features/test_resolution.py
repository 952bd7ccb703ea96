"""The cells of maps across a picture, read from descriptions of extractors."""

import pytest

from lapsvm.features.extractors.maps.resolution import cells_across


def pooled(size=640, strides=(32, 16)):
    return {"kind": "pooled-network", "size": size, "runtime": {"strides": list(strides)}}


def joined(*parts):
    return {"kind": "concatenation", "parts": {str(number): part for number, part in enumerate(parts)}}


def test_each_map_has_its_size_over_its_stride():
    assert cells_across(pooled()) == (20, 40)


def test_parts_and_projections_are_followed_in_order():
    both = joined(pooled(640), pooled(960, (32,)), pooled([224, 192], (16,)))
    assert cells_across(both) == (20, 40, 30, 14)
    assert cells_across({"kind": "projection", "of": both}) == (20, 40, 30, 14)


def test_eleven_parts_keep_their_order():
    sizes = range(32, 32 * 12, 32)
    assert cells_across(joined(*(pooled(size, (32,)) for size in sizes))) == tuple(range(1, 12))


@pytest.mark.parametrize(
    "description",
    [
        {},
        {"kind": "hog", "size": 48},
        {"kind": "concatenation", "parts": {}},
        joined(pooled(), {"kind": "hog", "size": 48}),
        {"kind": "pooled-network", "size": 640, "runtime": {"name": "onnxruntime"}},
        {"kind": "pooled-network", "size": 640},
        pooled(strides=(0,)),
        pooled(strides=(-32,)),
        pooled(strides=()),
        pooled(size="640"),
        pooled(size=[]),
        pooled(size=10**400),
        {"kind": "projection", "of": 3},
    ],
)
def test_what_does_not_tell_has_none(description):
    assert cells_across(description) is None
