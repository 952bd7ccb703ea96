"""A law: padding that a mask or an ignored label marks changes neither value nor gradient."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from lapsvm.nn import DirectLoss, RankHingeLoss, RankRampLoss, rank_hinge_loss  # noqa: E402

LOSSES = ["ap", "ndcg", "auc", "mrr", "pos_at_top", "zero_one"]
BOUNDS = [RankHingeLoss, RankRampLoss, DirectLoss]
FILLINGS = [0.0, 1e30, float("nan"), float("-inf"), float("inf")]
IGNORED = -100


def lists(rng, n_queries=5):
    """Scores and labels of queries with up to 9 documents; the last query has no positive."""
    lengths = rng.integers(2, 10, n_queries)
    scores = [rng.normal(size=length) for length in lengths]
    labels = [rng.random(length) < 0.5 for length in lengths]
    for one in labels[:-1]:
        one[:2] = [True, False]
    labels[-1][:] = False
    return scores, labels


def padded(parts, length, places, filling):
    """The parts as columns (length, n) of one tensor, at their places; elsewhere the filling."""
    table = np.full((length, len(parts)), filling, dtype=np.result_type(*parts, type(filling)))
    for column, (part, rows) in enumerate(zip(parts, places, strict=True)):
        table[rows, column] = part
    return torch.tensor(table)


def value_and_gradient(module, scores, *call):
    scores.requires_grad_()
    value = module(scores, *call)
    (gradient,) = torch.autograd.grad(value.sum(), scores)
    return value.detach().numpy(), gradient.numpy()


@pytest.mark.parametrize("form", ["mask", "ignore_index"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("loss", LOSSES)
def test_padding_changes_neither_value_nor_gradient(loss, bound, reduction, form):
    rng = np.random.default_rng(LOSSES.index(loss))
    scores, labels = lists(rng)
    weight = rng.random(len(scores))
    each = [
        value_and_gradient(bound(loss, reduction="sum"), torch.tensor(s), torch.tensor(y))
        for s, y in zip(scores, labels, strict=True)
    ]
    valid = np.array([0 < y.sum() < len(y) for y in labels])
    factors = {"none": valid * 1.0, "sum": weight * valid, "mean": weight * valid / (weight * valid).sum()}[reduction]
    expected = np.array([value for value, _ in each]) * factors
    for filling in FILLINGS:
        length = 9 + int(rng.integers(1, 6))
        places = [np.sort(rng.permutation(length)[: len(one)]) for one in scores]
        mask = padded([np.ones(len(one), dtype=bool) for one in scores], length, places, False)
        filled = padded([one.astype(np.int64) for one in labels], length, places, IGNORED)
        masked = torch.where(mask, filled == 1, bool(rng.integers(2)))  # padding may look like a positive
        call, ignored = ((filled,), IGNORED) if form == "ignore_index" else ((masked, mask), None)
        weights = None if reduction == "none" else weight
        module = bound(loss, reduction=reduction, ignore_index=ignored, class_weight=weights)
        value, gradient = value_and_gradient(module, padded(scores, length, places, filling), *call)
        np.testing.assert_allclose(value, expected if reduction == "none" else expected.sum(), rtol=1e-12, atol=1e-15)
        assert not gradient[~mask.numpy()].any()
        for column, (_, own) in enumerate(each):
            np.testing.assert_allclose(gradient[places[column], column], own * factors[column], rtol=1e-9, atol=1e-15)


def test_a_column_of_padding_alone_counts_nowhere():
    rng = np.random.default_rng(7)
    scores, labels = torch.tensor(rng.normal(size=(6, 2))), torch.tensor([[1, 0], [0, 1]] * 3)
    nothing = torch.full((6, 3), float("nan"), dtype=torch.float64)
    mask = torch.tensor([[True, True, False, False, False]] * 6)
    alone = rank_hinge_loss(scores, labels)
    together = rank_hinge_loss(torch.hstack([scores, nothing]), torch.hstack([labels, labels, labels[:, :1]]), mask)
    assert together.item() == alone.item()


def test_weights_of_queries_in_groups_are_those_of_their_values():
    rng = np.random.default_rng(8)
    scores, labels = lists(rng)
    groups = torch.tensor(np.repeat(np.arange(len(scores)), [len(one) for one in scores]))
    values, info = rank_hinge_loss(
        torch.tensor(np.concatenate(scores)), torch.tensor(np.concatenate(labels)), groups=groups, reduction="none",
        return_info=True,
    )  # fmt: skip
    weight = torch.tensor(rng.random(len(scores)))
    places = [np.arange(len(one)) for one in scores]
    table = [padded(part, 9, places, filling) for part, filling in ((scores, 0.0), (labels, False))]
    mask = padded([np.ones(len(one), dtype=bool) for one in scores], 9, places, False)
    mean = rank_hinge_loss(*table, mask, class_weight=weight)
    assert mean.item() == pytest.approx(((values * weight).sum() / weight[info.valid].sum()).item(), rel=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("filling", FILLINGS)
@pytest.mark.parametrize("bound", BOUNDS)
def test_padding_inside_groups_changes_nothing(bound, filling, dtype):
    rng = np.random.default_rng(9)
    scores, labels = lists(rng)
    groups = np.repeat(np.arange(len(scores)), [len(one) for one in scores])
    flat, targets = torch.tensor(np.concatenate(scores), dtype=dtype), torch.tensor(np.concatenate(labels))
    expected = value_and_gradient(bound(), flat, targets, None, torch.tensor(groups))
    length, own = len(flat) + 7, np.sort(rng.permutation(len(flat) + 7)[: len(flat)])
    mask = torch.zeros(length, dtype=torch.bool)
    mask[own] = True
    wide, all_labels = torch.full((length,), filling, dtype=dtype), torch.ones(length, dtype=torch.bool)
    wide[own], all_labels[own] = flat.detach(), targets
    all_groups = torch.tensor(rng.integers(0, len(scores), length))
    all_groups[own] = torch.tensor(groups)
    value, gradient = value_and_gradient(bound(), wide, all_labels, mask, all_groups)
    assert value == expected[0]
    np.testing.assert_array_equal(gradient[own], expected[1])
    assert not gradient[~mask.numpy()].any()
