"""Boxes: the convention, and overlap against its definition."""

import numpy as np
import pytest

from lapsvm.boxes import areas, from_voc, iou, paired_iou, to_voc
from lapsvm.errors import ShapeError


def plain_iou(a, b):
    """The definition, written out."""
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    return width * height / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - width * height)


def test_width_of_a_voc_box_is_the_devkits():
    assert areas(from_voc([[3, 4, 12, 8]])) == (12 - 3 + 1) * (8 - 4 + 1)


def test_voc_round_trip():
    boxes = np.random.default_rng(0).integers(1, 500, (50, 4)).astype(float)
    np.testing.assert_array_equal(to_voc(from_voc(boxes)), boxes)


def test_iou_equals_its_definition():
    rng = np.random.default_rng(1)
    boxes = rng.uniform(0, 50, (40, 4))
    boxes[:, 2:] = boxes[:, :2] + rng.uniform(0, 40, (40, 2))
    expected = [[plain_iou(a, b) for b in boxes[:13]] for a in boxes]
    np.testing.assert_allclose(iou(boxes, boxes[:13]), expected, rtol=1e-14)


@pytest.mark.parametrize("box", [[5, 5, 5, 9], [9, 5, 5, 9], [5, 9, 9, 5]], ids=["flat", "inverted x", "inverted y"])
def test_an_empty_or_inverted_box_overlaps_nothing(box):
    assert iou([box], [[0, 0, 20, 20], box]).tolist() == [[0.0, 0.0]]


def test_paired_iou_is_the_diagonal_of_iou():
    corners = np.random.default_rng(2).uniform(0, 50, (200, 2, 4))
    first, second = np.moveaxis(corners, 1, 0)  # a quarter of them neither empty nor inverted
    first[:100, 2:] = first[:100, :2] + 20
    second[:100, 2:] = second[:100, :2] + 30
    np.testing.assert_allclose(paired_iou(first, second), np.diag(iou(first, second)), rtol=1e-12, atol=0)
    assert (paired_iou(first[:100], first[:100]) == 1).all()
    assert paired_iou([], []).shape == (0,)


def test_paired_iou_needs_as_many_boxes_as_boxes():
    with pytest.raises(ShapeError, match="first and second must have the same length, got 1 and 2"):
        paired_iou(np.zeros((1, 4)), np.zeros((2, 4)))


def test_boxes_whose_area_underflows_overlap_nothing():
    tiny = [[0, 0, 1e-200, 1e-200]]
    assert iou(tiny, tiny).tolist() == [[0.0]]
    assert paired_iou(tiny, tiny).tolist() == [0.0]


def test_no_boxes():
    assert iou([], [[0, 0, 1, 1]]).shape == (0, 1)


def test_wrong_shape_is_named():
    with pytest.raises(ShapeError, match=r"boxes must have shape \(n, 4\), got \(2, 3\)"):
        iou(np.zeros((2, 3)), [])
