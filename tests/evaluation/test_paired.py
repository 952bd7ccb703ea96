"""Paired tests against scipy, and the bootstrap against evaluating the repeated pictures themselves."""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import average_precision_score, roc_auc_score

from lapsvm.boxes import as_boxes
from lapsvm.catalog import GroundTruth
from lapsvm.errors import InputError, NotFiniteError, ShapeError
from lapsvm.evaluation import (
    Detections,
    corloc,
    detection_ap_draws,
    draw_pictures,
    evaluate_voc,
    holm,
    image_ap_draws,
    image_auroc_draws,
    paired_t_test,
    share_draws,
)


@pytest.fixture(params=range(4))
def rng(request):
    return np.random.default_rng(request.param)


def test_the_t_test_is_scipys(rng):
    first, second = rng.normal(size=(2, 7))
    found, expected = paired_t_test(first, second), stats.ttest_rel(second, first)
    assert found.statistic == pytest.approx(expected.statistic, rel=1e-12)
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-12)
    assert found.difference == pytest.approx((second - first).mean(), rel=1e-12)
    assert found.n == 7


def test_an_overlap_widens_the_variance_of_the_mean(rng):
    first, second = rng.normal(size=(2, 5))
    plain, corrected = paired_t_test(first, second), paired_t_test(first, second, overlap=1 / 4)
    assert corrected.statistic == pytest.approx(plain.statistic * np.sqrt((1 / 5) / (1 / 5 + 1 / 4)), rel=1e-12)
    assert corrected.p_value == pytest.approx(2 * stats.t.sf(abs(corrected.statistic), 4), rel=1e-9)


def test_equal_differences_have_no_statistic():
    same = paired_t_test([0.1, 0.7], [0.1, 0.7])
    assert (same.difference, same.statistic, same.p_value) == (0.0, None, 1.0)
    shifted = paired_t_test([0.1, 0.7, 0.3], [0.4, 1.0, 0.6])
    assert (shifted.statistic, shifted.p_value) == (None, 0.0)


def holm_by_definition(p):
    """Return for each hypothesis the smallest level at which the step-down procedure rejects it."""
    ranked = sorted(p)
    steps = [(len(p) - i) * value for i, value in enumerate(ranked)]
    return [min(1.0, max(steps[: ranked.index(value) + 1])) for value in p]


def test_holm_is_its_definition(rng):
    p = rng.random(6) ** 3
    assert holm(p) == pytest.approx(holm_by_definition(p.tolist()), rel=1e-14)


def test_holm_of_a_worked_example():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([3 * 0.01, 2 * 0.03, 2 * 0.03, 4 * 0.005])
    assert holm([0.9, 0.9]) == pytest.approx([1, 1])
    assert holm([]).shape == (0,)


def test_draws_are_seeded_and_draw_n_pictures():
    counts = draw_pictures(9, 50, 3)
    assert counts.shape == (50, 9)
    assert (counts.sum(axis=1) == 9).all()
    assert (counts == draw_pictures(9, 50, 3)).all()
    assert (counts != draw_pictures(9, 50, 4)).any()


def test_groups_are_drawn_with_all_their_pictures():
    groups = [4, 0, 4, 2, 0, 4]
    counts = draw_pictures(6, 500, 3, groups)
    assert (counts[:, [0, 1]] == counts[:, [2, 4]]).all()
    assert (counts[:, 0] == counts[:, 5]).all()
    of_groups = draw_pictures(3, 500, 3)
    assert (counts[:, [1, 3, 0]] == of_groups).all()
    for each in (None, np.arange(6), [5, 3, 9, 1, 0, 2]):
        assert (draw_pictures(6, 500, 3, each) == draw_pictures(6, 500, 3)).all()


def test_an_image_ap_of_a_draw_is_that_of_the_repeated_pictures(rng):
    scores, labels = rng.integers(0, 6, 14) / 4, rng.choice([-1, -1, 0, 1], 14)  # many ties
    counts = draw_pictures(14, 40, 0)
    for row, value in zip(counts, image_ap_draws(scores, labels, counts), strict=True):
        drawn = np.repeat(np.arange(14), row)
        drawn = drawn[labels[drawn] != 0]
        if (labels[drawn] > 0).any():
            assert value == pytest.approx(average_precision_score(labels[drawn] > 0, scores[drawn]), abs=1e-12)
        else:
            assert np.isnan(value)


@pytest.mark.parametrize("ties", [True, False])
def test_an_auroc_of_a_draw_is_that_of_the_repeated_pictures(rng, ties):
    scores = rng.integers(0, 6, 14) / 4 if ties else rng.standard_normal(14)
    labels = rng.choice([-1, 0, 1], 14)
    counts = draw_pictures(14, 40, 0)
    counts[:3] = np.eye(14, dtype=np.int32)[np.flatnonzero(labels)[:3]]  # one picture alone has no pair
    for row, value in zip(counts, image_auroc_draws(scores, labels, counts), strict=True):
        drawn = np.repeat(np.arange(14), np.where(labels == 0, 0, row))
        if {*labels[drawn]} == {-1, 1}:
            assert value == pytest.approx(roc_auc_score(labels[drawn] > 0, scores[drawn]), abs=1e-12)
        else:
            assert np.isnan(value)


def scene(rng, n):
    """Return ground truth of n pictures and detections in them: on objects, twice on objects, beside them."""
    truth, found = {}, []
    for i in range(n):
        size = int(rng.integers(0, 4))
        corners = rng.integers(0, 40, (size, 2)) + 60 * np.arange(size)[:, None]
        boxes = np.hstack([corners, corners + 20]).astype(float).reshape(-1, 4)
        truth[f"p{i}"] = GroundTruth(boxes, rng.random(size) < 0.3)
        shots = [boxes[j] + rng.integers(0, 9) for j in range(size) for _ in range(rng.integers(0, 3))]
        shots += [rng.integers(300, 350) + np.array([0.0, 0, 9, 9]) for _ in range(rng.integers(0, 3))]
        found.append((f"p{i}", as_boxes(np.array(shots).reshape(-1, 4)), rng.random(len(shots))))
    return truth, found


def repeated(truth, found, row):
    """Return the same with every picture as often as drawn, each copy a picture of its own."""
    copies = [(i, copy) for i, count in enumerate(row) for copy in range(count)]
    return (
        {f"p{i}_{copy}": truth[f"p{i}"] for i, copy in copies},
        [(f"p{i}_{copy}", *found[i][1:]) for i, copy in copies],
    )


def test_a_detection_ap_of_a_draw_is_that_of_the_repeated_pictures(rng):
    n = 8
    truth, found = scene(rng, n)
    result = evaluate_voc({"a": Detections.from_images(found)}, {"a": truth}).classes["a"]
    ids = Detections.from_images(found).image_ids
    pictures = [int(ids[i][1:]) for i in result.order]
    npos = [int((~truth[f"p{i}"].difficult).sum()) for i in range(n)]
    counts = np.vstack([np.ones((1, n), dtype=np.int64), draw_pictures(n, 30, 1)])
    points, areas = detection_ap_draws(result.matches.outcome, pictures, npos, counts)
    assert (points[0], areas[0]) == pytest.approx((result.ap_11point, result.ap_area), abs=1e-12)
    for row, point, area in zip(counts, points, areas, strict=True):
        drawn_truth, drawn = repeated(truth, found, row)
        expected = evaluate_voc({"a": Detections.from_images(drawn)}, {"a": drawn_truth}).classes["a"]
        if expected.npos:
            assert (point, area) == pytest.approx((expected.ap_11point, expected.ap_area), abs=1e-12)
        else:
            assert np.isnan([point, area]).all()


def test_nothing_found_is_an_ap_of_0_in_every_draw():
    counts = draw_pictures(3, 20, 0)
    points, areas = detection_ap_draws([], [], [1, 1, 1], counts)
    assert (points == 0).all()
    assert (areas == 0).all()


def test_a_corloc_of_a_draw_is_that_of_the_repeated_pictures(rng):
    truth, found = scene(rng, 8)
    located = corloc({"a": Detections.from_images(found)}, {"a": truth}).classes["a"]
    counts = draw_pictures(8, 30, 2)
    values = share_draws(located.hits, [int(image[1:]) for image in located.image_ids], counts)
    for row, value in zip(counts, values, strict=True):
        drawn_truth, drawn = repeated(truth, found, row)
        expected = corloc({"a": Detections.from_images(drawn)}, {"a": drawn_truth}).classes["a"].corloc
        assert value == pytest.approx(np.nan if expected is None else expected, nan_ok=True)


def test_the_bootstrap_covers_the_difference_of_two_means():
    """The spread over draws of a mean is its standard error."""
    values = np.random.default_rng(0).random(400) < 0.3
    shares = share_draws(values, np.arange(400), draw_pictures(400, 4000, 0))
    assert shares.std() == pytest.approx(values.std() / np.sqrt(400), rel=0.05)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: paired_t_test([1], [1]), InputError, "at least 2 values, got 1"),
        (lambda: paired_t_test([1, 2], [1]), ShapeError, "first and second"),
        (lambda: paired_t_test([1, np.nan], [1, 2]), NotFiniteError, "first"),
        (lambda: paired_t_test([1, 2], [1, 3], overlap=-1), InputError, "overlap must be 0 or more, got -1"),
        (lambda: holm([0.5, 1.5]), InputError, "between 0 and 1, got 1.5"),
        (lambda: draw_pictures(0, 5, 0), InputError, "n must be 1 or more, got 0"),
        (lambda: draw_pictures(5, 0, 0), InputError, "draws must be 1 or more, got 0"),
        (lambda: draw_pictures(3, 5, 0, [0, 1]), ShapeError, "groups and pictures must have the same length, got 2"),
        (lambda: draw_pictures(2, 5, 0, [0.5, 1]), InputError, "groups must be whole numbers, got float64"),
        (lambda: image_ap_draws([1, 2], [1, 2], [[1, 1]]), InputError, r"\+1, -1 or 0, got 2"),
        (lambda: image_ap_draws([1, 2], [1, -1], [[1, 1, 1]]), ShapeError, r"shape \(draws, 2\)"),
        (lambda: detection_ap_draws([2], [0], [1], [[1]]), InputError, "outcomes must be 1, 0 or -1"),
        (lambda: detection_ap_draws([1], [1], [1], [[1]]), InputError, "pictures must be from 0 to 0"),
        (lambda: share_draws([True], [0, 1], [[1, 1]]), ShapeError, "hits and pictures"),
    ],
)
def test_bad_input_is_one_sentence(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_a_missing_hit_is_no_hit():
    with pytest.raises(NotFiniteError, match="hits must be finite, got nan at index 1"):
        share_draws([1, np.nan, 0], [0, 1, 2], [[1, 1, 1]])
    with pytest.raises(InputError, match="hits must be True or False, got 2"):
        share_draws([1, 2, 0], [0, 1, 2], [[1, 1, 1]])
