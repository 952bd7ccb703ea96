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
from lapsvm.nn.rank_op import rank_loss  # noqa: E402
from lapsvm.ranking.losses import NAMED  # noqa: E402

HAS_GPU = torch.cuda.is_available()
DEVICE = "cuda" if HAS_GPU else "cpu"
HAS_TRITON = find_spec("triton") is not None and (HAS_GPU or os.environ.get("TRITON_INTERPRET") == "1")
NEEDS_TRITON = pytest.mark.skipif(not HAS_TRITON, reason="Triton has neither a GPU nor its interpreter here")
WAYS = ["torch", *(pytest.param(way, marks=NEEDS_TRITON) for way in ("levels", "rows", "small"))]
pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")  # the interpreter's masked lanes
LOSSES = ("ap", "ndcg", "auc", "mrr", "pos_at_top")
BOUNDS = ("hinge", "up", "delta")


def on_processor(scores, labels, mask, groups, weight, bound, loss, scale, reduction, n_groups):
    return rank_loss(scores, labels, mask, groups, weight, bound, loss, scale, reduction, None, False, n_groups)


def on_device(way, scores, labels, mask, groups, weight, bound, loss, scale, reduction, n_groups):
    tensors = (None if one is None else one.to(DEVICE) for one in (scores, labels, mask, groups, weight))
    call = read_call(DeviceCall(*tensors))
    form = closed_form(NAMED[loss])
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
    if loss == "mrr" and way in ("levels", "rows"):
        call = DeviceCall(torch.zeros(600, device="meta"), torch.zeros(600, device="meta"), None, None, None)
        monkeypatch.setattr(ways, "can_compile", lambda _: True)
        assert ways.choose(call, closed_form(NAMED[loss])) == "torch"  # no call takes these ways
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


@pytest.mark.parametrize("way", [one for one in WAYS if one == "torch" or one.values[0] != "rows"])  # it has no groups
@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_groups(way, reduction):
    rng = np.random.default_rng(4)
    scores, labels = torch.from_numpy(rng.normal(size=150)), torch.from_numpy(rng.random(150) < 0.3)
    groups = torch.from_numpy(rng.integers(0, 9, 150))
    check(way, scores, labels, None, groups, None, "hinge", "ap", 1.0, reduction, 10)


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
    form, n = closed_form(NAMED[loss]), 300
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
            bool(answer.lacking.any())
