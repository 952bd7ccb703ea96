"""Bounds of scores as functions of one layer's weights: on both sides, convex and concave, exact at the start."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import nn  # noqa: E402

from lapsvm.nn import LayerwiseSVM  # noqa: E402
from lapsvm.nn.layerwise.network import bounded_scores, chain, fixed_scores, run  # noqa: E402
from lapsvm.nn.layerwise.problem import Blocks, LayerProblem, SummedHinge  # noqa: E402
from lapsvm.ranking.losses import as_loss  # noqa: E402


def plain():
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))


def pooled():
    return nn.Sequential(
        *(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1, ceil_mode=True)),
        *(nn.Conv2d(4, 4, 2, groups=2), nn.BatchNorm2d(4, affine=False), nn.ReLU(), nn.AdaptiveAvgPool2d(2)),
        *(nn.Flatten(), nn.Dropout(), nn.Linear(16, 3), nn.BatchNorm1d(3)),
    )


def sequence():
    return nn.Sequential(
        nn.Conv1d(2, 4, 2), nn.MaxPool1d(2), nn.Conv1d(4, 3, 2), nn.ReLU(), nn.AvgPool1d(2), nn.Flatten()
    )


SHAPES = {plain: (7, 4), pooled: (7, 2, 7, 7), sequence: (7, 2, 8)}


def made(make, seed=0):
    """A float64 network with random statistics, and inputs."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = make().double().eval().requires_grad_(False)
        for module in network:
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.running_mean.normal_()
                module.running_var.uniform_(0.5, 2)
                if module.affine:
                    module.weight.normal_()
        return network, torch.randn(SHAPES[make], dtype=torch.float64)


def places(make):
    return [
        place for place, layer in enumerate(chain(make())) if layer.module.__class__.__name__[:4] in ("Line", "Conv")
    ]


CASES = [(make, place) for make in SHAPES for place in places(make)]
NAMES = [f"{make.__name__}-{place}" for make, place in CASES]


def scored(network, place, inputs):
    """Functions of a change of the layer's output: score, (upper, lower) and score with fixed choices."""
    before = run(network[: place + 1], inputs)
    later = list(network[place + 1 :])
    return (
        lambda change: run(later, before + change),
        lambda change: bounded_scores(later, before, before + change),
        lambda change: fixed_scores(later, before, before + change),
        before,
    )


def changes(shape, n, size=1.0):
    return [size * torch.tensor(np.random.default_rng(k).standard_normal(tuple(shape))) for k in range(n)]


@pytest.mark.parametrize(("make", "place"), CASES, ids=NAMES)
def test_bounds_enclose_the_score_and_touch_it_at_the_start(make, place):
    network, inputs = made(make)
    score, bounds, fixed, before = scored(network, place, inputs)
    nothing = torch.zeros_like(before)
    for found in (*bounds(nothing), fixed(nothing)):
        torch.testing.assert_close(found, score(nothing), rtol=1e-12, atol=1e-12)
    for size in (0.01, 1.0, 30.0):
        for change in changes(before.shape, 5, size):
            upper, lower = bounds(change)
            exact = score(change)
            room = 1e-10 * (1 + exact.abs())
            assert bool((upper >= exact - room).all())
            assert bool((lower <= exact + room).all())


@pytest.mark.parametrize(("make", "place"), CASES, ids=NAMES)
def test_bounds_are_convex_and_concave_and_fixed_choices_are_linear(make, place):
    network, inputs = made(make)
    _, bounds, fixed, before = scored(network, place, inputs)
    for first, second in zip(changes(before.shape, 6), changes(before.shape, 6, 5.0)[::-1], strict=True):
        (up_1, low_1), (up_2, low_2), (up, low) = bounds(first), bounds(second), bounds((first + second) / 2)
        room = 1e-10 * (1 + up_1.abs() + up_2.abs())
        assert bool((up <= (up_1 + up_2) / 2 + room).all())
        assert bool((low >= (low_1 + low_2) / 2 - room).all())
        torch.testing.assert_close(fixed((first + second) / 2), (fixed(first) + fixed(second)) / 2)


def difference_of_convex(later, values):
    """The paper's decomposition of the later layers: (convex, convex), the score is their difference."""
    plus, minus = values, torch.zeros_like(values)
    for module in later:
        if isinstance(module, nn.ReLU):
            plus = torch.maximum(plus, minus)
        else:
            W, b = module.weight, module.bias
            up, down = W.clamp(min=0).T, (-W).clamp(min=0).T
            plus, minus = plus @ up + minus @ down + b, plus @ down + minus @ up
    return plus, minus


def test_bounds_are_at_least_as_tight_as_the_linearised_decomposition():
    network, inputs = made(plain)
    score, bounds, _, before = scored(network, 0, inputs)
    later = list(network[1:])

    def linearised(part, change):
        """Value of a part at the start plus its slope times the change."""
        return sum(
            torch.autograd.functional.jvp(lambda values: difference_of_convex(later, values)[part], before, change)
        )

    tighter = 0
    for change in changes(before.shape, 8, 0.5):
        plus, minus = difference_of_convex(later, before + change)
        torch.testing.assert_close(plus - minus, score(change))
        upper, lower = bounds(change)
        assert bool((upper <= plus - linearised(1, change) + 1e-10).all())
        assert bool((lower >= linearised(0, change) - minus - 1e-10).all())
        tighter += int((upper < plus - linearised(1, change) - 1e-6).sum())
    assert tighter > 0


def test_modules_that_work_in_place_leave_the_inputs():
    inputs = torch.linspace(-1, 1, 24, dtype=torch.float64).reshape(12, 2)
    before, labels = inputs.clone(), np.arange(12) % 3 == 0
    network = torch.nn.Sequential(torch.nn.ReLU(inplace=True), torch.nn.Linear(2, 1)).double()
    model = LayerwiseSVM(network, max_epochs=1).fit(inputs, labels)
    model.decision_function(inputs)
    assert torch.equal(inputs, before)
    assert network[0].inplace


@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize(("make", "place"), CASES, ids=NAMES)
def test_a_plane_touches_the_convex_hinge_and_lies_below_it(make, place, bounded):
    network, inputs = made(make)
    positive = np.arange(21).reshape(7, 3) % 4 == 0
    blocks = Blocks([np.arange(7)], np.ones(1), positive)
    hinge = SummedHinge(as_loss("ap"), 2.0, "auto")
    problem = LayerProblem(
        network[place], list(network[place + 1 :]), run(network[:place], inputs), blocks, hinge, bounded
    )
    rng = np.random.default_rng(place)
    for _ in range(4):
        w, other = (problem.start + rng.standard_normal(len(problem.start)) for _ in range(2))
        plane = problem.plane(0, w)
        assert plane.value(w) == pytest.approx(problem.convex_risk(w), rel=1e-10, abs=1e-10)
        assert plane.value(other) <= problem.convex_risk(other) * (1 + 1e-10) + 1e-10
        assert not bounded or problem.risk(other) <= problem.convex_risk(other) * (1 + 1e-10) + 1e-10
    assert problem.convex_risk(problem.start) == pytest.approx(problem.risk(problem.start), rel=1e-10, abs=1e-12)
