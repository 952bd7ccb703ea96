"""Ramp and direct loss: values and gradients against all interleavings and the twin, their order, what is reported."""

import re
from pathlib import Path

import numpy as np
import pytest

from lapsvm.errors import InputError, OptionError
from lapsvm.ranking import (
    NDCGLoss,
    PartialAUCLoss,
    RankBiased,
    RankLoss,
    average_precision,
    predicted_ranking,
    reference,
)
from lapsvm.ranking.losses import as_loss

torch = pytest.importorskip("torch", reason="torch is not installed")

from lapsvm.nn import DirectLoss, RankHingeLoss, RankInfo, RankRampLoss, rank_hinge_loss  # noqa: E402

LOSSES = ["ap", "ndcg", "auc", "mrr", "pos_at_top"]


class Users(RankLoss):
    """A user's own loss, that of average precision."""

    def derivative(self, j, i, n_pos, n_neg):
        return -i / (n_pos * (i + j - 1.0) * (i + j))


def drawn(rng, most=5):
    n_pos, n_neg = rng.integers(1, most, 2)
    labels = rng.permutation(np.r_[np.ones(n_pos), np.zeros(n_neg)])
    scores = rng.standard_normal(n_pos + n_neg)
    if rng.random() < 0.4:
        scores = np.round(scores)
    return torch.tensor(scores, requires_grad=True), torch.tensor(labels)


def best(scores, labels, loss, weight, scale):
    """max_R scale F(R) + weight Delta(R), and F(R*), by sums over the pairs of every interleaving."""
    scores, labels = scale * scores.detach().numpy(), labels.numpy()
    positives, negatives = -np.sort(-scores[labels > 0]), -np.sort(-scores[labels <= 0])
    n_pos, n_neg = len(positives), len(negatives)
    perfect = (positives[:, None] - negatives).mean()
    found = []
    for ranks in reference.all_rankings(n_pos, n_neg):
        signs = np.where(np.arange(1, n_pos + 1)[:, None] >= np.array(ranks), -1, 1)
        delta = as_loss(loss).value(reference.negatives_above(ranks, n_pos), n_neg)
        found.append((signs * (positives[:, None] - negatives)).mean() + weight * delta)
    return max(found), perfect


@pytest.mark.parametrize("loss", [*LOSSES, NDCGLoss(RankBiased(0.7)), PartialAUCLoss(0.4), Users()], ids=repr)
def test_values_are_those_of_all_interleavings(loss):
    rng = np.random.default_rng(0)
    for eps, scale in ((1.0, 1.0), (0.1, 1.0), (2.0, 5.0)):
        for _ in range(12):
            scores, labels = drawn(rng)
            (high, perfect), (plain, _) = (best(scores, labels, loss, weight, scale) for weight in (1.0, 0.0))
            (above, _), (below, _) = (best(scores, labels, loss, weight, scale) for weight in (eps, -eps))
            given = {"loss": loss, "scale": scale}
            found = [
                (rank_hinge_loss(scores, labels, **given), high - perfect),
                (RankRampLoss(**given)(scores, labels), high - plain),
                (DirectLoss(eps=eps, **given)(scores, labels), (above - plain) / eps),
                (DirectLoss(eps=eps, direction="down", **given)(scores, labels), (plain - below) / eps),
            ]
            for value, expected in found:
                assert value.item() == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("loss", [*LOSSES, "zero_one"])
def test_the_bounds_stand_in_order(loss):
    rng = np.random.default_rng(1)
    for spread in (0.1, 1.0, 30.0):
        labels = torch.tensor(rng.random((300, 3)) < 0.1)
        labels[0], labels[1] = True, False
        scores = torch.tensor(spread * (rng.standard_normal((300, 3)) + labels.numpy()))
        hinge, info = RankHingeLoss(loss, reduction="none")(scores, labels, return_info=True)
        ramp, up, down = (
            module(scores, labels)
            for module in (
                RankRampLoss(loss, reduction="none"),
                DirectLoss(loss, 1.0, reduction="none"),
                DirectLoss(loss, 1.0, "down", reduction="none"),
            )
        )
        assert torch.equal(ramp, up)
        assert (down <= info.delta).all()
        assert (info.delta <= up).all()
        assert (up <= hinge + 1e-12).all()
        closer = DirectLoss(loss, 0.01, reduction="none")(scores, labels)
        assert (closer <= up + 1e-12).all()


@pytest.mark.parametrize("loss", [*LOSSES, "zero_one", Users()], ids=repr)
@pytest.mark.parametrize("direction", ["up", "down"])
def test_gradients_are_those_of_the_values(loss, direction):
    rng = np.random.default_rng(2)
    labels = torch.tensor(rng.random((14, 2)) < 0.4)
    labels[0], labels[1] = True, False
    scores = torch.tensor(rng.standard_normal((14, 2)), requires_grad=True)
    module = DirectLoss(loss, 0.3, direction, scale=2.0)
    assert torch.autograd.gradcheck(lambda s: module(s, labels), scores)


def test_large_problems_agree_with_the_twin():
    rng = np.random.default_rng(3)
    labels = torch.tensor(rng.random(400) < 0.1)
    scores = torch.tensor(np.round(rng.standard_normal(400), 1), requires_grad=True)
    value = DirectLoss(eps=0.05, direction="down")(scores, labels)
    (gradient,) = torch.autograd.grad(value, scores)
    scaled = scores.detach().numpy() / 0.05
    positive = np.flatnonzero(labels.numpy())
    loss = as_loss("ap")
    _, low, above = reference.predicted(scaled, positive, loss)
    _, plain, _ = reference.predicted(scaled, positive, None)
    expected = loss.value(above, 400 - len(positive)) + (low - plain) @ scaled
    assert value.item() == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(gradient, (low - plain) / 0.05, rtol=1e-12, atol=1e-15)


def test_what_is_reported_is_the_predicted_ranking():
    rng = np.random.default_rng(4)
    labels, scores = torch.tensor(rng.random((60, 3)) < 0.3), torch.tensor(rng.standard_normal((60, 3)))
    labels[:, 1] = False
    for function in (rank_hinge_loss, RankRampLoss(), DirectLoss()):
        value, info = function(scores, labels, return_info=True)
        assert isinstance(info, RankInfo)
        assert info.valid.tolist() == [True, False, True]
        assert info.delta[1].isnan()
        for k in (0, 2):
            expected = average_precision(scores[:, k], labels[:, k])
            assert info.metric[k].item() == pytest.approx(expected, rel=1e-12)
        assert info.delta[info.valid].mean() <= value
    groups = torch.arange(60) % 2
    _, info = rank_hinge_loss(scores.float(), labels, groups=groups, return_info=True)
    assert info.delta.shape == (2, 3)
    assert info.delta.dtype == torch.float32
    alone = predicted_ranking(scores[groups == 1, 2].float(), labels[groups == 1, 2])
    assert info.delta[1, 2].item() == pytest.approx(alone.loss, rel=1e-6)


def test_one_ranking_reports_scalars():
    _, info = rank_hinge_loss(torch.zeros(2), torch.tensor([0, 1]), return_info=True)
    assert [part.shape for part in info] == [()] * 3
    assert info.metric == 0.5


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"eps": 0}, InputError, "eps must be a finite number greater than 0, got 0"),
        ({"direction": "sideways"}, OptionError, "direction must be one of up, down, got 'sideways'"),
        ({"scale": -1.0}, InputError, "scale must be a finite number greater than 0, got -1.0"),
    ],
)
def test_bad_options_are_refused(options, error, sentence):
    with pytest.raises(error, match=re.escape(sentence)):
        DirectLoss(**options)


def test_the_figures_of_a_loose_hinge_are_those_of_the_page():
    scores = torch.from_numpy(495 * np.random.default_rng(0).standard_normal(10_000))
    labels = torch.arange(10_000) < 100
    value, info = RankHingeLoss()(scores, labels, return_info=True)
    page = " ".join((Path(__file__).parents[2] / "docs" / "explanation" / "rank_losses.md").read_text().split())
    assert f"{info.delta.item():.3f} {RankRampLoss()(scores, labels).item():.3f}" == "0.989 0.989"
    assert f"Delta and ramp are .989 and the hinge is {value.item():.0f}." in page
