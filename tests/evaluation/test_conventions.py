"""The devkit's conventions, one hand-made case each; VOC coordinates, compiled and reference matching."""

import numpy as np
import pytest

from lapsvm.boxes import from_voc
from lapsvm.catalog import GroundTruth
from lapsvm.errors import InputError, OptionError, ResultsError, ShapeError
from lapsvm.evaluation import Detections, corloc, evaluate_voc

pytestmark = pytest.mark.usefixtures("matching")

BOX, FAR, AWAY = (1, 1, 10, 10), (101, 101, 110, 110), (201, 201, 210, 210)
HALF = (1, 1, 10, 5)  # its overlap with BOX is 50 / 100, with the devkit's widths


def objects(*boxes, difficult=()):
    return GroundTruth(from_voc(boxes), np.array([i in difficult for i in range(len(boxes))], dtype=bool))


def found(*lines):
    """Detections from (score, box) in picture "a", or (score, box, picture)."""
    pictures = tuple(line[2] if len(line) > 2 else "a" for line in lines)
    return Detections(pictures, [line[0] for line in lines], from_voc([line[1] for line in lines]))


def evaluate(detections, truth, **options):
    truth = truth if isinstance(truth, dict) else {"a": truth}
    return evaluate_voc({"cat": detections}, {"cat": truth}, **options).classes["cat"]


def outcomes(result):
    return result.matches.outcome.tolist()


@pytest.mark.parametrize(("strict", "outcome"), [(False, 1), (True, -1)])
def test_an_overlap_of_exactly_one_half_is_enough_unless_the_rule_is_strict(strict, outcome):
    assert outcomes(evaluate(found((1, HALF)), objects(BOX), strict=strict)) == [outcome]


def test_without_the_extra_pixel_the_same_boxes_overlap_less():
    result = evaluate(found((1, HALF)), objects(BOX), plus_one=False)
    assert result.matches.overlap == (9 * 4) / (9 * 9)
    assert outcomes(result) == [-1]


def test_sides_have_the_extra_pixel():
    result = evaluate(found((1, (6, 1, 15, 10))), objects(BOX))
    assert result.matches.overlap == (5 * 10) / (10 * 10 + 10 * 10 - 5 * 10)


def test_equal_scores_keep_their_order_in_the_file():
    first_right = evaluate(found((0.5, BOX), (0.5, FAR)), objects(BOX))
    first_wrong = evaluate(found((0.5, FAR), (0.5, BOX)), objects(BOX))
    assert (first_right.ap_area, first_wrong.ap_area) == (1 / 1, 1 / 2)


def test_a_thousand_equal_scores_keep_their_order_in_the_file():
    boxes = [FAR] * 999 + [BOX]
    result = evaluate(found(*((0.5, box) for box in boxes)), objects(BOX))
    assert result.order.tolist() == list(range(1000))
    assert result.ap_area == 1 / 1000


def test_scores_zero_and_minus_zero_are_equal():
    assert evaluate(found((-0.0, FAR), (0.0, BOX)), objects(BOX)).ap_area == 1 / 2


def test_a_second_detection_of_an_object_is_a_false_positive():
    result = evaluate(found((3, BOX), (2, BOX), (1, FAR)), objects(BOX, FAR))
    assert outcomes(result) == [1, -1, 1]
    assert result.ap_area == pytest.approx((1 / 1 + 2 / 3) / 2)


def test_a_second_detection_is_not_given_to_another_object():
    near = (1, 1, 10, 9)
    result = evaluate(found((2, BOX), (1, BOX)), objects(BOX, near))
    assert outcomes(result) == [1, -1]
    assert result.matches.partner.tolist() == [0, 0]


def test_a_difficult_object_makes_its_detections_ignored_any_number_of_times():
    result = evaluate(found((3, FAR), (2, FAR), (1, BOX)), objects(BOX, FAR, difficult={1}))
    assert outcomes(result) == [0, 0, 1]
    assert (result.npos, result.ap_area, result.ap_11point) == (1, 1.0, 1.0)


def test_a_difficult_object_that_overlaps_most_wins_over_an_easy_one_that_overlaps_enough():
    easy = (1, 1, 10, 8)
    result = evaluate(found((1, BOX)), objects(easy, BOX, difficult={1}))
    assert outcomes(result) == [0]


@pytest.mark.parametrize(("difficult", "expected"), [({0}, [0]), ({1}, [1])])
def test_of_two_objects_with_equal_overlap_the_first_in_the_file_is_taken(difficult, expected):
    assert outcomes(evaluate(found((1, BOX)), objects(BOX, BOX, difficult=difficult))) == expected


def test_a_class_all_of_whose_detections_are_ignored_has_0_and_never_nan():
    result = evaluate(found((1, FAR)), objects(BOX, FAR, difficult={1}))
    assert (result.ap_11point, result.ap_area) == (0.0, 0.0)
    assert np.isfinite(result.precision).all()


def test_ignored_detections_before_the_first_that_counts_do_no_harm():
    result = evaluate(found((2, FAR), (1, BOX)), objects(BOX, FAR, difficult={1}))
    assert (result.ap_11point, result.ap_area) == (1.0, 1.0)


def test_a_class_without_objects_is_undefined_and_left_out_of_the_mean():
    report = evaluate_voc(
        {"cat": found((1, BOX)), "dog": found((1, BOX)), "cow": found((1, BOX))},
        {"cat": {"a": objects(BOX)}, "dog": {"a": objects()}, "cow": {"a": objects(BOX, difficult={0})}},
    )
    assert [report.classes[name].npos for name in ("cat", "dog", "cow")] == [1, 0, 0]
    assert report.classes["dog"].ap_area is None
    assert report.classes["cow"].ap_11point is None
    assert (report.mean_ap_area, report.mean_ap_11point) == (1.0, 1.0)


def test_without_any_object_even_the_mean_is_undefined():
    report = evaluate_voc({"dog": found((1, BOX))}, {"dog": {"a": objects()}})
    assert report.mean_ap_area is None


def test_a_class_without_detections_has_0():
    result = evaluate(found(), objects(BOX))
    assert (result.npos, result.ap_11point, result.ap_area) == (1, 0.0, 0.0)


def test_a_set_of_no_pictures_has_nothing_to_say():
    assert evaluate(found(), {}).ap_area is None


def test_float_coordinates_count_as_they_are():
    result = evaluate(found((1, (10.25, 1, 19.75, 10))), objects((10.5, 1, 20.25, 10)))
    common, sides = 19.75 - 10.5 + 1, (19.75 - 10.25 + 1, 20.25 - 10.5 + 1)
    assert result.matches.overlap == pytest.approx(common / (sum(sides) - common))


@pytest.mark.parametrize("box", [(10, 1, 1, 10), (1, 10, 10, 1), (10, 10, 1, 1)])
def test_an_inverted_box_is_a_false_positive(box):
    assert outcomes(evaluate(found((1, box)), objects(BOX))) == [-1]


def test_a_detection_that_meets_no_object_is_a_false_positive_at_any_threshold():
    result = evaluate(found((1, FAR)), objects(BOX), iou_threshold=1e-300)
    assert outcomes(result) == [-1]
    assert result.matches.partner.tolist() == [-1]


def test_an_object_is_found_only_in_its_own_picture():
    truth = {"a": objects(BOX), "b": objects(FAR)}
    result = evaluate(found((3, BOX, "b"), (2, FAR, "b"), (1, BOX, "a")), truth)
    assert outcomes(result) == [-1, 1, 1]


def test_flags_and_curves_are_aligned_with_the_sorted_detections():
    result = evaluate(found((1, FAR), (3, BOX), (2, AWAY)), objects(BOX, FAR))
    assert result.order.tolist() == [1, 2, 0]
    assert result.tp.tolist() == [True, False, True]
    assert result.fp.tolist() == [False, True, False]
    assert result.recall.tolist() == [1 / 2, 1 / 2, 2 / 2]
    assert result.precision.tolist() == [1 / 1, 1 / 2, 2 / 3]


def test_both_average_precisions_of_a_small_curve():
    result = evaluate(found((3, BOX), (2, AWAY), (1, FAR)), objects(BOX, FAR))
    assert result.ap_area == pytest.approx(1 / 2 * 1 + 1 / 2 * 2 / 3)
    assert result.ap_11point == pytest.approx((6 * 1 + 5 * 2 / 3) / 11)


def test_a_picture_that_the_ground_truth_lacks_is_named():
    with pytest.raises(ResultsError, match=r"class 'cat' must be in pictures of the evaluated set, got 'zz'\.$"):
        evaluate(found((1, BOX, "zz")), objects(BOX))


def test_a_class_without_ground_truth_is_named():
    with pytest.raises(OptionError, match=r"class 'dog' has detections but no ground truth; it has cat\.$"):
        evaluate_voc({"dog": found()}, {"cat": {}})


@pytest.mark.parametrize("threshold", [0, -0.5, 1.01, float("nan")])
def test_a_threshold_outside_0_to_1_is_refused(threshold):
    with pytest.raises(InputError, match=r"^iou_threshold must be greater than 0 and at most 1, got "):
        evaluate(found(), objects(BOX), iou_threshold=threshold)


def test_an_unknown_grid_is_refused():
    with pytest.raises(OptionError, match=r"^grid must be one of matlab, octave, exact, got 'fine'\.$"):
        evaluate(found(), objects(BOX), grid="fine")


def test_ground_truth_whose_flags_do_not_fit_its_boxes_is_refused():
    with pytest.raises(ShapeError, match="ground truth of 'a' must have as many difficult flags as boxes, got 2 and 1"):
        evaluate(found(), GroundTruth(from_voc([BOX]), np.zeros(2, dtype=bool)))


@pytest.mark.parametrize(("flag", "words"), [(np.nan, "must be finite, got nan"), (2, "must be True or False, got 2")])
def test_a_flag_that_is_none_does_not_make_an_object_difficult_or_easy(flag, words):
    truth = {"cat": {"a": GroundTruth(from_voc([BOX]), np.array([flag]))}}
    for evaluation in (evaluate_voc, corloc):
        with pytest.raises(InputError, match=f"difficult flags {words}"):
            evaluation({"cat": found((1, BOX))}, truth)
