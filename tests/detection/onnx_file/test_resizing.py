"""A picture inside the file is resized to the pixels that OpenCV gives."""

import cv2
import numpy as np
import pytest

from lapsvm.detection.onnx_file.resizing import Size, network_size, reduced, resized
from lapsvm.features.extractors.maps.letterbox import network_size as expected_size
from lapsvm.windows.proposals import reduced as reduced_by_opencv

SHAPES = [
    (33, 50), (48, 64), (64, 64), (96, 128), (128, 128), (70, 100), (3, 100), (1, 5), (7, 1), (77, 102), (150, 200),
    (68, 103), (500, 40), (192, 256), (330, 300),
]  # fmt: skip


def smooth_noise(height, width):
    rng = np.random.default_rng(height * 1000 + width)
    return cv2.GaussianBlur(rng.integers(0, 256, (height, width, 3), dtype=np.uint8), (0, 0), 1.0)


def by_opencv(pixels, longest, max_side):
    seen = reduced_by_opencv(pixels, max_side)
    height, width = expected_size(*seen.shape[:2], longest)
    smaller = height * width < seen.shape[0] * seen.shape[1]
    return cv2.resize(seen, (width, height), interpolation=cv2.INTER_AREA if smaller else cv2.INTER_LINEAR)


@pytest.mark.parametrize(("longest", "max_side"), [(64, 4096), (96, 180), (160, 100)])
def test_every_pixel_is_that_of_opencv(run_graph, longest, max_side):
    def build(graph, picture):
        seen = reduced(graph, picture.transposed(2, 0, 1).cast(np.float32), max_side)
        return resized(graph, seen, network_size(Size.of(seen), longest, 32))

    for shape in SHAPES:
        pixels = smooth_noise(*shape)
        found = run_graph(build, pixels)
        expected = by_opencv(pixels, longest, max_side).transpose(2, 0, 1)
        assert found.shape == expected.shape
        wrong = np.abs(found - expected)
        assert wrong.max() <= 1
        assert (wrong > 0).mean() < 0.002, shape  # sums of far smaller pictures may round a mean next to a half
