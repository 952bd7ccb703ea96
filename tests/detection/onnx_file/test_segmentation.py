"""The segmentation of a picture in rounds, inside an ONNX graph, against the walk over sorted edges."""

import numpy as np
import pytest

from lapsvm._ext import segmentation as kernel
from lapsvm.detection.onnx_file.resizing import Size
from lapsvm.detection.onnx_file.segmentation import picture_edges, segmentations
from lapsvm.windows.colour import hsv, lab
from lapsvm.windows.selective_search import LEVELS, REFERENCE_PIXELS


def drawn(height, width, seed):
    """Return noise on two areas, one of a single colour, and a ramp."""
    pixels = np.random.default_rng(seed).integers(90, 140, (height, width, 3)).astype(np.uint8)
    pixels[: height // 2, : width // 2] = [200, 40, 40]
    pixels[height // 2 :, width // 2 :, 0] = np.linspace(0, 255, width - width // 2).astype(np.uint8)
    return pixels


def sorted_edges(weights, first_pixel):
    """Return weight, number and both ends of the edges between neighbours, in the order of the walk."""
    _, height, width = weights.shape
    edges = []
    for direction, step in enumerate((1, width)):
        for y in range(height - direction):
            for x in range(width - (1 - direction)):
                pixel = y * width + x
                high, low = divmod(2 * (first_pixel + pixel) + direction, 256)
                number = 79 * low % 256 * 256 + 159 * high % 256
                edges.append((weights[direction, y, x], number, pixel, pixel + step))
    return sorted(edges)


def walked(planes, k, first_pixel=0):
    """Return the component of every pixel by the walk over sorted edges, with the graph's order of equal weights."""
    height, width = planes.shape[1:]
    weights = kernel.edge_weights(kernel.smooth(planes)).astype(int)
    parent, size, inner = list(range(height * width)), [1] * (height * width), [0] * (height * width)

    def root(node):
        while parent[node] != node:
            node = parent[node]
        return node

    def join(first, second, weight):
        parent[second], size[first], inner[first] = first, size[first] + size[second], weight

    edges = sorted_edges(weights, first_pixel)
    for weight, _, first, second in edges:
        a, b = root(first), root(second)
        if a != b and weight <= min(inner[a] + k * LEVELS // size[a], inner[b] + k * LEVELS // size[b]):
            join(a, b, weight)
    least = max(1, round(k * min(1.0, (height * width / REFERENCE_PIXELS) ** 0.5)))
    for weight, _, first, second in edges:
        a, b = root(first), root(second)
        if a != b and min(size[a], size[b]) < least:
            join(a, b, weight)
    return [root(pixel) for pixel in range(height * width)]


def same_partition(first, second):
    return len(np.unique(np.stack([first, second]), axis=1).T) == len(np.unique(first)) == len(np.unique(second))


@pytest.mark.parametrize(("shape", "seed"), [((24, 31), 0), ((40, 22), 1), ((1, 9), 2)])
@pytest.mark.parametrize("k", [20, 200])
def test_rounds_give_the_components_of_the_walk(run_graph, shape, seed, k):
    pixels = drawn(*shape, seed)

    def build(graph, picture):
        planes = picture.transposed(2, 0, 1).cast(np.float32)
        return segmentations(graph, picture_edges(graph, planes), Size.of(planes), (k,))[0]

    found = run_graph(build, pixels)
    count = pixels.shape[0] * pixels.shape[1]
    assert same_partition(found[:count], walked(hsv(pixels), k))
    assert same_partition(found[count:], walked(lab(pixels), k, count))
