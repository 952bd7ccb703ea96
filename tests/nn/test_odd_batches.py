"""Large batches in parts, called with what users pass by mistake."""

import re

import pytest

torch = pytest.importorskip("torch", reason="the losses are torch modules")

from lapsvm.errors import InputError  # noqa: E402
from lapsvm.nn import RankHingeLoss, rank_hinge_loss, two_pass_backward  # noqa: E402

X = torch.arange(24.0).reshape(6, 4).sin()
LABELS = torch.tensor([1, 0, 1, 0, 0, 1])
HALVES = [(X[:3], LABELS[:3]), (X[3:], LABELS[3:])]


def linear():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 1), torch.nn.Flatten(0))


def refused(message, *arguments, error=InputError):
    with pytest.raises(error, match=re.escape(message)):
        two_pass_backward(*arguments)


def test_what_is_not_callable_is_refused():
    refused("model must be callable, got int.", 3, HALVES, RankHingeLoss())
    refused("loss must be callable, got str.", linear(), HALVES, "ap")


def test_a_loss_must_be_one_number():
    refused("loss must return one number, got shape (2,).", linear(), HALVES, lambda *_: torch.ones(2))
    with_info = lambda scores, labels: rank_hinge_loss(scores, labels, return_info=True)  # noqa: E731
    refused("loss must return one number, got tuple.", linear(), HALVES, with_info)


def test_batches_must_have_equally_many_targets():
    mask = torch.ones(3, dtype=torch.bool)
    refused("each batch must have 2 targets like the first, got 1 in batch 1.", linear(),
            [(*HALVES[0], mask), HALVES[1]], RankHingeLoss())  # fmt: skip


def test_targets_must_be_tensors():
    lists = [(part, labels.tolist()) for part, labels in HALVES]
    refused("target 0 of each batch must be a torch.Tensor, got list.", linear(), lists, RankHingeLoss())
    some = [(*HALVES[0], None), (*HALVES[1], torch.ones(3, dtype=torch.bool))]
    refused("target 1 of each batch must be a torch.Tensor, got NoneType.", linear(), some, RankHingeLoss())


def test_a_target_may_be_none_in_all_batches():
    """A mask that nobody has, before the groups."""
    groups = torch.tensor([0, 0, 1, 1, 0, 1])
    model, whole = linear(), linear()
    batches = [(*batch, None, part) for batch, part in zip(HALVES, groups.split(3), strict=True)]
    value = two_pass_backward(model, batches, RankHingeLoss())
    expected = RankHingeLoss()(whole(X), LABELS, None, groups)
    expected.backward()
    assert value == expected.detach()
    torch.testing.assert_close(model[0].weight.grad, whole[0].weight.grad)


def test_scores_must_depend_on_parameters():
    refused("model must return scores with a gradient, got none in batch 0.", lambda x: x[:, 0], HALVES,
            RankHingeLoss())  # fmt: skip
    with torch.inference_mode():
        refused("loss must return a value with a gradient, got none", linear(), HALVES, RankHingeLoss())
    refused("loss must return a value with a gradient, got none", linear(), HALVES, lambda scores, _: torch.ones(()))


def test_scores_must_be_tensors():
    refused("model must return a torch.Tensor, got list.", lambda x: x.tolist(), HALVES, RankHingeLoss())
