"""How many boxes are right: of random pictures, and of held-out boxes alone."""

from itertools import combinations
from statistics import fmean, pvariance

import numpy as np
import pytest
from lapsvm.pipelines.verdicts.right_boxes import NO_EVIDENCE, Verified, score_evidence, share_interval, verified
from lapsvm.pipelines.verdicts.verdict import Verdict
from scipy.stats import hypergeom

BOX = (10.0, 10.0, 50.0, 50.0)


def held_out(count, score=None, y=None):
    boxes = np.tile(BOX, (count, 1))
    ones = np.ones(count)
    labels = (ones if y is None else np.asarray(y)).astype(np.int8)
    score = 0 * ones if score is None else np.asarray(score, dtype=np.float64)
    return tuple(map(str, range(count))), labels, score, boxes


def reviewed(*verdicts):
    return {one.picture: one for one in verdicts}


def said(picture, verdict, *boxes, order="random"):
    return Verdict(picture, "cat", verdict, boxes, order=order)


def test_the_interval_is_wilsons_where_pictures_are_many_and_narrower_where_they_are_few():
    assert str(Verified(14, 20, 10_000)) == "14 of 20 right: 48 to 85 %"
    assert str(Verified(0, 14, 14)) == "0 of 14 right: 0 %, of all pictures"
    assert str(Verified(7, 14, 14)) == "7 of 14 right: 50 %, of all pictures"
    assert Verified(14, 20, 40).row() == pytest.approx({"right": 14, "of": 20, "low": 0.544, "high": 0.820}, abs=1e-3)


def test_pictures_that_were_looked_at_bound_the_share():
    for right, of, among in ((0, 1, 2), (0, 20, 21), (20, 20, 22), (7, 13, 15)):
        low, high = share_interval(right, of, among)
        assert right / among <= low <= high <= 1 - (of - right) / among


def test_when_all_have_been_looked_at_the_share_is_known():
    assert share_interval(7, 20, 20) == (0.35, 0.35)


@pytest.mark.parametrize("among", [30, 80, 300])
def test_the_interval_holds_the_truth_in_95_of_100_draws(among):
    """In the mean over the shares: for one share the numbers are whole, so coverage jumps."""
    counts, held = np.arange(21), []
    for right in range(1, among):
        limits = [share_interval(int(count), 20, among) if count <= right else (2.0, 2.0) for count in counts]
        holds = [low - 1e-9 <= right / among <= high + 1e-9 for low, high in limits]
        held.append(hypergeom.pmf(counts, among, right, 20)[holds].sum())
    assert 0.93 <= np.mean(held) <= 0.97


def test_boxes_count_by_their_overlap_with_true_ones():
    figure = verified(
        reviewed(
            said("0", "boxes", BOX),
            said("1", "boxes", (10.0, 10.0, 50.0, 31.0)),  # more than half
            said("2", "boxes", (10.0, 10.0, 50.0, 29.0)),  # less
            said("3", "boxes", (60.0, 60.0, 90.0, 90.0), BOX),  # one of two
            said("4", "none"),
            said("5", "absent"),
        ),
        *held_out(6),
    )
    assert (figure.right, figure.of, figure.among) == (3, 5, 5)  # the picture without the class is none of them


def test_chosen_pictures_and_those_without_a_held_out_box_never_count():
    chosen = said("0", "boxes", BOX, order="next")
    assert verified(reviewed(chosen), *held_out(2)) is None
    assert verified(reviewed(said("7", "boxes", BOX)), *held_out(2)) is None
    figure = verified(reviewed(chosen, said("1", "none")), *held_out(2))
    assert (figure.right, figure.of) == (0, 1)


def test_a_picture_that_a_person_said_is_none_leaves_the_pictures_once():
    """Also after training, which makes its label negative."""
    verdicts = reviewed(said("0", "boxes", BOX), said("1", "absent"))
    for label in (1, -1):
        assert verified(verdicts, *held_out(5, y=[1, label, 1, 1, -1])).among == 3


def slow_evidence(right, drawn, score):
    """The twin of `score_evidence`, from its definition; ranks from 1 to N, for equal scores the mean of theirs."""
    rank = [fmean(place for place, other in enumerate(sorted(score), 1) if other == own) for own in score]
    own, n = [rank[picture] for picture in drawn], len(right)
    middle, share = fmean(own), fmean(right)
    if n < 3 or pvariance(rank) == 0:
        return 0.0, 0.0
    covariance = fmean((x - middle) * (y - share) for x, y in zip(own, right, strict=True))
    of_ranks = (sum((x - middle) ** 2 for x in own) + 2 * pvariance(rank)) / n
    of_right = (sum((y - share) ** 2 for y in right) + 2 * 0.25) / n
    squared = covariance**2 / (of_ranks * of_right)
    adjusted = 1 - (1 - squared) * (n - 1) / (n - 2)
    if adjusted <= 0:
        return 0.0, 0.0
    return covariance / of_ranks * adjusted / squared * (fmean(rank) - middle), adjusted


def draw(rng, among, number, kind):
    """Return verdicts, their pictures and all scores: scores are noise, tell all, mislead or repeat."""
    score = rng.integers(0, 4, among) if kind == "repeat" else rng.normal(size=among)
    towards = {"noise": rng.normal(size=among), "tell": score, "mislead": -score, "repeat": score}[kind]
    right = towards > np.quantile(towards, rng.uniform(0.05, 0.95))
    drawn = rng.choice(among, number, replace=False)
    return right[drawn], drawn, score.astype(np.float64)


DRAWS = [
    (among, n, kind) for among, n in ((9, 3), (30, 10), (60, 20)) for kind in ("noise", "tell", "mislead", "repeat")
]


@pytest.mark.parametrize(("among", "number", "kind"), DRAWS)
def test_what_scores_say_is_that_of_the_definition(among, number, kind):
    rng = np.random.default_rng(among)
    drawn = [draw(rng, among, number, kind) for _ in range(20)]
    said = [score_evidence(*one) for one in drawn]
    np.testing.assert_allclose(said, [slow_evidence(*map(list, one)) for one in drawn], atol=1e-12)


@pytest.mark.parametrize(("among", "number", "kind"), DRAWS)
def test_with_scores_too_pictures_that_were_looked_at_bound_the_share(among, number, kind):
    rng = np.random.default_rng(number)
    for _ in range(50):
        right, drawn, score = draw(rng, among, number, kind)
        count, scores = int(right.sum()), score_evidence(right, drawn, score)
        low, high = share_interval(count, number, among, scores)
        assert count / among <= low <= high <= 1 - (number - count) / among
        assert 0 <= scores.explained < 1


def test_scores_that_tell_nothing_leave_the_interval_of_verdicts_alone():
    rng = np.random.default_rng(0)
    right, drawn = rng.random(20) < 0.7, np.arange(20)
    assert score_evidence(right, drawn, np.ones(50)) == NO_EVIDENCE  # all equal
    assert score_evidence(right[:2], drawn[:2], np.arange(50.0)) == NO_EVIDENCE  # too few verdicts
    assert score_evidence(np.ones(20, dtype=bool), drawn, rng.random(50)) == NO_EVIDENCE  # no wrong box
    assert score_evidence(np.arange(20) % 2 > 0, drawn, np.arange(50.0)) == NO_EVIDENCE  # no correlation


def test_only_the_order_of_scores_counts():
    right, drawn, score = draw(np.random.default_rng(1), 60, 20, "tell")
    assert score_evidence(right, drawn, score) == score_evidence(right, drawn, np.exp(5 * score))
    shift, explained = score_evidence(right, drawn, -score)
    assert (shift, explained) == pytest.approx(score_evidence(right, drawn, score))


def test_higher_scores_than_those_of_all_pictures_lower_the_share():
    right = np.arange(20) >= 6  # of the upper half of the pictures
    shift, explained = score_evidence(right, np.arange(20, 40), np.arange(40.0))
    assert shift < -0.1
    assert 0.3 < explained < 0.5  # half of the scores explain less than all would


def test_the_figure_takes_the_scores_of_the_pictures_that_show_the_class():
    score, y = np.arange(40.0), np.where(np.arange(40) % 4 == 3, -1, 1)
    asked = [row for row in range(0, 40, 2) if y[row] > 0 and row != 8]
    verdicts = [said(str(row), *(("boxes", BOX) if row > 15 else ("none",))) for row in asked]
    figure = verified(reviewed(*verdicts, said("8", "absent", order="next")), *held_out(40, score, y))
    shown = [row for row in range(40) if y[row] > 0 and row != 8]
    places = np.array([shown.index(row) for row in asked])
    assert figure.scores == score_evidence(np.array(asked) > 15, places, score[shown])
    low, high = share_interval(figure.right, figure.of, figure.among)
    assert figure.row()["high"] - figure.row()["low"] < 0.9 * (high - low)


def every_draw(right, score, number):
    """Return coverage, and the width in units of that of verdicts alone, over all draws of a number of pictures."""
    truth, among, held, widths = right.mean(), len(right), [], []
    for one in combinations(range(among), number):
        drawn = np.array(one)
        counts = int(right[drawn].sum()), number, among
        low, high = share_interval(*counts, score_evidence(right[drawn], drawn, score))
        alone = share_interval(*counts)
        held.append((low - 1e-9 <= truth <= high + 1e-9, alone[0] - 1e-9 <= truth <= alone[1] + 1e-9))
        widths.append((high - low, alone[1] - alone[0]))
    scored, plain = np.mean(held, axis=0)
    return scored, plain, np.divide(*np.sum(widths, axis=0))


@pytest.mark.parametrize("kind", ["noise", "tell", "mislead"])
def test_few_verdicts_of_few_pictures_hold_the_truth_in_95_of_100_of_all_draws(kind):
    rng, found = np.random.default_rng(2), []
    for share in np.arange(1, 12, 2) / 12:
        score = rng.permutation(12).astype(np.float64)
        towards = {"noise": rng.normal(size=12), "tell": score, "mislead": -score}[kind]
        found.append(every_draw(towards >= np.quantile(towards, share), score, 5))
    scored, plain, width = np.mean(found, axis=0)
    assert scored >= min(0.945, plain)
    assert width <= 1


@pytest.mark.parametrize(("weight", "widest"), [(0.0, 1.0), (1.3, 0.95), (-1.3, 0.95)])
def test_twenty_verdicts_hold_the_truth_in_95_of_100_draws_and_scores_narrow_the_interval(weight, widest):
    """In the mean over shares from .1 to .9; a weight of 1.3 is a correlation of about .6."""
    rng, held, widths = np.random.default_rng(3), [], []
    for share in np.repeat(np.arange(1, 10) / 10, 200):
        score = rng.normal(size=80)
        towards = weight * score + rng.normal(size=80)
        right = towards >= np.quantile(towards, share)
        drawn = rng.choice(80, 20, replace=False)
        counts = int(right[drawn].sum()), 20, 80
        low, high = share_interval(*counts, score_evidence(right[drawn], drawn, score))
        alone = share_interval(*counts)
        held.append(low <= right.mean() <= high)
        widths.append((high - low, alone[1] - alone[0]))
    assert np.mean(held) >= 0.94
    assert np.divide(*np.sum(widths, axis=0)) <= widest
