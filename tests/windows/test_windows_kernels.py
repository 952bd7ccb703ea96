"""Every kernel of selective search against its readable twin, number for number, and against laws."""

import numpy as np
import pytest

from lapsvm._ext import colour, grouping, regions, segmentation
from lapsvm.windows.colour import LINEAR, MATRIX, ROOT

from ..twins import windows as reference

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


def weights_of(planes):
    return segmentation.edge_weights(segmentation.smooth(planes))


def segmented(weights, ks, min_sizes):
    """Return the labels of every pixel for each k, by the kernel."""
    atoms, labels = segmentation.segment(weights, np.array(ks, np.int32), np.array(min_sizes, np.int32))
    return np.ascontiguousarray(labels[:, atoms])


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
def test_smoothing_and_weights_equal_their_twins(name):
    planes = planes_of(name)
    smoothed = segmentation.smooth(planes)
    assert_same(smoothed, reference.smooth(planes))
    assert_same(segmentation.edge_weights(smoothed), reference.edge_weights(smoothed))


def test_smoothing_keeps_a_constant():
    flat = np.full((3, 6, 5), 255, np.uint8)
    assert (segmentation.smooth(flat) == 16 * 255).all()


def test_the_heaviest_edge_has_its_place_in_the_sort():
    # smoothing spreads a step, so black beside white is handed over as if it were smoothed already
    smoothed = np.zeros((3, 1, 3), np.int16)
    smoothed[:, 0, 1:] = 4080
    weights = segmentation.edge_weights(smoothed)
    assert weights[0].tolist() == [[int(4080 * 3**0.5), 0, 65535]]
    assert segmented(weights, [1], [1]).tolist() == [[[0, 1, 1]]]


each_many_pixels = pytest.mark.parametrize("name", NAMES[1:])
SETTINGS = [(1, 1), (16, 1), (160, 4), (1600, 12), (100_000, 1)]


@each_many_pixels
@pytest.mark.parametrize("channels", [1, 3])
def test_segmentations_together_or_alone_equal_the_twin(name, channels):
    weights = weights_of(planes_of(name)[:channels])
    together = segmented(weights, *zip(*SETTINGS, strict=True))
    for (k, min_size), labels in zip(SETTINGS, together, strict=True):
        assert_same(labels, reference.segment(weights, k, min_size))
        assert_same(labels, segmented(weights, [k], [min_size])[0])


@pytest.mark.parametrize("seed", range(3))
def test_segmentations_of_a_larger_picture_equal_the_twin(seed):
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 200, (3, 8, 10)).repeat(9, axis=1).repeat(9, axis=2)
    weights = weights_of((coarse + rng.integers(0, 40, coarse.shape)).astype(np.uint8))
    settings = [(300, 1), (1600, 20), (800, 50), (3000, 10)]
    for (k, min_size), labels in zip(settings, segmented(weights, *zip(*settings, strict=True)), strict=True):
        assert_same(labels, reference.segment(weights, k, min_size))


@pytest.mark.parametrize("seed", range(20))
def test_segmentations_of_coarse_weights_equal_the_twin(seed):
    # few weights, so that ties decide, and a spread of k that closes components early and late
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, 6, (2, 13, 17)).astype(np.uint16) * 7
    weights[0, :, -1] = weights[1, -1] = 65535
    settings = [(int(k), int(size)) for k, size in zip(rng.integers(1, 300, 4), rng.integers(1, 9, 4), strict=True)]
    for (k, min_size), labels in zip(settings, segmented(weights, *zip(*settings, strict=True)), strict=True):
        assert_same(labels, reference.segment(weights, k, min_size))


@each_many_pixels
def test_no_component_is_below_the_least_size(name):
    labels = segmented(weights_of(planes_of(name)), [16], [5])[0]
    assert np.bincount(labels.ravel()).min() >= min(5, labels.size)


def test_a_flat_picture_is_one_component():
    assert not segmented(weights_of(planes_of("flat")), [1], [1]).any()


def test_no_pair_of_components_is_left_that_one_more_edge_would_join():
    """The paper's proposition: a segmentation is neither too fine nor too coarse (min_size 1)."""
    k = 400
    weights = weights_of(planes_of("shapes")).astype(int)
    labels = segmented(weights.astype(np.uint16), [k], [1])[0]
    sizes = np.bincount(labels.ravel())
    inner = _heaviest_tree_edges(labels, weights, len(sizes))
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
    pixel = np.arange(n, dtype=np.int32).reshape(labels.shape)  # older SciPy's graphs take no other indices
    right = (labels[:, :-1] == labels[:, 1:]).ravel()
    down = (labels[:-1] == labels[1:]).ravel()
    rows = np.concatenate([pixel[:, :-1].ravel()[right], pixel[:-1].ravel()[down]])
    columns = np.concatenate([pixel[:, 1:].ravel()[right], pixel[1:].ravel()[down]])
    heavy = np.concatenate([weights[0, :, :-1].ravel()[right], weights[1, :-1].ravel()[down]])
    tree = minimum_spanning_tree(coo_array((heavy + 1, (rows, columns)), shape=(n, n)).tocsr()).tocoo()
    inner = np.zeros(count, int)
    np.maximum.at(inner, labels.ravel()[tree.row], tree.data.astype(int) - 1)
    return inner


@each_many_pixels
def test_refinement_extents_and_neighbours_equal_their_twins(name):
    weights = weights_of(planes_of(name))
    atoms, labels = segmentation.segment(weights, np.array([16, 160, 900], np.int32), np.array([1, 1, 5], np.int32))
    cells, count = regions.refine(labels)
    expected, expected_count = reference.refine(labels)
    assert_same(cells, expected)
    assert count == expected_count
    cells = cells[atoms]
    assert_same(cells.ravel(), reference.refine(labels[:, atoms].reshape(3, -1))[0])
    for ours, twins in zip(regions.extents(cells, count), reference.extents(cells, count), strict=True):
        assert_same(ours, twins)
    assert_same(prefetched(regions.neighbours(cells, count)), reference.neighbours(cells, count))


def prefetched(pairs):
    return pairs[np.lexsort(pairs.T[::-1])]


@pytest.mark.parametrize("seed", range(5))
def test_refinement_and_neighbours_of_scattered_labels_equal_their_twins(seed):
    labels = np.random.default_rng(seed).integers(0, 4, (3, 99)).astype(np.int32)
    labels[0] = reference.refine(labels[:1])[0]
    cells, count = regions.refine(labels)
    assert_same(cells, reference.refine(labels)[0])
    assert len(np.unique(labels, axis=1).T) == count
    cells = cells.reshape(9, 11)
    assert_same(prefetched(regions.neighbours(cells, count)), reference.neighbours(cells, count))


@each_many_pixels
@pytest.mark.parametrize("channels", [1, 3])
def test_histograms_and_their_sums_equal_their_twins(name, channels):
    planes = planes_of(name)[:channels]
    smoothed = segmentation.smooth(planes)
    labels = segmented(segmentation.edge_weights(smoothed), [16, 160], [1, 4])
    cells, count = regions.refine(labels.reshape(2, -1))
    cells = cells.reshape(labels[0].shape)
    counts = regions.describe(cells, count, planes, smoothed, 5)
    assert_same(counts, reference.describe(cells, count, planes, smoothed, 5))
    owner = np.zeros(count, np.int32)
    owner[cells] = labels[1]
    n_regions = int(owner.max()) + 1
    arguments = (owner, n_regions, counts, *regions.extents(cells, count), regions.neighbours(cells, count))
    *pooled, pairs = regions.pool(*arguments)
    *expected, expected_pairs = reference.pool(*arguments)
    for ours, twins in zip(pooled, expected, strict=True):
        assert_same(ours, twins)
    assert_same(prefetched(pairs), expected_pairs)
    # the same as if the segmentation had been counted by itself
    assert_same(pooled[0], regions.describe(labels[1], n_regions, planes, smoothed, 5))


def leaves_of(planes, k=60):
    labels = segmented(weights_of(planes), [k], [2])[0]
    count = int(labels.max()) + 1
    counts = regions.describe(labels, count, planes, segmentation.smooth(planes), 5)
    start, _ = regions.bins(len(planes))
    pairs = regions.neighbours(labels, count)
    return (counts, *regions.extents(labels, count), pairs, len(planes), 4, start, labels.size)


@each_many_pixels
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("cues", [1, 2, 4, 8, 15])
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
    merges, around, sizes = grouping.group(counts, np.full(4, 5, np.int32), boxes, pairs, 1, 4, 32, 20, 4)
    assert merges.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert around[4:].tolist() == [[0, 0, 2, 5], [2, 0, 4, 5], [0, 0, 4, 5]]
    assert sizes.tolist() == [5, 5, 5, 5, 10, 10, 20]


@each_many_pixels
def test_the_last_union_is_the_whole_picture_and_every_region_is_merged_once(name):
    planes = planes_of(name)
    arguments = leaves_of(planes)
    merges, around, sizes = grouping.group(*arguments, 15)
    n = len(arguments[0])
    assert around[-1].tolist() == [0, 0, planes.shape[2], planes.shape[1]]
    assert sizes[-1] == planes.shape[1] * planes.shape[2]
    assert sorted(merges.ravel().tolist()) == list(range(2 * n - 2))
