"""Losses of batches that do not fit at once: two passes, the memory of scores, gathering over processes."""

import itertools
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lapsvm.errors import InputError

torch = pytest.importorskip("torch", reason="torch is not installed")

from lapsvm.nn import (  # noqa: E402
    RankHingeLoss,
    functional,
    rank_hinge_loss,
    two_pass_backward,
)

from .large_batches import chunked, data, gradients, network  # noqa: E402

SCRIPT = Path(__file__).with_name("large_batches.py")


def test_two_passes_are_one():
    inputs, labels = data()
    model, loss = network(), RankHingeLoss(scale=5.0)
    whole = loss(model(inputs), labels)
    whole.backward()
    expected = gradients(model)
    model.zero_grad()
    value = two_pass_backward(model, chunked(inputs, labels), loss)
    assert value.item() == pytest.approx(whole.item(), rel=1e-12)
    assert not value.requires_grad
    assert torch.allclose(gradients(model), expected, rtol=1e-12, atol=1e-15)
    two_pass_backward(model, chunked(inputs, labels), loss)
    assert torch.allclose(gradients(model), 2 * expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(("shuffled", "what"), [("both", "scores"), ("labels", "labels")])
def test_a_second_pass_in_another_order_is_refused_however_alike_scores_are(shuffled, what):
    inputs, labels = data()
    model = torch.nn.Linear(6, 3).double()
    with torch.no_grad():
        model.weight.mul_(1e-3)
        model.bias.fill_(3.0)
    backwards = chunked(inputs if shuffled == "labels" else inputs.flip(0), labels.flip(0))
    orders = itertools.cycle([chunked(inputs, labels), backwards])

    class Shuffled:
        def __iter__(self):
            return iter(next(orders))

    state = torch.get_rng_state()
    with pytest.raises(InputError, match=f"batches must be the same in both passes, got other {what} in batch 0"):
        two_pass_backward(model, Shuffled(), RankHingeLoss())
    assert torch.equal(torch.get_rng_state(), state)


def test_two_passes_take_masks_and_groups_and_any_loss():
    inputs, labels = data()
    model, mask, groups = network(), torch.arange(50) % 7 > 0, torch.arange(50) % 2
    for targets in ((labels, mask), (labels, mask, groups)):
        model.zero_grad()
        rank_hinge_loss(model(inputs), *targets, loss="auc").backward()
        expected = gradients(model)
        model.zero_grad()
        two_pass_backward(
            model, chunked(inputs, *targets), lambda scores, *rest: rank_hinge_loss(scores, *rest, loss="auc")
        )
        assert torch.allclose(gradients(model), expected, rtol=1e-12, atol=1e-15)


def test_two_passes_replay_the_randomness():
    inputs, labels = data()
    model, loss = network(dropout=0.5), RankHingeLoss()
    torch.manual_seed(3)
    value = two_pass_backward(model, chunked(inputs, labels), loss)
    after, found = torch.rand(1), gradients(model)
    model.zero_grad()
    torch.manual_seed(3)
    whole = loss(torch.cat([model(part) for part in inputs.split(16)]), labels)
    whole.backward()
    assert value.item() == pytest.approx(whole.item(), rel=1e-12)
    assert torch.allclose(found, gradients(model), rtol=1e-12, atol=1e-15)
    assert torch.equal(after, torch.rand(1))


def test_accumulated_gradients_are_not_those_of_the_whole():
    """The difference that two passes are for."""
    inputs, labels = data()
    model, loss = network(), RankHingeLoss()
    for part, target in chunked(inputs, labels):
        (loss(model(part), target) / 4).backward()
    accumulated = gradients(model)
    model.zero_grad()
    two_pass_backward(model, chunked(inputs, labels), loss)
    assert not torch.allclose(accumulated, gradients(model), rtol=0.01)


def test_passes_that_differ_are_refused():
    inputs, labels = data()
    batches, model = chunked(inputs, labels), network()
    orders = itertools.count()

    class Shuffled:
        def __iter__(self):
            return iter(batches[:: (-1) ** next(orders)])

    with pytest.raises(InputError, match="batches must be the same in both passes, got other scores in batch 0"):
        two_pass_backward(model, Shuffled(), RankHingeLoss())

    class Shrinking:
        def __iter__(self):
            return iter(batches[next(orders) :])

    orders = itertools.count()
    with pytest.raises(InputError, match="batches must be the same in both passes, got"):
        two_pass_backward(model, Shrinking(), RankHingeLoss())


def test_what_two_passes_cannot_do_is_refused():
    inputs, labels = data(8)
    with pytest.raises(InputError, match="batches must be iterable twice, as a list is, got generator"):
        two_pass_backward(network(), (batch for batch in chunked(inputs, labels)), RankHingeLoss())
    with pytest.raises(InputError, match="batches must hold at least one batch, got none"):
        two_pass_backward(network(), [], RankHingeLoss())
    with pytest.raises(
        InputError, match="each batch must be a tuple of inputs, labels and further targets, got Tensor"
    ):
        two_pass_backward(network(), [inputs], RankHingeLoss())
    normalised = torch.nn.Sequential(torch.nn.BatchNorm1d(6), network())
    with pytest.raises(
        InputError, match=re.escape("batch normalisation must be frozen (.eval()), got '0' in training")
    ):
        two_pass_backward(normalised.double(), chunked(inputs, labels), RankHingeLoss())
    normalised[0].eval()
    two_pass_backward(normalised.double(), chunked(inputs, labels), RankHingeLoss())


def test_one_process_gathers_nothing():
    inputs, labels = data()
    model = network()
    assert torch.equal(rank_hinge_loss(model(inputs), labels, gather=True), rank_hinge_loss(model(inputs), labels))


@pytest.mark.slow
@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch has no torch.distributed")
def test_two_processes_learn_what_one_does(tmp_path):
    started = [subprocess.Popen([sys.executable, "-P", SCRIPT, str(rank), tmp_path]) for rank in range(2)]
    assert [process.wait() for process in started] == [0, 0]
    (inputs, labels), groups, mask = data(), torch.arange(50) % 2, torch.arange(50) % 5 > 0
    model = network()
    expected = rank_hinge_loss(model(inputs), labels, mask, groups, scale=3.0)
    expected.backward()
    each = rank_hinge_loss(model(inputs), labels, mask, groups, reduction="none").detach()
    for rank in range(2):
        one_pass, two_passes, *values, parts = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        for value in values:
            assert value.item() == pytest.approx(expected.item(), rel=1e-12)
        for found in (one_pass, two_passes):
            assert torch.allclose(found, gradients(model), rtol=1e-6, atol=1e-9)
        assert torch.allclose(parts, each, rtol=1e-12)


def test_rows_of_all_processes_are_joined(monkeypatch):
    """Processes with two and three rows, played by one."""
    rows = [torch.arange(4.0).reshape(2, 2), torch.arange(6.0).reshape(3, 2)]

    def all_gather(received, sent):
        parts = rows if sent.ndim == 2 else [torch.tensor([2]), torch.tensor([3])]
        for out, part in zip(received, parts, strict=True):
            out[: len(part)] = part.to(out.dtype)

    monkeypatch.setattr(functional.dist, "is_initialized", lambda: True)
    monkeypatch.setattr(functional.dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(functional.dist, "get_rank", lambda: 1)
    monkeypatch.setattr(functional.dist, "all_gather", all_gather)
    (joined, flags, missing), first, n = functional.gather_batches([rows[1], rows[1] > 0, None])
    assert torch.equal(joined, torch.cat(rows))
    assert torch.equal(flags, torch.cat(rows) > 0)
    assert missing is None
    assert (first, n) == (2, 2)
