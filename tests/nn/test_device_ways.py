"""Rankings on the device of their tensors: the values and gradients of the processor's kernels, in every way to solve.

Triton's kernels run on a GPU, or with TRITON_INTERPRET=1 anywhere.
"""

import os
from importlib.util import find_spec

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode  # noqa: E402

from lapsvm.nn.device import ways  # noqa: E402
from lapsvm.nn.device.losses import closed_form  # noqa: E402
from lapsvm.nn.device.operator import has_gains, read_call, solve  # noqa: E402
from lapsvm.nn.device.ways import DeviceCall, DeviceOptions  # noqa: E402
from lapsvm.nn.rank_op import loss_key, rank_loss  # noqa: E402
from lapsvm.ranking.losses import NAMED, as_loss  # noqa: E402

HAS_GPU = torch.cuda.is_available()
DEVICE = "cuda" if HAS_GPU else "cpu"
HAS_TRITON = find_spec("triton") is not None and (HAS_GPU or os.environ.get("TRITON_INTERPRET") == "1")
NEEDS_TRITON = pytest.mark.skipif(not HAS_TRITON, reason="Triton has neither a GPU nor its interpreter here")
WAYS = ["torch", pytest.param("rows", marks=NEEDS_TRITON)]
pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")  # the interpreter's masked lanes
LOSSES = ("ap", "ndcg", "auc", "mrr", "pos_at_top", "partial_auc@.37")
BOUNDS = ("hinge", "up", "delta")


def on_processor(scores, labels, mask, groups, weight, bound, loss, scale, reduction, n_groups):
    key = loss_key(as_loss(loss))
    return rank_loss(scores, labels, mask, groups, weight, bound, key, scale, reduction, None, False, n_groups)


def on_device(way, scores, labels, mask, groups, weight, bound, loss, scale, reduction, n_groups):
    tensors = (None if one is None else one.to(DEVICE) for one in (scores, labels, mask, groups, weight))
    call = read_call(DeviceCall(*tensors))
    form = closed_form(as_loss(loss))
    answer = solve(call, DeviceOptions(bound, scale, reduction, None, n_groups), form, way)
    return answer.value.cpu(), answer.gradient.cpu()


def check(way, *arguments):
    wanted, found = on_processor(*arguments), on_device(way, *arguments)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9, atol=1e-11)


def drawn(n, share, ties, seed):
    rng = np.random.default_rng(seed)
    labels = rng.random(n) < share
    labels[:2] = True, False
    scores = rng.normal(size=n) + 0.5 * labels
    if ties:
        scores = np.round(2 * scores) / 2
    return torch.from_numpy(scores), torch.from_numpy(labels)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("bound", BOUNDS)
def test_one_ranking_has_the_processor_s_value_and_gradient(way, loss, bound, monkeypatch):
    if loss in ("mrr", "partial_auc@.37") and way == "rows":
        call = DeviceCall(torch.zeros(600, device="meta"), torch.zeros(600, device="meta"), None, None, None)
        monkeypatch.setattr(ways, "can_compile", lambda _: True)
        assert ways.choose(call, closed_form(as_loss(loss))) == "torch"  # no call takes this way
        return
    for seed, (n, share, ties) in enumerate([(2, 0.5, False), (7, 0.5, True), (40, 0.1, False), (300, 0.3, True)]):
        scores, labels = drawn(n, share, ties, seed)
        check(way, scores, labels, None, None, None, bound, loss, 1.5, "mean", -1)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("loss", ["ap", "ndcg"])
@pytest.mark.parametrize("order", ["equal", "best first", "worst first", "far apart"])
def test_adversarial_orders(way, loss, order):
    n = 200
    labels = torch.arange(n) % 7 == 0
    scores = {
        "equal": torch.zeros(n, dtype=torch.float64),
        "best first": labels.double() * 10 - torch.arange(n) / n,
        "worst first": -labels.double() * 10 - torch.arange(n) / n,
        "far apart": torch.linspace(-1e6, 1e6, n, dtype=torch.float64),
    }[order]
    check(way, scores, labels, None, None, None, "hinge", loss, 1.0, "mean", -1)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("weighted", [False, True])
def test_columns_masks_and_class_weights(way, reduction, weighted):
    rng = np.random.default_rng(3)
    scores, labels = torch.from_numpy(rng.normal(size=(60, 3))), torch.from_numpy(rng.random((60, 3)) < 0.3)
    labels[:, 2] = False  # nothing to rank
    mask = torch.from_numpy(rng.random((60, 3)) < 0.8)
    weight = torch.tensor([0.5, 2.0, 3.0], dtype=torch.float64) if weighted else None
    check(way, scores, labels, mask, None, weight, "hinge", "ap", 2.0, reduction, -1)


KINDS = {
    "0 and 1": ([0, 1], torch.int8, None), "-1 and 1": ([-1, 1], torch.int64, None),
    "bytes": ([0, 1], torch.uint8, 255), "floats": ([-1, 0, 1], torch.float32, None),
    "flags": ([0, 1], torch.bool, 7), "some ignored": ([0, 1, 5], torch.int16, 5),
    "classes": (None, torch.int64, None), "classes, one ignored": (None, torch.int32, 1),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("columns", [1, 3])
def test_labels_of_every_kind(way, kind, columns):
    rng, (values, dtype, ignored) = np.random.default_rng(6), KINDS[kind]
    if values is None and columns == 1:
        columns = 4
    shape = (70,) if columns == 1 else (70, columns)
    scores = torch.from_numpy(rng.normal(size=shape))
    drawn = rng.integers(0, columns, 70) if values is None else rng.choice(values, shape)
    labels = torch.from_numpy(drawn).to(dtype)
    turned = labels if labels.ndim == 1 else labels.T.contiguous().T  # rows side by side in memory
    masks = None, torch.from_numpy(rng.random(shape) < 0.8), torch.from_numpy(rng.random(70) < 0.8)
    for mask in masks:
        wanted = rank_loss(scores, labels, mask, None, None, "hinge", "ap", 1.5, "mean", ignored, False, -1)
        call = read_call(
            DeviceCall(*(one if one is None else one.to(DEVICE) for one in (scores, turned, mask)), None, None)
        )
        found = solve(call, DeviceOptions("hinge", 1.5, "mean", ignored, -1), closed_form(NAMED["ap"]), way)
        for one, other in zip(found[:2], wanted, strict=True):
            np.testing.assert_allclose(one.cpu().numpy(), other.numpy(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("wrong", [2, -2, 0.5, float("nan"), "class", "score"])
def test_what_cannot_be_used_makes_its_ranking_nan_alone(way, wrong):
    rng = np.random.default_rng(7)
    scores, labels = torch.from_numpy(rng.normal(size=(50, 3))), torch.from_numpy(rng.integers(0, 2, (50, 3))).double()
    mask = torch.ones(50, 3, dtype=torch.bool)
    mask[4] = False
    if wrong == "class":
        labels = torch.from_numpy(rng.integers(0, 3, 50))
        labels[9], labels[4] = 3, -7  # no class; one that does not count
    elif wrong == "score":
        scores[9, 1], scores[4, 2] = float("nan"), float("inf")
    else:
        labels[9, 1] = labels[4, 2] = wrong
    spoilt = [True, True, True] if wrong == "class" else [False, True, False]
    call = read_call(DeviceCall(*(one.to(DEVICE) for one in (scores, labels, mask)), None, None))
    found = solve(call, DeviceOptions("hinge", 1.0, "none", None, -1), closed_form(NAMED["ap"]), way)
    assert found.value.isnan().tolist() == spoilt
    assert found.gradient[mask.to(DEVICE).all(1)].isnan().any(0).tolist() == spoilt
    assert not found.lacking().any()


@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_groups(reduction):
    rng = np.random.default_rng(4)
    scores, labels = torch.from_numpy(rng.normal(size=150)), torch.from_numpy(rng.random(150) < 0.3)
    groups = torch.from_numpy(rng.integers(0, 9, 150))
    check("torch", scores, labels, None, groups, None, "hinge", "ap", 1.0, reduction, 10)


@NEEDS_TRITON
@pytest.mark.skipif(not HAS_GPU, reason="takes hours without a GPU")
@pytest.mark.parametrize(("n_pos", "n_neg"), [(1_000, 100_000), (10_000, 1_000_000), (5, 300_000), (100_000, 50)])
def test_large_rankings_have_the_processor_s_gradient(n_pos, n_neg):
    rng = np.random.default_rng(5)
    labels = torch.from_numpy(rng.permutation(np.arange(n_pos + n_neg) < n_pos))
    scores = torch.from_numpy(rng.normal(size=len(labels))) + 0.5 * labels.double()
    check("rows", scores, labels, None, None, None, "hinge", "ap", 1.0, "mean", -1)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("bound", BOUNDS)
def test_no_value_is_waited_for(loss, bound):
    """Of a tensor without values, shapes alone are known: what asks for a number, or a number of them, is an error."""
    form, n = closed_form(as_loss(loss)), 300
    form.tables(n, torch.device("cpu"))  # they are kept, so with values
    with FakeTensorMode(allow_non_fake_inputs=True):
        one, wide = torch.empty(n), torch.empty(n, 3)
        flags, numbers = torch.empty(n, dtype=torch.bool), torch.empty(n, dtype=torch.int64)
        for call, reduction, ignored, n_groups in (
            (DeviceCall(one, flags, None, None, None), "mean", None, -1),
            (DeviceCall(one, one, flags, numbers, None), "none", -1, 4),
            (DeviceCall(wide, numbers, flags, None, torch.empty(3)), "sum", 2, -1),
            (DeviceCall(wide, wide, wide > 0, numbers, torch.empty(3)), "mean", None, -1),
        ):
            read = read_call(call)
            has_gains(read, ignored)
            answer = solve(read, DeviceOptions(bound, 1.0, reduction, ignored, n_groups), form, "torch")
            assert answer.gradient.shape == call.scores.shape
        with pytest.raises(DataDependentOutputException):
            bool(answer.lacking().any())
