"""Laws of features that hold for any input."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lapsvm.errors import LapsvmError
from lapsvm.features import (
    HOG,
    PictureWindows,
    assemble_shard,
    block_scales,
    mean_block_norms,
    open_extractor,
    read_header,
    read_shard,
    write_shard,
)
from lapsvm.features.extractors.hog import CLIP
from lapsvm.features.extractors.maps.pooling import pool_windows
from lapsvm.features.extractors.picture import grey_levels

from ..twins import extractors as reference

few = settings(max_examples=40, deadline=None)
sides = st.integers(1, 9)


@st.composite
def maps_and_windows(draw):
    shape = draw(st.tuples(st.integers(1, 4), sides, sides))
    values = draw(arrays(np.float32, shape, elements=st.floats(-100, 100, width=32)))
    shares = draw(arrays(np.float64, (draw(st.integers(0, 6)), 4), elements=st.floats(0, 1)))
    shares[:, [0, 2]] = np.sort(shares[:, [0, 2]], axis=1)
    shares[:, [1, 3]] = np.sort(shares[:, [1, 3]], axis=1)
    return values, shares * [shape[2], shape[1], shape[2], shape[1]]


@few
@given(maps_and_windows())
def test_pooling_equals_its_twin_and_stays_between_the_extremes(case):
    values, windows = case
    pooled = pool_windows(values, windows)
    assert np.isfinite(pooled).all()
    for window, found in zip(windows, pooled, strict=True):
        if min(window[2] - window[0], window[3] - window[1]) > 1e-6:
            np.testing.assert_allclose(found, reference.pool(values, window), atol=1e-3)
            assert (found >= values.min(axis=(1, 2)) - 1e-3).all()
            assert (found <= values.max(axis=(1, 2)) + 1e-3).all()


@settings(max_examples=15, deadline=None)
@given(
    arrays(np.uint8, st.tuples(st.integers(1, 30), st.integers(1, 30), st.just(3))),
    arrays(np.float64, (2, 4), elements=st.floats(-10, 40)),
)
def test_hog_is_finite_bounded_and_equals_its_twin(pixels, boxes):
    extractor = HOG(size=16, cell=4, bins=5)
    found = extractor(pixels, boxes)
    assert np.isfinite(found).all()
    assert (np.linalg.norm(found.reshape(2, 9, 20), axis=2) <= 1 + 1e-5).all()
    height, width = pixels.shape[:2]
    for box, row in zip(np.clip(boxes, 0, [width, height, width, height]), found, strict=True):
        if min(box[2] - box[0], box[3] - box[1]) > 1e-3:
            given_settings = {"size": 16, "cell": 4, "bins": 5, "floor": extractor.floor, "clip": CLIP}
            np.testing.assert_allclose(row, reference.hog(grey_levels(pixels), box, **given_settings), atol=1e-4)


names = st.text(max_size=8)


@st.composite
def pictures(draw):
    dim = draw(st.integers(1, 5))
    ids = draw(st.lists(names, min_size=1, max_size=5, unique=True))
    counts = draw(st.lists(st.integers(0, 4), min_size=len(ids), max_size=len(ids)))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    return [
        PictureWindows(name, rng.uniform(0, 99, (n, 4)), rng.normal(size=(n, dim)), name[::-1], (7, 9))
        for name, n in zip(ids, counts, strict=True)
    ]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=25, deadline=None)
@given(pictures(), st.dictionaries(names, json_values, max_size=4), st.sampled_from(["float16", "float32"]))
def test_a_shard_comes_back_as_it_was_and_twice_as_the_same_bytes(tmp_path_factory, parts, provenance, dtype):
    path = tmp_path_factory.mktemp("shards") / "0.safetensors"
    write_shard(path, assemble_shard(parts, provenance, dtype))
    first, back, header = path.read_bytes(), read_shard(path), read_header(path)
    assert back.image_ids == header.image_ids == tuple(part.image_id for part in parts)
    assert back.provenance == header.provenance == provenance
    for index, part in enumerate(parts):
        rows = slice(back.offsets[index], back.offsets[index + 1])
        np.testing.assert_array_equal(back.features[rows], part.features.astype(dtype))
        np.testing.assert_array_equal(back.boxes[rows], part.boxes.astype(np.float32))
    write_shard(path, back)
    assert path.read_bytes() == first


@few
@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(0, 99), st.floats(1e-3, 1e3))
def test_scales_undo_any_common_factor(blocks, seed, factor):
    x = np.random.default_rng(seed).normal(size=(20, sum(blocks)))
    scaled = x * block_scales(mean_block_norms(x, blocks), blocks)
    again = x * factor * block_scales(mean_block_norms(x * factor, blocks), blocks)
    np.testing.assert_allclose(again, scaled, rtol=1e-4)
    np.testing.assert_allclose(mean_block_norms(scaled, blocks), 1 / np.sqrt(len(blocks)), rtol=1e-4)


spec_texts = st.text(max_size=20) | st.builds(
    lambda kind, key, value: f"{kind}?{key}={value}",
    st.sampled_from(["hog", "onnx:absent"]),
    st.sampled_from(["size", "cell", "bins", "norm", "mean", "scale", "order", "output"]),
    st.text(max_size=8),
)


@settings(max_examples=200, deadline=None)
@given(spec_texts)
def test_any_text_opens_an_extractor_or_is_one_expected_error(text):
    try:
        assert open_extractor(text).dim > 0
    except LapsvmError as error:
        assert str(error).endswith(".")  # noqa: PT017
