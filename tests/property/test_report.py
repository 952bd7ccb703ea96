"""Properties of the report: the rules for misses restated slowly, and what no rule or axis may depend on."""

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from lapsvm.boxes import iou
from lapsvm.report import CccpStep, ClassSummary, Curve, MissKind, miss_kind
from lapsvm.report.plots import precision_recall_plot, training_plots

side = st.integers(1, 60)
corner = st.integers(0, 60)
box = st.tuples(corner, corner, side, side).map(lambda b: (b[0], b[1], b[0] + b[2], b[1] + b[3]))
boxes = st.lists(box, max_size=4)
finite = st.floats(-1e12, 1e12) | st.sampled_from([0.0, 5e-324, 1e-301, 1e-200, 63.11, 63.11 + 1e-9])


def area(b):
    return (b[2] - b[0]) * (b[3] - b[1])


def common(a, b):
    return max(0, min(a[2], b[2]) - max(a[0], b[0])) * max(0, min(a[3], b[3]) - max(a[1], b[1]))


def overlap(a, b):
    return common(a, b) / (area(a) + area(b) - common(a, b))


def plain_kind(window, truth, others):
    """The documented rules, one after the other, in exact integers where they compare shares."""
    nearest = max(truth, key=lambda b: overlap(window, b), default=None)
    best = overlap(window, nearest) if nearest else 0.0
    if any(overlap(window, b) >= 0.5 and overlap(window, b) > best for b in others):
        return MissKind.WRONG_OBJECT
    if nearest and 3 * common(window, nearest) >= 2 * area(nearest) and area(window) > area(nearest):
        return MissKind.TOO_LARGE
    if nearest and 3 * common(window, nearest) >= 2 * area(window) and area(window) < area(nearest):
        return MissKind.TOO_SMALL
    on_other = any(3 * common(window, b) >= 2 * area(window) for b in others)
    return MissKind.WRONG_OBJECT if on_other else MissKind.POOR_OVERLAP


@given(box, boxes, boxes)
def test_the_kind_is_that_of_the_rules_restated(window, truth, others):
    assert miss_kind(window, truth, others) is plain_kind(window, truth, others)


@given(box, boxes, boxes, st.integers(-500, 500), st.sampled_from([0.25, 0.5, 2.0, 8.0]))
def test_the_kind_depends_neither_on_place_nor_on_scale(window, truth, others, shift, scale):
    moved = [np.array(b, dtype=float).reshape(-1, 4) * scale + shift for b in (window, truth, others)]
    assert miss_kind(moved[0][0], moved[1], moved[2]) is miss_kind(window, truth, others)


@given(box, box)
def test_a_miss_of_half_overlap_is_never_too_large_and_too_small_at_once(window, truth):
    assume(iou([window], [truth])[0, 0] < 0.5)
    held = 3 * common(window, truth) >= 2 * area(truth)
    lying = 3 * common(window, truth) >= 2 * area(window)
    assert not (held and lying)


@given(st.lists(finite, min_size=1, max_size=30))
def test_every_step_is_drawn_inside_the_frame_and_ticks_are_told_apart(objectives):
    (plot,) = training_plots(
        ClassSummary("x", steps=tuple(CccpStep(value, passes=n) for n, value in enumerate(objectives)))
    )
    assert len(plot.dots) == len(objectives)
    assert all(plot.left <= x <= plot.right and plot.top <= y <= plot.bottom for x, y in plot.dots)
    labels = [tick.label for tick in plot.y_ticks]
    assert 2 <= len(labels) <= 7
    assert len(set(labels)) == len(labels)


@given(st.lists(st.booleans(), min_size=1, max_size=400), st.integers(0, 50))
def test_a_thinned_curve_keeps_both_ends_and_the_highest_point(right, missed):
    hits = np.cumsum(right)
    curve = Curve(hits / (hits[-1] + missed + 1), hits / np.arange(1, len(hits) + 1))
    plot = precision_recall_plot("x", curve)
    drawn = np.array([point.split(",") for point in plot.line.split()], dtype=float)
    x = plot.left + np.asarray(curve.recall) * (plot.right - plot.left)
    y = plot.bottom - np.asarray(curve.precision) * (plot.bottom - plot.top)
    np.testing.assert_allclose(drawn[[0, -1]], np.c_[x, y][[0, -1]], atol=0.051)
    np.testing.assert_allclose(drawn[:, 1].min(), y.min(), atol=0.051)
