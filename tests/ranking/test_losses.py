"""Rank losses and discounts: the papers' examples, the derivatives, and what is refused."""

import numpy as np
import pytest

from lapsvm.errors import InputError, OptionError
from lapsvm.ranking import APLoss, AUCLoss, MRRLoss, NDCGLoss, PartialAUCLoss, PosAtTopLoss, RankBiased
from lapsvm.ranking.losses import RankLoss, as_loss
from lapsvm.ranking.reference import all_rankings, negatives_above

# the CVPR paper's example, order + + - + - + - -: negatives above its positives
EXAMPLE = np.array([0, 0, 1, 2])
PARTIAL = [PartialAUCLoss(0.3), PartialAUCLoss(0.6), PartialAUCLoss(1)]
NAMED = [APLoss(), NDCGLoss(), AUCLoss(), MRRLoss(), PosAtTopLoss()]
LOSSES = [*NAMED, NDCGLoss("reciprocal"), NDCGLoss(k=4), *PARTIAL]


def chakrabarti(ranks):
    return np.where(ranks <= 2, 1.0, 1 / np.log2(np.maximum(ranks, 2)))


def test_the_papers_example_has_the_papers_losses():
    log2 = np.log2
    gained, possible = 1 + 1 / log2(3) + 1 / log2(5) + 1 / log2(7), 1 + 1 / log2(3) + 1 / log2(4) + 1 / log2(5)
    assert APLoss().value(EXAMPLE, 4) == pytest.approx(1 - (1 / 1 + 2 / 2 + 3 / 4 + 4 / 6) / 4)
    assert NDCGLoss().value(EXAMPLE, 4) == pytest.approx(1 - gained / possible)
    assert AUCLoss().value(EXAMPLE, 4) == 3 / 16
    assert MRRLoss().value(EXAMPLE, 4) == 0
    assert PosAtTopLoss().value(EXAMPLE, 4) == 2 / 4
    assert PartialAUCLoss(0.5).value(EXAMPLE, 4) == (1 / 2 + 2 / 2) / 4
    assert PartialAUCLoss(0.375).value(EXAMPLE, 4) == pytest.approx(
        (1 / 1.5 + 1.5 / 1.5) / 4
    )  # one negative and a half


def test_the_partial_area_lies_between_the_top_and_all_negatives():
    for n_pos, n_neg in ((1, 3), (3, 1), (3, 4)):
        for ranks in all_rankings(n_pos, n_neg):
            above = negatives_above(ranks, n_pos)
            found = {share: PartialAUCLoss(share).value(above, n_neg) for share in (0.01, 1 / n_neg, 0.5, 0.75, 1)}
            assert found[0.01] == found[1 / n_neg] == PosAtTopLoss().value(above, n_neg)
            assert found[1] == pytest.approx(AUCLoss().value(above, n_neg), abs=1e-15)
            for share, value in found.items():
                missed = np.mean(above >= max(1, share * n_neg))
                assert missed - 1e-15 <= value <= PosAtTopLoss().value(above, n_neg) + 1e-15


@pytest.mark.parametrize("max_fpr", [0, -0.1, 1.1, float("nan"), float("inf"), "all"])
def test_a_budget_of_false_alarms_is_a_share(max_fpr):
    with pytest.raises(InputError, match=r"max_fpr must be (above 0 and at most 1|a number), got "):
        PartialAUCLoss(max_fpr)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_a_loss_is_the_sum_of_its_derivatives(loss):
    for n_pos, n_neg in ((1, 3), (3, 1), (3, 4)):
        for ranks in all_rankings(n_pos, n_neg):
            above = negatives_above(ranks, n_pos)
            assert loss.value(above, n_neg) == pytest.approx(RankLoss.value(loss, above, n_neg), abs=1e-15)


def test_a_loss_is_represented_without_addresses():
    assert repr(NDCGLoss()) == "NDCGLoss(log_discount)"
    assert repr(NDCGLoss("reciprocal", k=4)) == "NDCGLoss(CutOff(reciprocal_discount, k=4))"
    assert repr(PartialAUCLoss(0.05)) == "PartialAUCLoss(0.05)"
    assert repr(NDCGLoss(RankBiased(0.5))) == "NDCGLoss(RankBiased(0.5))"


def test_a_zeroed_cut_off_is_refused_and_a_shifted_one_is_not():
    with pytest.raises(InputError, match=r"convex, but D\(5\) - 2 D\(6\) \+ D\(7\) = -\S+ < 0 at index 6"):
        NDCGLoss(lambda ranks: np.where(ranks <= 6, 1 / np.log2(1 + ranks), 0.0))
    log = 1 / np.log2(1 + np.arange(1.0, 8.0))
    assert NDCGLoss(k=6).discount(np.arange(1, 9)) == pytest.approx(np.append(log[:6] - log[6], [0, 0]))


@pytest.mark.parametrize(
    ("discount", "sentence"),
    [
        ([1.0, 0.5, 0.6], r"non-increasing, got D\(3\) = 0.6 above D\(2\) = 0.5"),
        (chakrabarti, r"convex, but D\(1\) - 2 D\(2\) \+ D\(3\) = -0\.369\d* < 0 at index 2"),
        ([1.0, 0.9], r"convex, but D\(1\) - 2 D\(2\) \+ D\(3\) = -0.8 < 0 at index 2"),
        ([0.0, 0.0], r"greater than 0 at rank 1, got D\(1\) = 0"),
        ([1.0, np.inf], "discount must be finite, got inf at index 1"),
        (lambda ranks: 1.0, r"one value per rank, got shape \(\)"),
        (lambda ranks: np.where(ranks == 3, np.nan, 1.0), r"finite, got D\(3\) = nan"),
    ],
)
def test_a_discount_that_is_none_is_refused(discount, sentence):
    with pytest.raises(InputError, match=sentence):
        NDCGLoss(discount)


def test_a_discount_that_bends_far_away_is_refused_when_a_ranking_gets_there():
    loss = NDCGLoss(lambda ranks: np.where(ranks <= 2000, 1 / np.minimum(ranks, 2000), 0.0))
    loss.kernel(10, 500)
    with pytest.raises(InputError, match="at index 2000"):
        loss.kernel(10, 5000)


def test_discount_options_are_checked():
    with pytest.raises(
        OptionError, match="discount must be one of log, reciprocal, an array or a callable, got 'cosine'"
    ):
        NDCGLoss("cosine")
    with pytest.raises(InputError, match="k must be a whole number greater than 0, got 0"):
        NDCGLoss(k=0)
    with pytest.raises(InputError, match=r"p of a rank-biased discount must be .* got 1\.5"):
        RankBiased(1.5)
    with pytest.raises(InputError, match="greater than 0 at rank 1"):
        NDCGLoss(np.ones_like, k=2)


def test_a_class_is_not_a_loss():
    with pytest.raises(OptionError, match=r"loss must be one of ap, ndcg, auc, .*, zero_one, or a RankLoss"):
        as_loss(APLoss)
