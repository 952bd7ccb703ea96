"""Geometry of the plots: where points and ticks come to lie."""

import numpy as np
import pytest

from lapsvm.report import CccpStep, ClassSummary, Curve
from lapsvm.report.plots import precision_recall_plot, training_plots


def steps(*objectives, gaps=None):
    gaps = gaps or [None] * len(objectives)
    rows = enumerate(zip(objectives, gaps, strict=True), start=1)
    return ClassSummary("bus", steps=tuple(CccpStep(o, g, passes=2 * n) for n, (o, g) in rows))


def test_precision_and_recall_span_the_frame():
    plot = precision_recall_plot("bus", Curve([0.0, 0.5, 1.0], [1.0, 0.5, 0.0]))
    middle = (plot.left + plot.right) / 2, (plot.top + plot.bottom) / 2
    points = [tuple(map(float, point.split(","))) for point in plot.line.split()]
    assert points[0] == pytest.approx((plot.left, plot.top), abs=0.05)
    assert points[1] == pytest.approx(middle, abs=0.05)
    assert points[2] == pytest.approx((plot.right, plot.bottom), abs=0.05)


def test_a_curve_without_detections_has_no_line():
    assert precision_recall_plot("bus", Curve([], [])).line == ""


def test_a_long_curve_is_thinned_to_what_is_seen():
    n = 100_000
    hits = np.cumsum(np.random.default_rng(0).random(n) < 0.01)
    plot = precision_recall_plot("bus", Curve(hits / hits[-1], hits / np.arange(1, n + 1)))
    assert len(plot.line) < 60_000


def test_the_objective_has_round_ticks_around_its_values():
    (plot,) = training_plots(steps(63.11, 60.2, 59.54))
    assert [tick.label for tick in plot.y_ticks] == ["59", "60", "61", "62", "63", "64"]
    assert [tick.label for tick in plot.x_ticks] == ["0", "2", "4", "6"]
    assert plot.dots[0][1] < plot.dots[1][1] < plot.dots[2][1]


def test_close_objectives_get_labels_that_differ():
    (plot,) = training_plots(steps(63.1104, 63.1101))
    assert [tick.label for tick in plot.y_ticks] == ["63.1101", "63.1102", "63.1103", "63.1104"]


@pytest.mark.parametrize("value", [5.0, -3.0, 1e9, 1e-9])
def test_one_step_is_a_dot_inside_an_axis(value):
    (plot,) = training_plots(steps(value))
    assert plot.left < plot.dots[0][0] <= plot.right
    assert plot.top < plot.dots[0][1] < plot.bottom


def test_an_objective_of_zero_is_drawn_on_an_axis_from_zero():
    (plot,) = training_plots(steps(0.0))
    assert plot.dots[0][1] == plot.bottom


def test_the_gap_is_drawn_from_zero_and_steps_without_one_are_left_out():
    objective, gap = training_plots(steps(3.0, 2.0, 1.0, gaps=[8e-4, None, 2e-4]))
    assert gap.left == objective.left
    assert gap.y_ticks[0].label.strip("0.") == ""
    assert len(gap.dots) == 2
    assert "2.0e-04 at the end" in gap.label


def test_many_passes_are_labelled_at_most_seven_times():
    (plot,) = training_plots(steps(*range(100, 0, -1)))
    assert len(plot.x_ticks) <= 7


def test_a_class_without_history_has_no_plots():
    assert training_plots(ClassSummary("bus")) == ()


def test_training_is_drawn_over_passes():
    told = (CccpStep(3.0, 1e-2, passes=4, seconds=0.5), CccpStep(2.0, 1e-3, passes=20, seconds=2.0))
    objective, gap = training_plots(ClassSummary("bus", steps=told))
    right = next(tick.position for tick in objective.x_ticks if float(tick.label) == 20)
    assert objective.dots[1][0] == gap.dots[1][0] == pytest.approx(right, abs=0.1)
    assert float(objective.x_ticks[0].label) == 0
    assert "over passes" in objective.label
    assert "over passes" in gap.label


def test_training_is_not_drawn_where_a_step_does_not_tell_its_passes():
    told = (CccpStep(3.0, 1e-2, passes=4), CccpStep(2.0, 1e-3))
    assert training_plots(ClassSummary("bus", steps=told)) == ()
