"""Calls of the rank losses as users make them by mistake, and inputs at the edge of what works."""

import pytest

torch = pytest.importorskip("torch", reason="the losses are torch modules")

from lapsvm.errors import InputError, NotFiniteError, ShapeError  # noqa: E402
from lapsvm.nn import DirectLoss, RankHingeLoss, RankRampLoss  # noqa: E402

SCORES = torch.tensor([[0.5, 1.0], [-0.3, 0.2], [0.9, -2.0], [0.1, 0.4]])
LABELS = torch.tensor([[1, 0], [0, 1], [0, 0], [1, 1]])


@pytest.mark.parametrize("name", ["scores", "labels", "mask", "groups"])
def test_sparse_tensors_are_refused(name):
    arguments = {
        "scores": SCORES[:, 0],
        "labels": LABELS[:, 0],
        "mask": torch.ones(4, dtype=torch.bool),
        "groups": torch.zeros(4, dtype=torch.long),
    }
    arguments[name] = arguments[name].to_sparse()
    with pytest.raises(InputError, match=f"{name} must be a dense tensor, got torch.sparse_coo"):
        RankHingeLoss()(**arguments)


@pytest.mark.parametrize("shape", [(), (3,), (4, 3), (4, 2, 2)])
def test_labels_of_another_shape_are_told_with_an_ignore_index_too(shape):
    with pytest.raises(ShapeError, match=r"labels must have shape \(4, 2\) like scores"):
        RankHingeLoss(ignore_index=0)(SCORES, torch.ones(shape, dtype=torch.long))


@pytest.mark.parametrize("bad", [10**400, 2**63, -(2**63) - 1, 1.0, True])
def test_an_ignore_index_that_no_label_has_is_refused(bad):
    with pytest.raises(InputError, match="ignore_index must be a whole number or None"):
        RankHingeLoss(ignore_index=bad)


def test_numbers_beyond_floats_are_refused():
    for make in (lambda: RankHingeLoss(scale=10**400), lambda: DirectLoss(eps=10**400)):
        with pytest.raises(InputError, match="must be a finite number greater than 0"):
            make()
    for bad in ([[1, 2], [3]], [None], "ab", [10**400]):
        with pytest.raises(InputError, match="class_weight must be numbers"):
            RankHingeLoss(class_weight=bad)


def test_labels_may_be_part_of_a_graph():
    """They are constants: torch must not warn that their gradient is unknown."""
    scores = SCORES.clone().requires_grad_()
    soft = LABELS.float().requires_grad_()
    RankRampLoss()(scores, soft).backward()
    expected = SCORES.clone().requires_grad_()
    RankRampLoss()(expected, LABELS).backward()
    assert torch.equal(scores.grad, expected.grad)
    assert soft.grad is None


def test_class_weights_may_be_part_of_a_graph():
    weights = torch.tensor([1.0, 3.0], requires_grad=True)
    scores = SCORES.clone().requires_grad_()
    RankHingeLoss(class_weight=weights)(scores, LABELS).backward()
    assert scores.grad.abs().sum() > 0
    assert weights.grad is None


def test_scale_over_eps_must_be_finite():
    with pytest.raises(InputError, match=r"scale / eps must be finite, got 1e\+10 / 1e-300"):
        DirectLoss(eps=1e-300, scale=1e10)


def test_scores_too_large_after_scaling_are_refused_without_a_warning():
    with pytest.raises(NotFiniteError, match="scores"):
        RankHingeLoss(scale=1e308)(100 * SCORES.double(), LABELS)
    with pytest.raises(NotFiniteError, match="scores"):
        RankHingeLoss(scale=1e308)(100 * SCORES[:, 0].double(), LABELS[:, 0])


@pytest.mark.parametrize("labels", [torch.tensor([1, 0, 0, 1]), torch.zeros(4, dtype=torch.long)])
def test_one_column_of_scores_needs_a_column_of_labels(labels):
    """The usual slip with a network of one output; as class indices, the labels would make every sample positive."""
    with pytest.raises(ShapeError, match=r"labels must have shape \(4, 1\) like scores, for class indices need two"):
        RankHingeLoss()(SCORES[:, :1], labels)
