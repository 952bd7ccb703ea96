"""NDCG of graded labels against all rankings of small lists, and the laws of binary ones."""

from itertools import permutations

import numpy as np
import pytest
from sklearn.metrics import ndcg_score

from lapsvm.errors import InputError, NotFiniteError, OneClassError
from lapsvm.ranking import NDCGLoss

torch = pytest.importorskip("torch", reason="torch is not installed")
from lapsvm.nn import DirectLoss, RankHingeLoss, RankRampLoss  # noqa: E402
from lapsvm.nn.bounds import GradedRankings, bounded  # noqa: E402

LOSSES = {"log": NDCGLoss(), "reciprocal": NDCGLoss("reciprocal"), "three": NDCGLoss(k=3)}
BOUNDS = {
    "hinge": RankHingeLoss,
    "up": lambda loss: DirectLoss(loss, direction="up"),
    "down": lambda loss: DirectLoss(loss, direction="down"),
}


def drawn(seed, n=6, grades=4):
    draw = np.random.default_rng(seed)
    gains = draw.integers(0, grades, n).astype(float)
    gains[:2] = 0.5, grades  # never all alike, never binary
    return draw.normal(scale=draw.choice([0.1, 1, 10]), size=n), gains


def by_brute_force(bound, loss, scores, gains):
    """The bound by its formula, over every ranking: the pairs of different gains alone, no assignment."""
    n, pairs = len(scores), [(i, j) for i in range(len(scores)) for j in range(i) if gains[i] != gains[j]]
    discounts = loss.discount(np.arange(1, n + 1))
    best = np.sort(gains)[::-1] @ discounts

    def measured(order):
        place = np.argsort(order)
        agreed = sum((scores[i] - scores[j]) * (1 if place[i] < place[j] else -1) for i, j in pairs)
        return 1 - gains @ discounts[place] / best, agreed / len(pairs)

    found = [measured(order) for order in permutations(range(n))]
    highest = max(value for _, value in found)
    perfect = measured(np.lexsort((-scores, -gains)))
    assert perfect[0] == pytest.approx(0)
    if bound == "hinge":
        return max(delta + value for delta, value in found) - perfect[1]
    if bound == "up":
        return max(delta + value for delta, value in found) - highest
    return highest - max(value - delta for delta, value in found)


def value_and_gradient(module, scores, gains, **more):
    tensor = torch.tensor(scores, requires_grad=True)
    value = module(tensor, torch.tensor(gains), **more)
    value.backward()
    return value.item(), tensor.grad.numpy()


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("bound", BOUNDS)
def test_values_are_those_of_all_rankings(bound, name, seed):
    scores, gains = drawn(seed)
    value, _ = value_and_gradient(BOUNDS[bound](LOSSES[name]), scores, gains)
    assert value == pytest.approx(by_brute_force(bound, LOSSES[name], scores, gains), abs=1e-9)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("bound", BOUNDS)
def test_the_gradient_is_that_of_the_value(bound, seed):
    scores, gains = drawn(seed, 40)
    module = BOUNDS[bound]("ndcg")
    value, gradient = value_and_gradient(module, scores, gains)
    assert gradient.sum() == pytest.approx(0, abs=1e-12)
    step = 1e-7 * np.random.default_rng(seed).normal(size=len(scores))
    moved, _ = value_and_gradient(module, scores + step, gains)
    assert moved - value == pytest.approx(gradient @ step, abs=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_the_hinge_is_convex_and_the_bounds_are_in_order(seed):
    (first, gains), (second, _) = drawn(seed, 30), drawn(seed + 100, 30)
    hinge, up, down = (module("ndcg") for module in BOUNDS.values())
    low, high = (value_and_gradient(hinge, scores, gains)[0] for scores in (first, second))
    assert value_and_gradient(hinge, (first + second) / 2, gains)[0] <= (low + high) / 2 + 1e-12
    _, info = up(torch.tensor(first), torch.tensor(gains), return_info=True)
    values = [value_and_gradient(module, first, gains)[0] for module in (down, up, hinge)]
    assert values[0] <= info.delta.item() + 1e-12
    assert info.delta.item() <= values[1] + 1e-12
    assert values[1] <= values[2] + 1e-12
    assert info.metric.item() == pytest.approx(ndcg_score([gains], [first]))


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("gain", [1.0, 0.25, 3.0])
def test_one_gain_above_0_is_binary(bound, gain):
    scores, binary = np.random.default_rng(1).normal(size=50), np.arange(50.0) % 3 == 0
    module = BOUNDS[bound]("ndcg")
    plain, graded = (value_and_gradient(module, scores, labels) for labels in (binary, gain * binary))
    assert plain[0] == graded[0]
    np.testing.assert_array_equal(plain[1], graded[1])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("bound", BOUNDS)
def test_assignments_give_what_the_kernels_give(bound, seed):
    scores, binary = np.random.default_rng(seed).normal(size=60), np.arange(60) % (seed + 2) == 0
    value, coefficients = GradedRankings(NDCGLoss(), scores, binary.astype(float)).bound(bound)
    expected = bounded(bound, NDCGLoss(), scores, binary)
    assert value == pytest.approx(expected[0], abs=1e-12)
    np.testing.assert_allclose(coefficients, expected[1], atol=1e-12)


def test_lists_of_different_lengths_are_each_their_own():
    lists = [drawn(seed, 4 + seed) for seed in range(4)]
    longest = max(len(scores) for scores, _ in lists)
    padded = np.full((2, len(lists), longest), np.nan)
    for row, (scores, gains) in enumerate(lists):
        padded[0, row, : len(scores)], padded[1, row, : len(scores)] = scores, gains
    mask = torch.tensor(~np.isnan(padded[0]))
    scores = torch.tensor(padded[0], requires_grad=True)
    module = RankRampLoss("ndcg", reduction="none")
    values = module(scores.T, torch.tensor(padded[1]).T, mask.T)
    values.sum().backward()
    alone = [value_and_gradient(module, *one) for one in lists]
    assert values.tolist() == [value for value, _ in alone]
    for row, (_, gradient) in enumerate(alone):
        np.testing.assert_array_equal(scores.grad[row].numpy()[: len(gradient)], gradient)
        assert not scores.grad[row].numpy()[len(gradient) :].any()
    flat = [torch.tensor(np.concatenate(part)) for part in zip(*lists, strict=True)]
    groups = torch.tensor(np.repeat(np.arange(4), [len(scores) for scores, _ in lists]))
    assert module(*flat, groups=groups).tolist() == values.tolist()


def test_a_list_of_one_grade_counts_nothing():
    scores = torch.randn(5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([[2, 2], [2, 0], [2, 1], [2, 0], [2, 3]])
    value, info = RankHingeLoss("ndcg")(scores, labels, return_info=True)
    assert info.valid.tolist() == [False, True]
    assert value == RankHingeLoss("ndcg")(scores[:, 1], labels[:, 1])
    with pytest.raises(OneClassError, match="of column 0"):
        RankHingeLoss("ndcg", on_empty="raise")(scores, labels)


@pytest.mark.parametrize(
    ("loss", "labels", "error", "message"),
    [
        ("ap", [0.0, 1, 2], InputError, "labels must be binary"),
        ("ndcg", [0.0, -2, 1], InputError, "graded labels must be finite and 0 or more, got -2"),
        ("ndcg", [0.0, float("inf"), 1], InputError, "graded labels must be finite and 0 or more, got inf"),
        ("ndcg", [0.0, float("nan"), 2], NotFiniteError, "labels must not be NaN"),
    ],
)
def test_what_is_refused(loss, labels, error, message):
    with pytest.raises(error, match=message):
        RankHingeLoss(loss)(torch.zeros(3), torch.tensor(labels))


def test_scores_must_be_finite():
    with pytest.raises(NotFiniteError):
        RankHingeLoss("ndcg")(torch.tensor([0.0, float("nan"), 1]), torch.tensor([0, 1, 2]))
