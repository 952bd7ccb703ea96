"""Average precision of curves, against formulas, the twin, and the last bit of the grid."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from lapsvm.errors import InputError, NotFiniteError, OptionError, ShapeError
from lapsvm.evaluation import average_precision_11point, average_precision_area, image_auroc, image_average_precision
from lapsvm.evaluation.average_precision import RECALL_GRIDS

from ..twins import evaluation as reference

POINTS = [
    average_precision_11point,
    lambda recall, precision: reference.average_precision_11point(recall, precision, RECALL_GRIDS["matlab"]),
]
AREAS = [average_precision_area, reference.average_precision_area]
TWINS = {"ids": ["array", "reference"]}


@pytest.mark.parametrize(("area", "points"), list(zip(AREAS, POINTS, strict=True)), **TWINS)
def test_both_measures_take_the_best_precision_from_each_recall_on(area, points):
    curve = [1 / 4, 1 / 4, 2 / 4, 3 / 4], [1 / 1, 1 / 2, 2 / 3, 3 / 4]
    assert area(*curve) == pytest.approx(1 / 4 * 1 + 1 / 4 * 3 / 4 + 1 / 4 * 3 / 4)
    assert points(*curve) == pytest.approx((3 * 1 + 5 * 3 / 4) / 11)


@pytest.mark.parametrize("measure", POINTS + AREAS)
def test_a_perfect_ranking_has_1_and_an_empty_one_0(measure):
    assert measure([1 / 3, 2 / 3, 3 / 3], [1, 1, 1]) == pytest.approx(1)
    assert measure([], []) == 0


@pytest.mark.parametrize(("grid", "missed"), [("matlab", {3}), ("octave", {3, 6, 7}), ("exact", set())])
def test_the_grid_decides_whether_a_recall_of_exactly_i_tenths_counts(grid, missed):
    for i in range(1, 11):
        reached = average_precision_11point([i / 10], [1.0], grid)
        assert reached == pytest.approx((i + 1 - (i in missed)) / 11), i


def test_the_octave_grid_is_that_of_numpy():
    assert RECALL_GRIDS["octave"] == tuple(np.arange(0, 1.1, 0.1))


@pytest.mark.parametrize("grid", RECALL_GRIDS)
def test_long_random_curves_equal_the_twin(grid):
    rng = np.random.default_rng(10)
    hits = rng.random(400) < np.linspace(0.9, 0.1, 400)
    recall, precision = np.cumsum(hits) / (hits.sum() + 5), np.cumsum(hits) / np.arange(1, 401)
    expected = reference.average_precision_11point(recall, precision, RECALL_GRIDS[grid])
    assert average_precision_11point(recall, precision, grid) == pytest.approx(expected, rel=1e-12)
    expected = reference.average_precision_area(recall, precision)
    assert average_precision_area(recall, precision) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("measure", [average_precision_11point, average_precision_area])
def test_what_is_no_curve_is_refused(measure):
    with pytest.raises(InputError, match=r"^recall must not decrease, got 0\.1 after a larger value\.$"):
        measure([0.2, 0.1], [1, 1])
    with pytest.raises(ShapeError, match="recall and precision must have the same length, got 1 and 2"):
        measure([0.2], [1, 1])
    with pytest.raises(NotFiniteError, match="precision must be finite, got nan at index 0"):
        measure([0.0], [np.nan])


def test_an_unknown_grid_is_refused():
    with pytest.raises(OptionError, match="grid must be one of matlab, octave, exact, got 'R'"):
        average_precision_11point([], [], "R")


def test_image_level_average_precision_is_scikit_learns_without_unlabelled_pictures():
    rng = np.random.default_rng(12)
    scores, labels = rng.normal(size=200).round(1), rng.choice([-1, 0, 1], 200)
    known = labels != 0
    expected = average_precision_score(labels[known], scores[known], pos_label=1)
    assert image_average_precision(scores, labels) == pytest.approx(expected)


def test_image_level_average_precision_of_three_pictures():
    assert image_average_precision([3, 2, 1, 9], [1, -1, 1, 0]) == pytest.approx((1 / 1 + 2 / 3) / 2)


@pytest.mark.parametrize("labels", [[], [-1], [0, -1]])
def test_without_a_positive_picture_it_is_undefined(labels):
    assert image_average_precision(np.zeros(len(labels)), labels) is None


def test_without_a_negative_picture_it_is_1():
    assert image_average_precision([1, 2], [1, 1]) == 1


def test_image_level_input_that_breaks_a_rule_is_refused():
    with pytest.raises(InputError, match=r"^labels must be \+1, -1 or 0, got 2\.0\.$"):
        image_average_precision([1, 2], [1, 2])
    with pytest.raises(NotFiniteError, match="scores must be finite, got nan at index 0"):
        image_average_precision([np.nan], [1])
    with pytest.raises(ShapeError, match="scores and labels must have the same length, got 2 and 1"):
        image_average_precision([1, 2], [1])


@given(st.lists(st.tuples(st.integers(-5, 5), st.sampled_from([1, -1, 0])), min_size=1, max_size=30))
def test_image_auroc_is_the_share_of_pairs_in_order(rows):
    scores, labels = zip(*rows, strict=True)
    positives, negatives = ([score for score, label in rows if label == sign] for sign in (1, -1))
    pairs = [(1 if one > other else 0.5 if one == other else 0) for one in positives for other in negatives]
    assert image_auroc(scores, labels) == (pytest.approx(np.mean(pairs)) if pairs else None)


def test_image_auroc_takes_labels_as_image_ap_does():
    with pytest.raises(InputError, match=r"labels must be \+1, -1 or 0, got 2"):
        image_auroc([1, 2], [1, 2])
