"""Laws of proposals that hold for any picture."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lapsvm._ext import grouping, regions, segmentation
from lapsvm.windows import propose, with_whole_image
from lapsvm.windows.proposals import tidy

from ..twins import windows as reference

# coarse values make ties, flat parts and equal regions common
pictures = st.tuples(st.integers(1, 12), st.integers(1, 12)).flatmap(
    lambda shape: arrays(np.uint8, (*shape, 3), elements=st.sampled_from([0, 1, 90, 100, 200, 255]))
)
weights = st.tuples(st.integers(1, 8), st.integers(2, 8)).flatmap(
    lambda shape: arrays(np.uint16, (2, *shape), elements=st.sampled_from([0, 1, 2, 3, 50, 7066]))
)


@given(pictures, st.integers(0, 5), st.sampled_from(["fast", "quality"]), st.floats(0, 13))
@settings(max_examples=60, deadline=None)
def test_proposals_are_inside_distinct_and_never_none(image, seed, mode, min_side):
    height, width = image.shape[:2]
    boxes = propose(image, mode=mode, seed=seed, min_side=min_side)
    assert len(boxes) >= 1
    assert (boxes[:, :2] >= 0).all()
    assert (boxes[:, 2:] <= [width, height]).all()
    sides = boxes[:, 2:] - boxes[:, :2]
    assert (sides >= min(min_side, height, width)).all()
    assert (boxes == np.rint(boxes)).all()
    assert len(np.unique(boxes, axis=0)) == len(boxes)
    np.testing.assert_array_equal(propose(image, mode=mode, seed=seed, min_side=min_side, threads=3), boxes)


@given(weights, st.lists(st.tuples(st.integers(1, 9000), st.integers(1, 12)), min_size=1, max_size=4))
@settings(max_examples=150, deadline=None)
def test_segmentation_by_the_common_part_is_the_papers(edges, wanted):
    edges[0, :, -1] = edges[1, -1] = 65535
    ks, sizes = np.array(wanted, np.int32).T.copy()
    atoms, labels = segmentation.segment(edges, ks, sizes)
    for (k, min_size), label in zip(wanted, labels, strict=True):
        np.testing.assert_array_equal(label[atoms], reference.segment(edges, k, min_size))


@given(
    arrays(np.int32, st.tuples(st.integers(1, 6), st.integers(1, 7)), elements=st.integers(0, 4)),
    st.sampled_from([1, 2, 3, 4, 8, 12, 14, 15]),
    st.integers(0, 9),
)
@settings(max_examples=100, deadline=None)
def test_grouping_is_its_twins(scattered, cues, seed):
    labels = np.arange(scattered.size, dtype=np.int32) // 2
    cells, count = labels.reshape(scattered.shape), int(labels[-1]) + 1
    planes = np.random.default_rng(seed).integers(0, 256, (1, *cells.shape), dtype=np.uint8) * (scattered % 2)[None]
    planes = np.ascontiguousarray(planes.astype(np.uint8))
    counts = regions.describe(cells, count, planes, segmentation.smooth(planes), 5)
    pairs = regions.neighbours(cells, count)
    arguments = (counts, *regions.extents(cells, count), pairs, 1, 4, regions.bins(1)[0], cells.size, cues)
    for ours, twins in zip(grouping.group(*arguments), reference.group(*arguments), strict=True):
        np.testing.assert_array_equal(ours, twins)


boxes_anywhere = arrays(np.float64, st.tuples(st.integers(0, 12), st.just(4)), elements=st.integers(-3, 14))


@given(boxes_anywhere)
@settings(deadline=None)
def test_tidying_twice_is_tidying_once(boxes):
    once = tidy(boxes, 9, 11, 2)
    np.testing.assert_array_equal(tidy(once, 9, 11, 2), once)


@given(boxes_anywhere)
@settings(deadline=None)
def test_with_whole_image_twice_is_once(boxes):
    once = with_whole_image(boxes, 9, 11)
    assert once[0].tolist() == [0, 0, 11, 9]
    np.testing.assert_array_equal(with_whole_image(once, 9, 11), once)
