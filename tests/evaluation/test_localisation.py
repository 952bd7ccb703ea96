"""CorLoc and pointing: what counts as a picture, as a window and as a hit; compiled and reference matching."""

import numpy as np
import pytest

from lapsvm.boxes import from_voc
from lapsvm.catalog import GroundTruth
from lapsvm.errors import InputError, NotFiniteError, OptionError, ResultsError, ShapeError
from lapsvm.evaluation import Detections, corloc, pointing

pytestmark = pytest.mark.usefixtures("matching")

BOX, FAR, HALF = (1, 1, 10, 10), (101, 101, 110, 110), (1, 1, 10, 5)


def objects(*boxes, difficult=()):
    return GroundTruth(from_voc(boxes), np.array([i in difficult for i in range(len(boxes))], dtype=bool))


def measure(lines, truth, measured=corloc, **options):
    pictures, scores, boxes = zip(*lines, strict=True) if lines else ((), (), ())
    found = {"cat": Detections(pictures, scores, from_voc(boxes))}
    return measured(found, {"cat": truth}, **options).classes["cat"]


both = pytest.mark.parametrize("measured", [corloc, pointing])


@both
def test_it_is_the_share_of_pictures_whose_best_window_is_a_hit(measured):
    truth = {"a": objects(BOX), "b": objects(BOX), "c": objects(FAR, BOX)}
    result = measure([("a", 1, BOX), ("b", 1, FAR), ("c", 1, BOX)], truth, measured)
    assert result.share == 2 / 3
    assert result.image_ids == ("a", "b", "c")
    assert result.hits.tolist() == [True, False, True]
    assert result.overlaps.tolist() == ([1, 0, 1] if measured is corloc else [])


@both
def test_only_the_best_window_of_a_picture_counts(measured):
    lines, truth = [("a", 1, BOX), ("a", 2, FAR), ("b", 2, BOX), ("b", 1, FAR)], {i: objects(BOX) for i in "ab"}
    result = measure(lines, truth, measured)
    assert result.hits.tolist() == [False, True]
    assert result.windows.tolist() == [1, 2]


@both
@pytest.mark.parametrize(("boxes", "hit"), [((BOX, FAR), True), ((FAR, BOX), False)])
def test_of_equal_scores_the_first_window_counts(boxes, hit, measured):
    assert measure([("a", 1, box) for box in boxes], {"a": objects(BOX)}, measured).hits.tolist() == [hit]


@both
def test_a_picture_without_a_window_is_a_miss_and_one_without_an_object_does_not_count(measured):
    truth = {"c": objects(), "a": objects(BOX), "b": objects(BOX)}
    result = measure([("a", 1, BOX), ("c", 9, BOX)], truth, measured)
    assert result.share == 1 / 2
    assert result.windows.tolist() == [0, -1]
    assert measure([], {"a": objects(BOX)}, measured).share == 0


@both
def test_the_mean_is_over_classes_with_a_picture(measured):
    found = Detections(("a",), [1], from_voc([BOX]))
    report = measured({"cat": found, "dog": found}, {"cat": {"a": objects(BOX)}, "dog": {"a": objects()}})
    key = measured.__name__
    assert report.rows() == {"cat": {key: 1.0}, "dog": {key: None}}
    assert report.mean == 1.0
    assert measured({"dog": found}, {"dog": {"a": objects()}}).mean is None


@both
def test_bad_input_is_named(measured):
    with pytest.raises(ResultsError, match="got 'zz'"):
        measure([("zz", 1, BOX)], {"a": objects(BOX)}, measured)
    with pytest.raises(OptionError, match="class 'dog' has detections but no ground truth"):
        measured({"dog": Detections((), [], [])}, {"cat": {}})
    with pytest.raises(NotFiniteError, match="ground truth"):
        measure([("a", 1, BOX)], {"a": objects((np.nan, 0, 1, 1))}, measured)
    with pytest.raises(ShapeError, match="as many difficult flags as boxes"):
        measure([("a", 1, BOX)], {"a": GroundTruth(np.zeros((2, 4)), np.zeros(1, dtype=bool))}, measured)
    with pytest.raises(InputError, match="difficult flags must be True or False"):
        measure([("a", 1, BOX)], {"a": GroundTruth(np.zeros((1, 4)), np.array([2]))}, measured)


def test_an_overlap_of_exactly_one_half_counts_only_where_reaching_it_is_enough():
    assert measure([("a", 1, HALF)], {"a": objects(BOX)}).share == 0
    assert measure([("a", 1, HALF)], {"a": objects(BOX)}, strict=False).share == 1


def test_difficult_objects_count_as_pictures_and_as_hits_unless_told_otherwise():
    truth = {"a": objects(BOX, difficult={0}), "b": objects(FAR, BOX, difficult={1}), "c": objects(BOX)}
    lines = [("a", 1, BOX), ("b", 1, BOX), ("c", 1, FAR)]
    assert measure(lines, truth).hits.tolist() == measure(lines, truth, pointing).hits.tolist() == [True, True, False]
    easy = measure(lines, truth, difficult=False)
    assert easy.image_ids == ("b", "c")
    assert easy.share == 0 / 2


def test_without_the_extra_pixel_the_overlap_is_smaller():
    assert measure([("a", 1, (1, 1, 10, 6))], {"a": objects(BOX)}).overlaps == 6 / 10
    assert measure([("a", 1, (1, 1, 10, 6))], {"a": objects(BOX)}, plus_one=False).overlaps == 5 / 9


def test_windows_far_apart_in_score_and_order_find_their_own_pictures():
    names = [f"{i:02d}" for i in range(50)]
    truth = {name: objects((1 + i, 1, 10 + i, 10)) for i, name in enumerate(names)}
    scores = np.random.default_rng(6).permutation(50)
    lines = [(names[i], scores[i], (1 + i, 1, 10 + i, 10)) for i in np.random.default_rng(7).permutation(50)]
    result = measure(lines, truth)
    assert result.share == 1
    assert [lines[k][0] for k in result.windows] == names
