"""Every kernel of selective search against its readable twin, number for number, and against laws."""

import numpy as np
import pytest

from lapsvm._ext import colour, grouping, regions, segmentation
from lapsvm.windows import reference
from lapsvm.windows.colour import LINEAR, MATRIX, ROOT

KERNELS_AND_TWINS = pytest.mark.parametrize("room", ["kernel", "twin"])


def picture(name, rng):
    """Small pictures by name: noise, soft shapes, flat, and the thin ones that break border code."""
    shapes = {"one pixel": (1, 1), "one row": (1, 23), "one column": (17, 1), "two by two": (2, 2)}
    if name in shapes:
        return rng.integers(0, 256, (*shapes[name], 3), dtype=np.uint8)
    if name == "flat":
        return np.full((12, 9, 3), 200, np.uint8)
    if name == "noise":
        return rng.integers(0, 256, (14, 19, 3), dtype=np.uint8)
    soft = 90 + 2 * np.arange(31)[:, None] + rng.integers(-4, 5, (22, 31, 3))
    soft[5:14, 6:17] = np.array([200, 60, 40]) + rng.integers(-4, 5, (9, 11, 3))
    soft[10:20, 14:28] = np.array([30, 90, 160]) + rng.integers(-9, 10, (10, 14, 3))
    return np.clip(soft, 0, 255).astype(np.uint8)


NAMES = ["one pixel", "one row", "one column", "two by two", "flat", "noise", "shapes"]
each_picture = pytest.mark.parametrize("name", NAMES)


def planes_of(name, seed=0):
    return np.ascontiguousarray(picture(name, np.random.default_rng(seed)).transpose(2, 0, 1))


def edges_of(planes):
    return segmentation.sort_edges(segmentation.edge_weights(segmentation.smooth(planes)))


def assert_same(first, second):
    assert first.dtype == second.dtype
    np.testing.assert_array_equal(first, second)


@pytest.fixture(scope="module")
def every_colour():
    """All corners and edges of the colour cube, and 3,000 places inside it, as a picture."""
    corners = np.stack(np.meshgrid(*[[0, 1, 127, 254, 255]] * 3), -1).reshape(-1, 3)
    inside = np.random.default_rng(5).integers(0, 256, (3000, 3))
    return np.concatenate([corners, inside]).astype(np.uint8)[None]


@pytest.mark.parametrize("space", ["hsv", "rgi"])
def test_colour_kernel_equals_its_twin(space, every_colour):
    assert_same(getattr(colour, space)(every_colour), getattr(reference, space)(every_colour))


def test_lab_kernel_equals_its_twin(every_colour):
    assert_same(colour.lab(every_colour, LINEAR, ROOT, MATRIX), reference.lab(every_colour))


def test_lab_is_opencvs_to_two_levels(every_colour):
    import cv2

    expected = cv2.cvtColor(every_colour, cv2.COLOR_RGB2LAB).transpose(2, 0, 1).astype(int)
    assert np.abs(colour.lab(every_colour, LINEAR, ROOT, MATRIX).astype(int) - expected).max() <= 2


def test_hsv_is_the_standard_librarys(every_colour):
    import colorsys

    hue, saturation, value = colour.hsv(every_colour).reshape(3, -1).astype(float)
    for i, (r, g, b) in enumerate(every_colour[0] / 255.0):
        h, s, v = colorsys.rgb_to_hsv(r, g, b)
        assert min(abs(hue[i] - 256 * h) % 256, -abs(hue[i] - 256 * h) % 256) <= 0.5 + 1e-9
        assert abs(saturation[i] - 255 * s) <= 0.5 + 1e-9
        assert value[i] == round(255 * v)


@each_picture
def test_smoothing_weights_and_order_equal_their_twins(name):
    planes = planes_of(name)
    smoothed = segmentation.smooth(planes)
    assert_same(smoothed, reference.smooth(planes))
    weights = segmentation.edge_weights(smoothed)
    assert_same(weights, reference.edge_weights(smoothed))
    for ours, twins in zip(segmentation.sort_edges(weights), reference.sort_edges(weights), strict=True):
        assert_same(ours, twins)


def test_smoothing_keeps_a_constant():
    flat = np.full((3, 6, 5), 255, np.uint8)
    assert (segmentation.smooth(flat) == 16 * 255).all()


def test_the_heaviest_edge_has_its_place_in_the_sort():
    # smoothing spreads a step, so black beside white is handed over as if it were smoothed already
    smoothed = np.zeros((3, 1, 2), np.int16)
    smoothed[:, 0, 1] = 4080
    _, weights = segmentation.sort_edges(segmentation.edge_weights(smoothed))
    assert weights.tolist() == [int(4080 * 3**0.5)]


@each_picture
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("k", "min_size"), [(1, 1), (16, 1), (160, 4), (1600, 12), (100_000, 1)])
def test_segmentation_equals_its_twin(name, channels, k, min_size):
    planes = planes_of(name)[:channels]
    height, width = planes.shape[1:]
    order, weights = edges_of(planes)
    labels, count = segmentation.segment(order, weights, height, width, k, min_size)
    expected, expected_count = reference.segment(order, weights, height, width, k, min_size)
    assert_same(labels, expected)
    assert count == expected_count


def test_a_larger_picture_is_thinned_several_times_and_still_equals_the_twin():
    rng = np.random.default_rng(3)
    coarse = rng.integers(0, 200, (3, 8, 10)).repeat(9, axis=1).repeat(9, axis=2)
    planes = (coarse + rng.integers(0, 40, coarse.shape)).astype(np.uint8)
    order, weights = edges_of(planes)
    for k, min_size in ((300, 1), (1600, 20)):
        assert_same(
            segmentation.segment(order, weights, 72, 90, k, min_size)[0],
            reference.segment(order, weights, 72, 90, k, min_size)[0],
        )


@each_picture
def test_no_component_is_below_the_least_size(name):
    planes = planes_of(name)
    height, width = planes.shape[1:]
    labels, count = segmentation.segment(*edges_of(planes), height, width, 16, 5)
    assert np.bincount(labels.ravel()).min() >= min(5, height * width)
    assert labels.max() + 1 == count


def test_a_flat_picture_is_one_component():
    assert segmentation.segment(*edges_of(planes_of("flat")), 12, 9, 1, 1)[1] == 1


def test_no_pair_of_components_is_left_that_one_more_edge_would_join():
    """The paper's proposition: a segmentation is neither too fine nor too coarse (min_size 1)."""
    planes, k = planes_of("shapes"), 400
    smoothed = segmentation.smooth(planes)
    weights = segmentation.edge_weights(smoothed).astype(int)
    labels, count = segmentation.segment(*edges_of(planes), 22, 31, k, 1)
    inner = _heaviest_tree_edges(labels, weights, count)
    sizes = np.bincount(labels.ravel())
    for a, b, weight in _edges(labels, weights):
        if a != b:
            assert weight > min(inner[a] + k // sizes[a], inner[b] + k // sizes[b])


def _edges(labels, weights):
    height, width = labels.shape
    for y, x in np.ndindex(height, width):
        if x + 1 < width:
            yield labels[y, x], labels[y, x + 1], weights[0, y, x]
        if y + 1 < height:
            yield labels[y, x], labels[y + 1, x], weights[1, y, x]


def _heaviest_tree_edges(labels, weights, count):
    """Return the heaviest edge of the minimum spanning tree of each component, by SciPy."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import minimum_spanning_tree

    n = labels.size
    pixel = np.arange(n).reshape(labels.shape)
    right = (labels[:, :-1] == labels[:, 1:]).ravel()
    down = (labels[:-1] == labels[1:]).ravel()
    rows = np.concatenate([pixel[:, :-1].ravel()[right], pixel[:-1].ravel()[down]])
    columns = np.concatenate([pixel[:, 1:].ravel()[right], pixel[1:].ravel()[down]])
    heavy = np.concatenate([weights[0, :, :-1].ravel()[right], weights[1, :-1].ravel()[down]])
    tree = minimum_spanning_tree(coo_array((heavy + 1, (rows, columns)), shape=(n, n)).tocsr()).tocoo()
    inner = np.zeros(count, int)
    np.maximum.at(inner, labels.ravel()[tree.row], tree.data.astype(int) - 1)
    return inner


def segmentations_of(planes, ks=(16, 160, 900)):
    order, weights = edges_of(planes)
    return np.stack([segmentation.segment(order, weights, *planes.shape[1:], k, 1 + k // 200)[0] for k in ks])


@each_picture
def test_refinement_extents_and_neighbours_equal_their_twins(name):
    labels = segmentations_of(planes_of(name))
    cells, count = regions.refine(labels)
    expected, expected_count = reference.refine(labels)
    assert_same(cells, expected)
    assert count == expected_count
    for ours, twins in zip(regions.extents(cells, count), reference.extents(cells, count), strict=True):
        assert_same(ours, twins)
    pairs = regions.neighbours(cells, count)
    assert_same(pairs[np.lexsort(pairs.T[::-1])], reference.neighbours(cells, count))


@pytest.mark.parametrize("seed", range(5))
def test_refinement_of_scattered_labels_equals_its_twin(seed):
    # labels that do not hang together, so that every shortcut of the kernel is missed somewhere
    labels = np.random.default_rng(seed).integers(0, 4, (3, 9, 11)).astype(np.int32)
    cells, count = regions.refine(labels)
    assert_same(regions.neighbours(cells, count)[:0], reference.neighbours(cells, count)[:0])
    for i in range(3):
        assert len(np.unique(np.stack([cells, labels[i]]).reshape(2, -1), axis=1).T) == count
    assert len(np.unique(cells)) == len(np.unique(labels.reshape(3, -1), axis=1).T)


@each_picture
@pytest.mark.parametrize("channels", [1, 3])
def test_histograms_and_their_sums_equal_their_twins(name, channels):
    planes = planes_of(name)[:channels]
    smoothed, labels = segmentation.smooth(planes), segmentations_of(planes)
    cells, count = regions.refine(labels)
    counts = regions.describe(cells, count, planes, smoothed, 5)
    assert_same(counts, reference.describe(cells, count, planes, smoothed, 5))
    sizes, boxes = regions.extents(cells, count)
    owner = np.zeros(count, np.int32)
    owner[cells] = labels[1]
    n_regions = int(owner.max()) + 1
    pooled = regions.pool(owner, n_regions, counts, sizes, boxes)
    for ours, twins in zip(pooled, reference.pool(owner, n_regions, counts, sizes, boxes), strict=True):
        assert_same(ours, twins)
    # the same as if the segmentation had been counted by itself
    assert_same(pooled[0], regions.describe(labels[1], n_regions, planes, smoothed, 5))


def leaves_of(planes, k=60):
    labels = segmentations_of(planes, (k,))[0]
    count = int(labels.max()) + 1
    counts = regions.describe(labels, count, planes, segmentation.smooth(planes), 5)
    sizes, boxes = regions.extents(labels, count)
    pairs = regions.neighbours(labels, count)
    start, _ = regions.bins(len(planes))
    return (counts, sizes, boxes, pairs, len(planes), 4, start, labels.size)


@each_picture
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("cues", [1, 2, 4, 8, 14, 15])
def test_grouping_equals_its_twin(name, channels, cues):
    arguments = leaves_of(planes_of(name)[:channels])
    for ours, twins in zip(grouping.group(*arguments, cues), reference.group(*arguments, cues), strict=True):
        assert_same(ours, twins)


def test_grouping_breaks_ties_by_the_lower_numbers():
    # four equal regions in a row: all three pairs are equally similar, then (2, 3) is smaller than (2, union)
    counts = np.zeros((4, 32 + 64), np.int32)
    counts[:, 0], counts[:, 32] = 5, 20
    boxes = np.array([[i, 0, i + 1, 5] for i in range(4)], np.int32)
    pairs = np.array([[2, 3], [1, 2], [0, 1]], np.int32)
    merges, around = grouping.group(counts, np.full(4, 5, np.int32), boxes, pairs, 1, 4, 32, 20, 4)
    assert merges.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert around[4:].tolist() == [[0, 0, 2, 5], [2, 0, 4, 5], [0, 0, 4, 5]]


@each_picture
def test_the_last_union_is_the_whole_picture_and_every_region_is_merged_once(name):
    planes = planes_of(name)
    arguments = leaves_of(planes)
    merges, around = grouping.group(*arguments, 15)
    n = len(arguments[0])
    assert around[-1].tolist() == [0, 0, planes.shape[2], planes.shape[1]]
    assert sorted(merges.ravel().tolist()) == list(range(2 * n - 2))
