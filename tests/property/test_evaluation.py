"""Laws of evaluation and of suppression, on small crowded scenes that hypothesis makes up."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lapsvm._ext import voc_matching as compiled
from lapsvm.boxes import to_voc
from lapsvm.catalog import GroundTruth
from lapsvm.detection import box_voting, nms
from lapsvm.evaluation import Detections, corloc, evaluate_voc, pointing, read_result_file, write_results
from lapsvm.evaluation.boxes.matching import OverlapRule

from ..twins import detection as suppression
from ..twins import evaluation as reference

SETTINGS = settings(max_examples=60, deadline=None)
PICTURES = ("a", "b", "c")
boxes = st.lists(st.integers(0, 24), min_size=4, max_size=4).map(lambda edges: [edge / 4 for edge in edges])
any_boxes = st.lists(st.floats(0, 6), min_size=4, max_size=4)
scores = st.integers(-4, 4).map(float)


@st.composite
def truths(draw):
    """Objects in three pictures, some difficult, some inverted."""
    found = {}
    for picture in PICTURES:
        rows = draw(st.lists(st.tuples(boxes, st.booleans()), max_size=4))
        coordinates = np.array([box for box, _ in rows]).reshape(-1, 4)
        found[picture] = GroundTruth(coordinates, np.array([difficult for _, difficult in rows], dtype=bool))
    return found


@st.composite
def detections(draw):
    rows = draw(st.lists(st.tuples(st.sampled_from(PICTURES), scores, boxes), max_size=12))
    coordinates = np.array([row[2] for row in rows]).reshape(-1, 4)
    return Detections(tuple(row[0] for row in rows), np.array([row[1] for row in rows]), coordinates)


def evaluate(found, truth, threshold=0.5, **options):
    return evaluate_voc({"x": found}, {"x": truth}, threshold, **options).classes["x"]


@SETTINGS
@given(st.lists(boxes | any_boxes, max_size=10), st.lists(boxes | any_boxes, max_size=6), st.data())
def test_compiled_and_reference_matching_agree(found, objects, data):
    images = data.draw(st.lists(st.integers(0, 2), min_size=len(found), max_size=len(found)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(objects)), min_size=2, max_size=2)))
    difficult = data.draw(st.lists(st.integers(0, 1), min_size=len(objects), max_size=len(objects)))
    arguments = (
        np.array(found, dtype=float).reshape(-1, 4),
        np.array(images, dtype=np.intp),
        np.array(objects, dtype=float).reshape(-1, 4),
        np.array([0, *cuts, len(objects)], dtype=np.intp),
        np.array(difficult, dtype=np.uint8),
        data.draw(st.sampled_from([0.25, 1 / 3, 0.5, 1.0])),
        data.draw(st.booleans()),
        data.draw(st.sampled_from([0.0, 1.0])),
    )
    for fast, slow in zip(compiled.match(*arguments), reference.match(*arguments), strict=True):
        np.testing.assert_array_equal(fast, slow)


@SETTINGS
@given(detections(), truths())
def test_every_number_is_between_0_and_1_or_undefined(found, truth):
    result = evaluate(found, truth)
    assert (result.ap_area is None) == (result.npos == 0) == (result.ap_11point is None)
    if result.npos:
        assert 0 <= result.ap_area <= 1 + 1e-12
        assert 0 <= result.ap_11point <= 1 + 1e-12
    assert ((result.precision >= 0) & (result.precision <= 1)).all()
    assert (np.diff(result.recall) >= 0).all()


@SETTINGS
@given(detections(), truths())
def test_each_easy_object_is_found_once_at_most_and_no_difficult_one_counts(found, truth):
    result = evaluate(found, truth)
    partners = result.matches.partner[result.tp]
    assert len(set(partners.tolist())) == len(partners)
    difficult = np.concatenate([truth[picture].difficult for picture in PICTURES])
    assert not difficult[partners].any()
    assert (result.tp | result.fp | (result.matches.outcome == 0)).all()


@SETTINGS
@given(detections(), truths())
def test_only_the_order_of_the_scores_matters(found, truth):
    _, ranks = np.unique(found.scores, return_inverse=True)
    again = Detections(found.image_ids, ranks * 3.0 - 100, found.boxes)
    assert evaluate(again, truth).row() == evaluate(found, truth).row()


@SETTINGS
@given(detections(), truths())
def test_the_order_of_the_pictures_in_the_ground_truth_does_not_matter(found, truth):
    back = {picture: truth[picture] for picture in reversed(PICTURES)}
    assert evaluate(found, back).row() == evaluate(found, truth).row()


@SETTINGS
@given(detections(), truths())
def test_a_false_positive_below_all_others_changes_nothing(found, truth):
    lowest = found.scores.min(initial=0) - 1
    more = Detections((*found.image_ids, "a"), [*found.scores, lowest], [*found.boxes.tolist(), [90, 90, 91, 91]])
    assert evaluate(more, truth).row() == evaluate(found, truth).row()


@SETTINGS
@given(detections(), truths())
def test_the_strict_rule_finds_no_more(found, truth):
    assert evaluate(found, truth, strict=True).tp.sum() <= evaluate(found, truth).tp.sum()


@SETTINGS
@given(detections(), truths())
def test_corloc_is_the_share_of_pictures_whose_first_best_window_is_on_an_object(found, truth):
    hits = []
    for picture in PICTURES:
        rows = [i for i, image in enumerate(found.image_ids) if image == picture]
        objects = to_voc(truth[picture].boxes)
        if len(objects):
            best = max(rows, key=lambda i: (found.scores[i], -i), default=None)
            window = None if best is None else to_voc(found.boxes[[best]])[0]
            hits.append(window is not None and max(reference.overlap(window, one, 1.0) for one in objects) > 0.5)
    expected = sum(hits) / len(hits) if hits else None
    assert corloc({"x": found}, {"x": truth}).classes["x"].corloc == expected


@SETTINGS
@given(detections(), truths())
def test_pointing_agrees_with_its_twin_and_holds_every_hit_of_corloc(found, truth):
    located, pointed = corloc({"x": found}, {"x": truth}), pointing({"x": found}, {"x": truth})
    hits = pointed.classes["x"].hits
    assert hits.tolist() == reference.pointing_hits(found, truth)
    assert pointed.mean == (sum(hits) / len(hits) if len(hits) else None)
    assert not (located.classes["x"].hits & ~hits).any()


def lines_of(found):
    return sorted(zip(found.image_ids, found.scores.tolist(), found.boxes.tolist(), strict=True))


@settings(SETTINGS, max_examples=20)
@given(detections())
def test_result_files_keep_every_bit_and_rank_alike(tmp_path_factory, found):
    path = tmp_path_factory.mktemp("results") / "comp4_det_test_x.txt"
    write_results(path, found)
    back = read_result_file(path)
    assert lines_of(back) == lines_of(found)
    assert back.order().tolist() == list(range(len(found)))


@SETTINGS
@given(st.lists(boxes | any_boxes, max_size=15), st.data(), st.floats(0, 1))
def test_compiled_and_reference_suppression_agree(rows, data, threshold):
    values = data.draw(st.lists(scores, min_size=len(rows), max_size=len(rows)))
    assert nms(rows, values, threshold).tolist() == suppression.nms(rows, values, threshold)


@SETTINGS
@given(st.lists(boxes, max_size=15), st.data(), st.floats(0, 1))
def test_what_stays_does_not_overlap_and_what_goes_has_a_better_neighbour_that_stayed(rows, data, threshold):
    values = data.draw(st.lists(scores, min_size=len(rows), max_size=len(rows)))
    kept = nms(rows, values, threshold).tolist()
    for i in range(len(rows)):
        before = [j for j in kept if (-values[j], j) < (-values[i], i)]
        blocked = any(suppression.overlap(rows[j], rows[i]) > threshold for j in before)
        assert blocked == (i not in kept)


@SETTINGS
@given(st.lists(boxes, max_size=15), st.data(), st.floats(0, 1))
def test_suppression_of_what_stayed_keeps_it_all(rows, data, threshold):
    values = data.draw(st.lists(scores, min_size=len(rows), max_size=len(rows)))
    kept = nms(rows, values, threshold)
    again = nms([rows[i] for i in kept], [values[i] for i in kept], threshold)
    assert again.tolist() == list(range(len(kept)))


@SETTINGS
@given(st.lists(boxes, max_size=15), st.data(), st.floats(0.05, 5), st.floats(0.05, 1))
def test_compiled_and_reference_voting_agree_and_stay_among_the_windows(rows, data, temperature, min_iou):
    values = data.draw(st.lists(scores, min_size=len(rows), max_size=len(rows)))
    kept = [rows[i] for i in nms(rows, values)]
    moved = box_voting(kept, rows, values, temperature, min_iou)
    expected = np.array(suppression.box_voting(kept, rows, values, temperature, min_iou)).reshape(-1, 4)
    np.testing.assert_allclose(moved, expected, atol=1e-9)
    if rows:
        assert (moved >= np.min(rows, axis=0) - 1e-9).all()
        assert (moved <= np.max(rows, axis=0) + 1e-9).all()


def test_the_default_rule_is_the_devkits():
    assert OverlapRule() == OverlapRule(iou_threshold=0.5, strict=False, plus_one=True)
