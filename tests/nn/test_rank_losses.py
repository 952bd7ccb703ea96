"""Rank losses as torch modules: value and gradient against inference itself, targets of every form, what is refused."""

import copy
import pickle
import re

import numpy as np
import pytest

from lapsvm.errors import InputError, LapsvmError, NotFiniteError, OneClassError, OptionError, ShapeError
from lapsvm.ranking import NDCGLoss, RankBiased, RankLoss, most_violated_ranking

torch = pytest.importorskip("torch", reason="torch is not installed")

from lapsvm.nn import DirectLoss, RankHingeLoss, rank_hinge_loss  # noqa: E402

LOSSES = ["ap", "ndcg", "auc", "mrr", "pos_at_top", "zero_one"]


class Users(RankLoss):
    """A user's own loss: the AUC loss with a derivative of its own."""

    def derivative(self, j, i, n_pos, n_neg):
        return -1.0 / (n_pos * n_neg)


def drawn(seed, shape, ties=False, share=0.3):
    """Scores as a float64 tensor, and labels with both kinds in every column."""
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal(shape)
    if ties:
        scores = np.round(scores)
    labels = rng.random(shape) < share
    labels[:2] = np.array([True, False]).reshape((2,) + (1,) * (len(np.shape(labels)) - 1))
    return torch.tensor(scores, requires_grad=True), torch.tensor(labels)


def solved(scores, labels, loss="ap", scale=1.0):
    """Value and gradient by the kernel on one ranking."""
    found = most_violated_ranking(scale * np.asarray(scores, np.float64), np.asarray(labels), loss)
    return found.violation, -scale * found.coefficients


def graded(value, scores):
    (gradient,) = torch.autograd.grad(value, scores)
    return gradient.numpy()


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("loss", [*LOSSES, NDCGLoss(RankBiased(0.9)), Users()], ids=repr)
def test_one_ranking_is_the_kernels(loss, ties):
    scores, labels = drawn(0, 40, ties)
    value = RankHingeLoss(loss, scale=3.0)(scores, labels)
    expected, gradient = solved(scores.detach(), labels, loss, 3.0)
    assert value.shape == ()
    assert value.item() == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(graded(value, scores), gradient, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_non_finite_scores_are_refused_in_an_empty_column_too(value):
    scores, labels = torch.ones(3, 2), torch.tensor([[1, 0], [0, 0], [1, 0]])
    scores[1, 1] = value
    with pytest.raises(NotFiniteError, match="scores of column 1 must be finite, got"):
        RankHingeLoss()(scores, labels)
    with pytest.raises(NotFiniteError, match="must be finite, got"):
        RankHingeLoss()(scores[:, 1], labels[:, 1])


def test_columns_are_rankings_of_their_own():
    scores, labels = drawn(1, (30, 4))
    values = RankHingeLoss(reduction="none")(scores, labels)
    assert values.shape == (4,)
    for k in range(4):
        expected, gradient = solved(scores[:, k].detach(), labels[:, k])
        assert values[k].item() == pytest.approx(expected, rel=1e-12)
        (found,) = torch.autograd.grad(values[k], scores, retain_graph=True)
        np.testing.assert_allclose(found[:, k], gradient, atol=1e-15)
        assert not found[:, [c for c in range(4) if c != k]].any()
    assert rank_hinge_loss(scores, labels).item() == pytest.approx(values.mean().item(), rel=1e-12)
    assert rank_hinge_loss(scores, labels, reduction="sum").item() == pytest.approx(values.sum().item(), rel=1e-12)


def test_the_gradient_of_each_reduction():
    scores, labels = drawn(2, (25, 3))
    values = rank_hinge_loss(scores, labels, reduction="none")
    for reduction, whole in (("mean", values.mean()), ("sum", values.sum())):
        direct = graded(rank_hinge_loss(scores, labels, reduction=reduction), scores)
        (expected,) = torch.autograd.grad(whole, scores, retain_graph=True)
        np.testing.assert_allclose(direct, expected, rtol=1e-12, atol=1e-16)


def test_class_indices_are_one_against_the_others():
    scores, _ = drawn(3, (20, 3))
    classes = torch.arange(20) % 3
    one_hot = torch.nn.functional.one_hot(classes, 3)
    assert rank_hinge_loss(scores, classes).item() == rank_hinge_loss(scores, one_hot).item()


@pytest.mark.parametrize("form", ["mask", "mask per row", "ignore_index"])
def test_samples_left_out_count_nowhere(form):
    scores, labels = drawn(4, (20, 3))
    labels, kept = labels.int(), torch.ones(20, 3, dtype=torch.bool)
    kept[5:9] = False
    if form != "mask per row":
        kept[12, 1] = False
    spoilt = scores.detach().masked_fill(~kept, float("nan")).requires_grad_()
    if form == "ignore_index":
        value = rank_hinge_loss(spoilt, labels.masked_fill(~kept, -100), ignore_index=-100, reduction="none")
    else:
        value = rank_hinge_loss(spoilt, labels, kept[:, 0] if form == "mask per row" else kept, reduction="none")
    for k in range(3):
        rows = kept[:, k]
        assert value[k].item() == pytest.approx(solved(scores[rows, k].detach(), labels[rows, k])[0], rel=1e-12)
    gradient = graded(value.sum(), spoilt)
    assert np.isfinite(gradient).all()
    assert not gradient[~kept.numpy()].any()
    assert gradient[kept.numpy()].any()


def test_ignored_class_indices():
    scores, _ = drawn(5, (12, 3))
    classes = torch.arange(12) % 3
    spoilt = classes.clone()
    spoilt[4:6] = -1
    kept = spoilt >= 0
    assert rank_hinge_loss(scores, spoilt, ignore_index=-1).item() == pytest.approx(
        rank_hinge_loss(scores[kept], classes[kept]).item(), rel=1e-12
    )


def test_groups_are_rankings_of_their_own():
    scores, labels = drawn(6, (24, 2))
    labels[:6] = torch.tensor([[1, 0], [0, 1], [1, 0], [0, 1], [1, 0], [0, 1]]).bool()
    groups = torch.tensor([7, 7, -3, -3, 40, 40] + [7, -3, 40] * 6)
    values = rank_hinge_loss(scores, labels, groups=groups, reduction="none")
    assert values.shape == (3, 2)
    for row, group in enumerate([-3, 7, 40]):
        inside = groups == group
        for k in range(2):
            expected, gradient = solved(scores[inside, k].detach(), labels[inside, k])
            assert values[row, k].item() == pytest.approx(expected, rel=1e-12)
            (found,) = torch.autograd.grad(values[row, k], scores, retain_graph=True)
            np.testing.assert_allclose(found[inside, k], gradient, atol=1e-15)
    assert rank_hinge_loss(scores, labels, groups=groups).item() == pytest.approx(values.mean().item(), rel=1e-12)
    flat = rank_hinge_loss(scores[:, 0], labels[:, 0], groups=groups, reduction="none")
    np.testing.assert_allclose(flat.detach(), values[:, 0].detach(), rtol=1e-12)


def test_rankings_without_both_kinds_are_left_out():
    scores, labels = drawn(7, (15, 3))
    labels[:, 1] = False
    values = rank_hinge_loss(scores, labels, reduction="none")
    assert values[1] == 0
    assert rank_hinge_loss(scores, labels).item() == pytest.approx((values[0] + values[2]).item() / 2, rel=1e-12)
    assert not graded(rank_hinge_loss(scores, labels), scores)[:, 1].any()
    with pytest.raises(OneClassError, match=re.escape("ranking of column 1 must hold at least one positive")):
        rank_hinge_loss(scores, labels, on_empty="raise")


@pytest.mark.parametrize("shape", [(5,), (5, 2), (0,), (0, 3), (4, 0)])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_nothing_to_rank_is_a_zero_with_a_graph(shape, reduction):
    scores = torch.zeros(shape, requires_grad=True)
    value = rank_hinge_loss(scores, torch.zeros(shape), reduction=reduction)
    value.sum().backward()
    assert not value.detach().any()
    assert not scores.grad.any()


def test_class_weights_weigh_the_mean_and_the_sum():
    scores, labels = drawn(8, (30, 3))
    labels[:, 2] = True
    weight = [1.0, 3.0, 5.0]
    values = rank_hinge_loss(scores, labels, reduction="none").detach()
    loss = RankHingeLoss(class_weight=weight)
    assert loss(scores, labels).item() == pytest.approx((values[0] + 3 * values[1]).item() / 4, rel=1e-12)
    assert "class_weight" in loss.state_dict()
    total = rank_hinge_loss(scores, labels, reduction="sum", class_weight=torch.tensor(weight))
    assert total.item() == pytest.approx((values[0] + 3 * values[1]).item(), rel=1e-12)
    (first,) = torch.autograd.grad(total, scores)
    (plain,) = torch.autograd.grad(rank_hinge_loss(scores, labels, reduction="sum"), scores)
    np.testing.assert_allclose(first, plain * torch.tensor(weight), rtol=1e-12)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_computed_in_float64_and_given_back_in_the_type_that_came(kind):
    scores, labels = drawn(9, 50)
    narrow = scores.detach().to(kind).requires_grad_()
    value = rank_hinge_loss(narrow, labels)
    expected, gradient = solved(narrow.detach().double(), labels)
    assert value.dtype == (kind if kind.itemsize >= 4 else torch.float32)
    assert value.item() == pytest.approx(expected, rel=2e-7 if kind != torch.float64 else 1e-12)
    value.backward()
    assert narrow.grad.dtype == kind
    np.testing.assert_allclose(narrow.grad.double(), gradient, rtol=torch.finfo(kind).eps, atol=1e-7)


def test_autocast_changes_nothing():
    scores, labels = drawn(10, (20, 2))
    plain = rank_hinge_loss(scores.float(), labels, reduction="none")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = rank_hinge_loss(scores.float(), labels, reduction="none")
    assert torch.equal(plain, cast)
    assert cast.dtype == torch.float32


def test_the_upstream_gradient_is_used():
    scores, labels = drawn(11, 30)
    once = graded(rank_hinge_loss(scores, labels), scores)
    np.testing.assert_allclose(graded(5 * rank_hinge_loss(scores, labels), scores), 5 * once, rtol=1e-12)


@pytest.mark.parametrize("soft", [0.5, -0.5, 2.0])
def test_soft_labels_are_refused_where_they_count(soft):
    scores, labels = torch.zeros(4), torch.tensor([1.0, 0.0, 0.0, soft])
    with pytest.raises(InputError, match="labels must be binary"):
        RankHingeLoss()(scores, labels)
    counted = labels == labels.round().clamp(-1, 1)
    value = RankHingeLoss()(scores[:3], labels[:3])
    assert RankHingeLoss()(scores, labels, counted) == value
    if soft == 2:
        assert RankHingeLoss(ignore_index=2)(scores, labels) == value


def test_modules_travel():
    scores, labels = drawn(12, 30)
    for loss in ("ap", NDCGLoss(RankBiased(0.9))):
        module = RankHingeLoss(loss, scale=2.0)
        for travelled in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):  # noqa: S301
            assert torch.equal(travelled(scores, labels), module(scores, labels))
    assert (
        repr(RankHingeLoss("auc", scale=2.0))
        == "RankHingeLoss(loss=AUCLoss(), bound='hinge', scale=2, reduction='mean')"
    )
    assert (
        repr(DirectLoss("ap", 0.1, "down", scale=3.0))
        == "DirectLoss(loss=APLoss(), bound='down', eps=0.1, scale=3, reduction='mean')"
    )


def test_the_scores_are_not_changed():
    scores, labels = drawn(13, (9, 2))
    before = scores.detach().clone()
    rank_hinge_loss(scores, labels, scale=7.0).backward()
    assert torch.equal(before, scores.detach())


ONES = torch.ones(4, 2)
REFUSED = [
    ({"loss": "map"}, {}, OptionError, "loss must be one of ap,"),
    ({"scale": 0.0}, {}, InputError, "scale must be a finite number greater than 0, got 0.0"),
    ({"scale": float("nan")}, {}, InputError, "scale must be a finite number greater than 0, got nan"),
    ({"reduction": "max"}, {}, OptionError, "reduction must be one of mean, sum, none, got 'max'"),
    ({"on_empty": "drop"}, {}, OptionError, "on_empty must be one of skip, raise, got 'drop'"),
    ({"ignore_index": 1.5}, {}, InputError, "ignore_index must be a whole number or None, got 1.5"),
    ({"gather": 1}, {}, InputError, "gather must be True or False, got 1"),
    ({"class_weight": [1.0, -1.0]}, {}, InputError, "class_weight must be finite and 0 or more, got -1"),
    (
        {"class_weight": [1.0, 1.0, 1.0]},
        {},
        ShapeError,
        "one entry per column of scores, got shape (3,) for scores of shape (4, 2)",
    ),
    ({}, {"scores": [1.0, 2.0]}, InputError, "scores must be a torch.Tensor, got list"),
    ({}, {"labels": [1, 0]}, InputError, "labels must be a torch.Tensor, got list"),
    ({}, {"scores": ONES.int()}, InputError, "scores must be floating-point numbers, got torch.int32"),
    ({}, {"scores": ONES[None]}, ShapeError, "scores must have shape (n,) or (B, K), got (1, 4, 2)"),
    ({}, {"labels": ONES[:3]}, ShapeError, "labels must have shape (4, 2) like scores, or (4,) of class"),
    ({}, {"labels": ONES[:, 0]}, InputError, "labels of shape (4,) must be whole class indices, got torch.float32"),
    ({}, {"labels": torch.tensor([0, 1, 2, 1])}, InputError, "labels must be class indices 0 to 1, got 2"),
    ({}, {"labels": ONES * 0.5}, InputError, "labels must be binary, 0 or 1, or -1 and 1, got 0.5"),
    ({}, {"labels": ONES.int() * 2}, InputError, "labels must be binary, 0 or 1, or -1 and 1, got 2"),
    ({}, {"labels": ONES * float("nan")}, NotFiniteError, "labels must not be NaN"),
    ({}, {"scores": ONES / 0}, NotFiniteError, "scores of column 0 must be finite, got inf at index 0"),
    ({}, {"mask": ONES}, InputError, "mask must be boolean, got torch.float32"),
    ({}, {"mask": ONES[:3] > 0}, ShapeError, "mask must have shape (4, 2) like scores, or (4,), got (3, 2)"),
    ({}, {"groups": torch.zeros(4)}, InputError, "groups must be whole numbers, got torch.float32"),
    ({}, {"groups": torch.zeros(3).int()}, ShapeError, "groups must have shape (4,), got (3,)"),
    ({}, {"sample_weight": ONES}, InputError, "sample_weight is not supported, because inference is exact only"),
]


@pytest.mark.parametrize(("options", "given", "error", "sentence"), REFUSED, ids=[row[3] for row in REFUSED])
def test_bad_input_is_refused_in_one_sentence(options, given, error, sentence):
    labels = torch.tensor([[1, 0], [0, 1], [1, 1], [0, 0]])
    with pytest.raises(error, match=re.escape(sentence)) as refused:
        RankHingeLoss(**options)(**{"scores": torch.zeros(4, 2), "labels": labels, **given})
    assert isinstance(refused.value, LapsvmError)
    assert "\n" not in str(refused.value)
