"""Refinement: the chosen windows against everything far from them, in the same pictures too."""

import numpy as np
import pytest

from lapsvm.bags import Bags
from lapsvm.boxes import iou
from lapsvm.errors import InputError, ShapeError
from lapsvm.latent import HingeRisk, LatentProblem, RankRisk, fit_many, refine
from lapsvm.latent.refinement import OverlapLimits, inside

NEG_IOU, POS_IOU = 0.3, 0.7
POSITIONS, WIDTHS = (0, 10, 20, 30, 40), (8, 9, 10)  # of one position every two windows overlap at least .8


def planted(seed=0, n_bags=24, dim=7):
    """Windows of three widths at five positions; in every third picture the object is at position 1.

    What surrounds it, at position 3, is in positive pictures too, and a bit stronger.
    """
    rng = np.random.default_rng(seed)
    boxes = np.array([[x, 0, x + width, 10] for x in POSITIONS for width in WIDTHS], dtype=float)
    y = np.where(np.arange(n_bags) % 3 == 0, 1, -1)
    windows = rng.normal(size=(n_bags, len(boxes), dim)) / 4
    windows[y > 0, 3:6, 0] += 2
    windows[y > 0, 9:12, 1] += 2.5
    return windows, y, boxes


def refined(windows, y, boxes, chosen, **options):
    problem = LatentProblem(y, **{"C": 10.0, **options.pop("problem", {})})
    return problem, refine(problem, Bags.from_arrays(windows), np.tile(boxes, (len(windows), 1)), chosen, **options)


def by_hand(windows, y, boxes, chosen, out=(), parts=()):
    """The same problem, its bags written out: positives' near windows, negatives, positives' far windows.

    `parts` are windows that are no negatives.
    """
    near, far = (
        [pick(iou(boxes, boxes[chosen[i]][None])[:, 0]) for i in range(len(y))]
        for pick in (lambda overlap: overlap >= POS_IOU, lambda overlap: overlap < NEG_IOU)
    )
    far = [own & ~np.isin(np.arange(len(boxes)), parts) for own in far]
    positives = [i for i in np.flatnonzero(y > 0) if i not in out]
    arrays = [windows[i][near[i]] for i in positives]
    start = [int(np.flatnonzero(near[i]).tolist().index(chosen[i])) for i in positives]
    negatives = [windows[i] for i in np.flatnonzero(y < 0) if i not in out] + [windows[i][far[i]] for i in positives]
    labels = np.repeat([1, -1], [len(arrays), len(negatives)])
    return Bags.from_arrays(arrays + negatives), labels, np.append(start, np.zeros(len(negatives), dtype=int))


@pytest.mark.parametrize("risk", [RankRisk("ap"), HingeRisk(2.0)])
def test_it_is_the_problem_of_near_windows_against_negatives_and_far_windows(risk):
    windows, y, boxes = planted()
    chosen = np.where(y > 0, 4, 0)
    problem, found = refined(windows, y, boxes, chosen, problem={"risk": risk})
    bags, labels, start = by_hand(windows, y, boxes, chosen)
    alone = fit_many([LatentProblem(labels, risk=risk, C=10.0, init=start)], bags)[0]
    assert found.objective == pytest.approx(alone.objective, rel=2e-3)
    np.testing.assert_allclose(found.coef, alone.coef, atol=0.05)
    assert found.gap <= problem.tol


def test_each_of_several_windows_is_a_positive_and_what_is_far_from_all_a_negative():
    windows, y, boxes = planted()
    windows[y > 0, 12:15] = windows[y > 0, 3:6]
    chosen = np.where((y > 0)[:, None], [4, 13, -1], 0)
    chosen[np.flatnonzero(y > 0)[0], 1] = -1  # a picture with one thing
    _, found = refined(windows, y, boxes, chosen)
    bags, labels = [], []
    for own, label, picks in zip(windows, y, chosen, strict=True):
        overlaps = iou(boxes, boxes[picks[picks >= 0]])
        near = [own[column >= POS_IOU] for column in overlaps.T] if label > 0 else []
        bags += [*near, own[overlaps.max(axis=1) < NEG_IOU] if label > 0 else own]
        labels += [1] * len(near) + [-1]
    alone = fit_many([LatentProblem(labels, C=10.0)], Bags.from_arrays(bags))[0]
    assert found.objective == pytest.approx(alone.objective, rel=2e-3)
    np.testing.assert_allclose(found.coef, alone.coef, atol=0.05)
    assert found.windows.shape == y.shape


def test_right_windows_teach_it_to_tell_the_object_from_its_surroundings():
    """Latent training takes the stronger surroundings for the object; refinement from right windows does not."""
    windows, y, boxes = planted()
    latent = fit_many([LatentProblem(y, C=10.0)], Bags.from_arrays(windows))[0]
    assert np.isin(latent.windows[y > 0], (9, 10, 11)).all()
    _, found = refined(windows, y, boxes, np.where(y > 0, 4, 0))
    assert np.isin(Bags.from_arrays(windows).best(found.coef).index[y > 0], (3, 4, 5)).all()


def test_the_mean_of_several_near_windows_may_stand_for_a_positive():
    windows, y, boxes = planted()
    chosen = np.where(y > 0, 4, 0)
    _, found = refined(windows, y, boxes, chosen, problem={"top": 99})
    bags, labels, _ = by_hand(windows, y, boxes, chosen)
    means = [bags[i].mean(axis=0)[None] if labels[i] > 0 else bags[i] for i in range(len(labels))]
    alone = fit_many([LatentProblem(labels, C=10.0)], means)[0]
    assert found.objective == pytest.approx(alone.objective, rel=2e-3)


def test_a_picture_without_far_windows_is_a_positive_only():
    windows, y, boxes = planted()
    same = np.tile([0.0, 0, 10, 10], (len(boxes), 1))
    _, found = refined(windows, y, same, np.zeros(len(y), dtype=int))
    assert np.isfinite(found.coef).all()
    plain = fit_many([LatentProblem(y, C=10.0, init=np.zeros(len(y), dtype=int))], Bags.from_arrays(windows))[0]
    np.testing.assert_array_equal(found.coef, plain.coef)


def test_pictures_left_out_stay_out():
    windows, y, boxes = planted()
    chosen, kept = np.where(y > 0, 4, 0), np.flatnonzero(np.arange(len(y)) % 4)
    _, found = refined(windows, np.where(np.arange(len(y)) % 4, y, 0), boxes, chosen)
    _, alone = refined(windows[kept], y[kept], boxes, chosen[kept])
    np.testing.assert_allclose(found.coef, alone.coef, atol=1e-9)


def test_the_same_seed_gives_the_same():
    windows, y, boxes = planted()
    one, other = (refined(windows, y, boxes, np.where(y > 0, 4, 0))[1] for _ in range(2))
    np.testing.assert_array_equal(one.coef, other.coef)
    np.testing.assert_array_equal(one.windows, other.windows)


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"pos_iou": 0.2}, InputError, "neg_min_iou < neg_iou <= pos_iou <= 1, got 0.0, 0.3 and 0.2"),
        ({"neg_iou": 0}, InputError, "neg_min_iou, neg_iou and pos_iou must be"),
        ({"pos_iou": 1.5}, InputError, "neg_min_iou, neg_iou and pos_iou must be"),
        ({"neg_min_iou": 0.3}, InputError, "neg_min_iou, neg_iou and pos_iou must be"),
        ({"neg_part_iou": -0.1}, InputError, "neg_part_iou must be from 0 to 1, got -0.1"),
        ({"neg_part_iou": float("nan")}, InputError, "neg_part_iou must be from 0 to 1, got nan"),
    ],
)
def test_options_that_break_their_rule_are_refused(options, error, sentence):
    windows, y, boxes = planted()
    with pytest.raises(error, match=sentence):
        refined(windows, y, boxes, np.zeros(len(y), dtype=int), limits=OverlapLimits(**options))


def test_boxes_and_windows_must_fit_the_bags():
    windows, y, boxes = planted()
    bags, problem = Bags.from_arrays(windows), LatentProblem(y)
    with pytest.raises(ShapeError, match="boxes must be one per window, 360, got 15"):
        refine(problem, bags, boxes, np.zeros(len(y), dtype=int))
    with pytest.raises(ShapeError, match=r"windows must have one window per bag, got shape \(3,\) for 24 bags"):
        refine(problem, bags, np.tile(boxes, (24, 1)), [0, 0, 0])
    for chosen in (np.full(24, 15), np.tile([0, 15], (24, 1))):
        with pytest.raises(InputError, match="choose windows inside their bags, got 15 for bag 0 of 15 windows"):
            refine(problem, bags, np.tile(boxes, (24, 1)), chosen)


def test_windows_apart_may_hold_another_object():
    """A second object in every positive picture, at position 3, is a negative unless windows apart are left alone."""
    windows, y, boxes = planted()
    windows[y > 0, 9:12] = windows[y > 0, 3:6]
    chosen = np.where(y > 0, 4, 0)
    _, strict = refined(windows, y, boxes, chosen)
    around = boxes.copy()
    around[6:9, 0] -= 8  # the windows of position 2 now overlap those of position 1 a little
    _, open_ = refined(windows, y, around, chosen, limits=OverlapLimits(neg_min_iou=0.05))
    strong = windows[y > 0, 9:12].mean(axis=(0, 1))
    assert open_.coef @ strong > strict.coef @ strong


def with_a_large_window():
    """The first window covers position 1 wholly, with an IoU of .27 to .33, and a part of positions 0 and 2."""
    windows, y, boxes = planted()
    boxes[0] = [2, 0, 32, 10]
    windows[y > 0, 0, :3] += [1, 0, 1]  # a weaker object, and what is around it
    return windows, y, boxes, np.zeros(len(y), dtype=int)


def test_windows_inside_the_chosen_one_are_no_negatives_from_an_iou_on():
    windows, y, boxes, chosen = with_a_large_window()
    within = [i for i in range(1, len(boxes)) if is_inside(boxes[i], boxes[0])]
    overlaps = iou(boxes, boxes[:1])[:, 0]
    for limit in (0.0, 0.28):
        spared = [i for i in within if overlaps[i] >= limit]
        assert spared
        _, found = refined(windows, y, boxes, chosen, limits=OverlapLimits(neg_part_iou=limit))
        bags, labels, start = by_hand(windows, y, boxes, chosen, parts=spared)
        alone = fit_many([LatentProblem(labels, C=10.0, init=start)], bags)[0]
        np.testing.assert_allclose(found.coef, alone.coef, atol=0.05)
        assert found.objective == pytest.approx(alone.objective, rel=2e-3)


def test_the_object_in_a_chosen_window_that_is_too_large_is_no_negative():
    windows, y, boxes, chosen = with_a_large_window()
    strong = windows[y > 0, 3:6].mean(axis=(0, 1))
    scores = [
        refined(windows, y, boxes, chosen, limits=OverlapLimits(neg_iou=0.4, **options))[1].coef @ strong
        for options in ({}, {"neg_part_iou": 0.4}, {"neg_part_iou": 0.25})
    ]
    assert scores[0] == scores[1] < scores[2]


def is_inside(window, box):
    """Nine tenths of a window's area, by its sides."""
    width = min(window[2], box[2]) - max(window[0], box[0])
    height = min(window[3], box[3]) - max(window[1], box[1])
    area = (window[2] - window[0]) * (window[3] - window[1])
    return max(width, 0) * max(height, 0) >= 0.9 * area


def test_inside_is_nine_tenths_of_the_area():
    rng = np.random.default_rng(0)
    corners = rng.integers(0, 20, size=(500, 2))
    boxes = np.hstack([corners, corners + rng.integers(1, 15, size=(500, 2))]).astype(float)
    for box in boxes[:20]:
        found = inside(boxes, box)
        assert found.tolist() == [is_inside(window, box) for window in boxes]
    assert inside(np.array([[0.0, 0, 10, 10], [0, 0, 10, 12]]), np.array([1.0, 0, 20, 10])).tolist() == [True, False]
