"""Rank losses under torch's own checks and transforms: gradcheck, opcheck, the compiler, torch.func, no torch."""

import subprocess
import sys

import numpy as np
import pytest

import lapsvm.nn
from lapsvm.errors import DependencyError, install_extra

torch = pytest.importorskip("torch", reason="torch is not installed")

from lapsvm.nn import DirectLoss, RankHingeLoss, RankRampLoss, rank_hinge_loss  # noqa: E402
from lapsvm.ranking import NDCGLoss, RankBiased  # noqa: E402

rng = np.random.default_rng(0)
LABELS = torch.tensor(rng.random((9, 3)) < 0.4)
LABELS[:2] = torch.tensor([[True], [False]])
GROUPS = torch.tensor([0, 0, 1, 1, 0, 1, 0, 1, 0])


def scores(seed=0, kind=torch.float64):
    values = np.random.default_rng(seed).standard_normal((9, 3))
    return torch.tensor(values, dtype=kind, requires_grad=True)


VARIANTS = {
    "hinge": RankHingeLoss(scale=2.0),
    "ndcg": RankHingeLoss(NDCGLoss(RankBiased(0.9)), reduction="none"),
    "ramp": RankRampLoss(scale=3.0),
    "direct down": DirectLoss("ap", 0.1, "down"),
    "class weights": RankHingeLoss("auc", class_weight=[1.0, 2.0, 0.0], reduction="sum"),
}


# torch compiles its own forward-mode formulas in a way that it deprecates
ITS_OWN_WARNING = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")


@ITS_OWN_WARNING
@pytest.mark.parametrize("name", VARIANTS)
def test_gradcheck_forwards_and_backwards(name):
    loss = VARIANTS[name]
    assert torch.autograd.gradcheck(lambda s: loss(s, LABELS), scores(), check_forward_ad=True)
    assert torch.autograd.gradcheck(lambda s: loss(s, LABELS, groups=GROUPS), scores())
    assert torch.autograd.gradgradcheck(lambda s: loss(s, LABELS), scores())


@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("groups", [None, GROUPS])
def test_opcheck(reduction, groups):
    for kind in (torch.float32, torch.float64):
        torch.library.opcheck(
            torch.ops.lapsvm.rank_loss.default,
            (scores(0, kind).detach(), LABELS, None, groups, None, "hinge", "ap", 1.0, reduction, None, False, 2),
        )


@pytest.mark.parametrize("name", VARIANTS)
def test_compiles_into_one_graph(name):
    torch.compiler.reset()  # variants compiled before count towards the limit of one function
    loss, head = VARIANTS[name], torch.nn.Linear(3, 3, dtype=torch.float64)
    compiled = torch.compile(lambda s, y, m: loss(head(s), y, m), fullgraph=True, backend="aot_eager")
    kept = torch.ones(9, 3, dtype=torch.bool)
    for mask in (None, kept):
        value = compiled(scores(), LABELS, mask)
        value.sum().backward()
        found, head.weight.grad = head.weight.grad.clone(), None
        expected = loss(head(scores()), LABELS, mask)
        expected.sum().backward()
        assert torch.allclose(value, expected, rtol=1e-14)
        assert torch.allclose(found, head.weight.grad, rtol=1e-12)
        head.weight.grad = None


def test_what_is_reported_compiles_too():
    compiled = torch.compile(
        lambda s: rank_hinge_loss(s, LABELS, return_info=True), fullgraph=True, backend="aot_eager"
    )
    value, info = compiled(scores())
    expected, report = rank_hinge_loss(scores(), LABELS, return_info=True)
    assert torch.equal(value, expected)
    assert all(map(torch.equal, info, report))


def test_functions_compile_into_one_graph():
    compiled = torch.compile(
        lambda s: rank_hinge_loss(s, LABELS, loss="ndcg", scale=2.0), fullgraph=True, backend="aot_eager"
    )
    assert torch.equal(compiled(scores()), rank_hinge_loss(scores(), LABELS, loss="ndcg", scale=2.0))


def test_functional_transforms():
    batch = torch.stack([scores(k).detach() for k in range(4)])
    values = torch.func.vmap(lambda s: rank_hinge_loss(s, LABELS))(batch)
    gradients = torch.func.vmap(torch.func.grad(lambda s: rank_hinge_loss(s, LABELS)))(batch)
    for k in range(4):
        one = batch[k].clone().requires_grad_()
        value = rank_hinge_loss(one, LABELS)
        value.backward()
        assert torch.equal(values[k], value.detach())
        assert torch.equal(gradients[k], one.grad)
        assert torch.equal(torch.func.grad(lambda s: rank_hinge_loss(s, LABELS))(batch[k]), one.grad)


def test_vmap_over_labels_and_masks():
    labels = torch.stack([LABELS, ~LABELS])
    mask = torch.ones(9, 2, 3, dtype=torch.bool)
    mask[7:, 0] = False
    values = torch.func.vmap(lambda y, m: rank_hinge_loss(scores(), y, m), in_dims=(0, 1))(labels, mask)
    for k in range(2):
        assert torch.equal(values[k], rank_hinge_loss(scores(), labels[k], mask[:, k]))


@ITS_OWN_WARNING
def test_a_hessian_is_zero():
    assert not torch.func.hessian(lambda s: rank_hinge_loss(s, LABELS))(scores().detach()).any()


def test_threads_change_nothing():
    wide = torch.tensor(np.random.default_rng(0).standard_normal((9000, 8)), requires_grad=True)
    labels = torch.tensor(rng.random((9000, 8)) < 0.1)
    found = []
    for threads in (1, 3):
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            value = rank_hinge_loss(wide, labels, reduction="none")
        finally:
            torch.set_num_threads(before)
        found.append((value, *torch.autograd.grad(value.sum(), wide)))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_scores_on_a_gpu():
    here, there = scores(), scores().detach().cuda().requires_grad_()
    value = rank_hinge_loss(there, LABELS.cuda())
    value.backward()
    rank_hinge_loss(here, LABELS).backward()
    assert value.device.type == "cuda"
    assert torch.allclose(there.grad.cpu(), here.grad)


def test_without_torch_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in sorted(lapsvm.nn.__all__):
        with pytest.raises(DependencyError) as refused:
            getattr(lapsvm.nn, name)
        assert str(refused.value) == f"{name} needs torch, which is not installed; {install_extra('torch')}."


def test_importing_the_room_does_not_import_torch():
    code = "import sys, lapsvm.nn; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_names_are_listed_and_others_refused():
    assert set(lapsvm.nn.__all__) <= set(dir(lapsvm.nn))
    with pytest.raises(AttributeError, match=r"module 'lapsvm\.nn' has no attribute 'nosuch'"):
        _ = lapsvm.nn.nosuch
