"""The extent of what stands out of even ground, against a twin in plain loops, and where detection takes it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapsvm.detection import Detector, ScoredPicture, detect_windows
from lapsvm.detection.extent import MOST, OVERLAP, RING, STANDING, extent, fitted
from lapsvm.detection.groups import WindowPrior
from lapsvm.settings import DetectSettings
from lapsvm.windows.colour import lab

from ..twins.regions import flood

THING = 40, 30, 70, 54
PLAIN = DetectSettings(score_smoothing=0.0, box_voting=0.0, demotion=0.0)


def ground(seed=0, size=(100, 120), deviation=3.0):
    return np.random.default_rng(seed).normal(150, deviation, (*size, 3))


def with_thing(scene, box, level):
    x1, y1, x2, y2 = box
    scene[y1:y2, x1:x2] += level
    return np.clip(scene, 0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def picture():
    return with_thing(ground(), THING, -70)


def smoothed(values):
    """Return the mean of five neighbours, weighted 1, 4, 6, 4, 1; beyond the edge the picture is mirrored."""
    padded = np.pad(values, ((2, 2), (0, 0)), mode="reflect")
    return [sum(w * padded[i + k] for k, w in enumerate((1, 4, 6, 4, 1))) for i in range(len(values))]


def twin(pixels, box):
    """Return the box of the part, slowly: pixel by pixel, and part by part."""
    height, width = pixels.shape[:2]
    x1, y1, x2, y2 = (int(value) for value in box)
    across, down = max(round(RING * (x2 - x1)), 1), max(round(RING * (y2 - y1)), 1)
    left, top, right, bottom = max(x1 - across, 0), max(y1 - down, 0), min(x2 + across, width), min(y2 + down, height)
    planes = lab(np.ascontiguousarray(pixels[top:bottom, left:right])).astype(float)
    planes = [np.array(smoothed(np.array(smoothed(plane)).T)).T for plane in planes]
    places = [(y, x) for y in range(bottom - top) for x in range(right - left)]
    inside = {(y, x) for y, x in places if y1 <= y + top < y2 and x1 <= x + left < x2}
    ring = [place for place in places if place not in inside]
    if not ring:
        return list(box)
    middle = [np.median([plane[place] for place in ring]) for plane in planes]
    far = {place: sum((plane[place] - m) ** 2 for plane, m in zip(planes, middle, strict=True)) for place in places}
    limit = sorted(far[place] for place in ring)[int(np.ceil(STANDING * (len(ring) - 1)))]
    parts = flood(place for place in places if far[place] > limit)
    best = max(parts, key=lambda part: len(part & inside), default=set())
    if not best & inside:
        return list(box)
    rows, columns = [y for y, _ in best], [x for _, x in best]
    found = [min(columns) + left, min(rows) + top, max(columns) + 1 + left, max(rows) + 1 + top]
    is_cut = [left == 0, top == 0, right == width, bottom == height]
    touches = [a == b and not cut for a, b, cut in zip(found, (left, top, right, bottom), is_cut, strict=True)]
    common = max(min(x2, found[2]) - max(x1, found[0]), 0) * max(min(y2, found[3]) - max(y1, found[1]), 0)
    union = (x2 - x1) * (y2 - y1) + (found[2] - found[0]) * (found[3] - found[1]) - common
    return list(box) if any(touches) or common < OVERLAP * union else found


@given(st.integers(0, 10_000), st.sampled_from([0.0, 12.0, 60.0]))
def test_the_extent_is_that_of_a_twin_in_plain_loops(seed, level):
    rng = np.random.default_rng(seed)
    low, high = rng.integers(0, 12, 2), rng.integers(14, 26, 2)
    pixels = with_thing(ground(seed, (26, 28), 6.0), (*rng.integers(2, 10, 2), *rng.integers(12, 24, 2)), level)
    box = np.array([*low, *high], float)
    assert extent(pixels, box).tolist() == twin(pixels, box)


@pytest.mark.parametrize("scale", [1, 5])
@pytest.mark.parametrize(
    "box", [(30, 20, 78, 60), (45, 33, 72, 56), (34, 28, 60, 50)], ids=["large", "small", "beside"]
)
def test_a_box_near_a_thing_becomes_that_of_the_thing(picture, box, scale):
    """Five times as large, the surroundings are reduced before."""
    large = np.kron(picture, np.ones((scale, scale, 1), np.uint8))
    found = extent(large, scale * np.array(box, float))
    near = np.abs(found / scale - THING)
    assert near.max() <= 6
    assert np.abs(np.array(box) - THING).max() >= 4


def test_a_thing_at_the_edge_of_the_picture_ends_there():
    pixels = with_thing(ground(), (0, 40, 30, 70), -70)
    assert extent(pixels, np.array([0.0, 36, 40, 80]))[0] == 0


@given(st.integers(0, 10_000), st.sampled_from([0.0, 2.0, 25.0]))
def test_no_box_leaves_its_ring(seed, deviation):
    """Neither on ground of one colour, nor on texture, nor around a thing of the ring's grey."""
    rng = np.random.default_rng(seed)
    pixels = np.clip(ground(seed, (80, 90), deviation), 0, 255).astype(np.uint8)
    low = rng.integers(0, [60, 50])
    box = np.array([*low, *(low + rng.integers(1, 30, 2))], float)
    found, ring = extent(pixels, box), np.maximum(np.round(RING * (box[2:] - box[:2])), 1)
    assert (found[:2] >= np.maximum(box[:2] - ring, 0)).all()
    assert (found[2:] <= np.minimum(box[2:] + ring, [90, 80])).all()
    assert (found[2:] > found[:2]).all()
    if deviation == 0:
        assert found.tolist() == box.tolist()


@pytest.mark.parametrize("box", [(0, 0, 120, 100), (130, 20, 160, 60), (50, 40, 50, 60), (-9, -9, -2, -2)])
def test_boxes_without_a_ring_or_an_area_stay(picture, box):
    assert extent(picture, np.array(box, float)).tolist() == list(box)


def test_of_boxes_that_show_one_part_the_best_is_kept(picture):
    boxes = np.array([[45, 33, 72, 56], [2, 70, 30, 98], [30, 20, 78, 60]], float)
    found, scores = fitted(picture, boxes, np.array([3.0, 2.0, 1.0]))
    assert scores.tolist() == [3, 2]
    assert found[0].tolist() == extent(picture, boxes[0]).tolist()


def test_boxes_beyond_the_best_ones_stay(picture):
    boxes = np.concatenate([[[0, 80, 5 + n, 85 + n]] for n in range(0, 2 * MOST, 2)] + [[[45, 33, 72, 56]]]).astype(
        float
    )
    moved, scores = fitted(picture, boxes, -np.arange(len(boxes), dtype=float))
    assert moved[-1].tolist() == boxes[-1].tolist()
    assert scores[-1] == -MOST


@pytest.mark.parametrize(("result", "takes"), [({"extent": 0.9}, True), ({"extent": None}, False), ({}, False)])
def test_detection_takes_the_extent_where_a_model_says_so(picture, tmp_path, result, takes):
    """Scores stay, and so do the boxes where the picture is not given."""
    Detector("fault", np.ones(2), provenance={"result": result}).save(tmp_path / "fault")
    detector = Detector.load(tmp_path / "fault")
    assert detector.prior == (WindowPrior(None, False, True) if takes else None)
    boxes, scores = np.array([[45, 33, 72, 56], [2, 70, 30, 98]], np.float32), np.array([2.0, 1.0])
    plain = detect_windows(scores, boxes, PLAIN, detector.prior)
    assert plain[0].tolist() == boxes.tolist()
    scored = ScoredPicture(picture.shape[:2], boxes, scores[:, None], [detector], [PLAIN], pixels=picture)
    for found, values in (
        detect_windows(scores, boxes, PLAIN, detector.prior, picture),
        (scored.detections()["fault"].boxes, scored.detections()["fault"].scores),
    ):
        assert (found[0] == (extent(picture, boxes[0].astype(float)) if takes else boxes[0])).all()
        assert values.tolist() == [2, 1][: len(values)]
