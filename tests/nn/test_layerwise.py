"""Layerwise training: one layer against independent solvers, the dual, the objective, what is refused."""

import itertools
import re

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.svm import LinearSVC

from lapsvm.errors import CertificateError, InputError, NotFiniteError, OneClassError, OptionError, ShapeError
from lapsvm.models import RankSVM
from lapsvm.optim import Plane
from lapsvm.ranking import average_precision

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import nn  # noqa: E402

from lapsvm.nn import LayerwiseSVM  # noqa: E402
from lapsvm.nn.layerwise.data import split  # noqa: E402
from lapsvm.nn.layerwise.dual import BlockDual  # noqa: E402


def seeded(make, seed=0):
    """Build a float64 network with torch's random numbers at a seed, which are then put back."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return make().double()


def drawn(n=40, dim=4, n_classes=1, seed=0):
    """Features, and labels that a linear function partly explains."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, dim))
    signal = X @ rng.standard_normal((dim, n_classes)) + 0.7 * rng.standard_normal((n, n_classes))
    return X, signal > np.quantile(signal, 0.7, axis=0)


def pictures(n=24, seed=0):
    """Pictures of 2 channels, and one of 3 classes each."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    inputs = rng.standard_normal((n, 2, 6, 6))
    inputs[:, 0, :3] += (labels == 1)[:, None, None]
    inputs[:, 1, :, 3:] += (labels == 2)[:, None, None]
    return torch.tensor(inputs), torch.tensor(labels)


def convolutional():
    """Two convolutions with frozen normalisation, pooling that overlaps and is padded, and two linear layers."""
    network = nn.Sequential(
        nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1)),
        nn.Sequential(nn.Conv2d(4, 5, 2, bias=False), nn.ReLU(), nn.AvgPool2d(2), nn.Dropout(0.5), nn.Flatten()),
        nn.Linear(5, 6),
        nn.ReLU(),
        nn.Linear(6, 3),
    )
    norm = network[0][1]
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.5, 2)
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([1.0, -0.7, 0.4, -1.5]))
        norm.bias.normal_()
    return network


def converged(network, loss, **options):
    options = {"lam": 0.1, "tol": 2e-6, "max_epochs": 2000, "report_primal": True} | options
    return LayerwiseSVM(network, loss, **options)


# ----------------------------------------------------------------------------------- against independent solvers


@pytest.mark.parametrize("loss", ["ap", "ndcg", "auc"])
def test_the_last_layer_reaches_the_rank_svm(loss):
    X, y = drawn()
    network = seeded(lambda: nn.Sequential(nn.Linear(4, 1, bias=False)))
    model = converged(network, loss, mu=0, batch_size=40).fit(X, y)
    expected = RankSVM(loss, C=10, tol=1e-6).fit(X, y.ravel().astype(int))
    assert model.objective_ == pytest.approx(0.1 * expected.objective_, rel=1e-3)
    assert np.corrcoef(model.decision_function(X), X @ expected.coef_)[0, 1] > 0.998


def test_mini_batches_are_rankings_of_their_own():
    X, y = drawn()
    network = seeded(lambda: nn.Sequential(nn.Linear(4, 1, bias=False)))
    model = converged(network, "ap", mu=0, batch_size=10, seed=3).fit(X, y)
    groups = np.empty(40, dtype=int)
    for number, samples in enumerate(split(y, 10, np.random.default_rng(3)).samples):
        groups[samples] = number
    expected = RankSVM("ap", C=10, tol=1e-6).fit(X, y.ravel().astype(int), groups)
    assert model.objective_ == pytest.approx(0.1 * expected.objective_, rel=1e-3)


def test_zero_one_is_the_linear_svm_of_each_class():
    X, y = drawn(n=45, n_classes=3)
    model = converged(seeded(lambda: nn.Sequential(nn.Linear(4, 3))), "zero_one", mu=0, batch_size=20).fit(X, y)
    expected = 0.0
    for k in range(3):
        svm = LinearSVC(loss="hinge", C=1 / (0.1 * 45), tol=1e-8, max_iter=200_000, random_state=0).fit(X, y[:, k])
        margins = np.where(y[:, k], 1, -1) * svm.decision_function(X)
        w = np.append(svm.coef_, svm.intercept_)
        expected += 0.05 * w @ w + np.maximum(0, 1 - margins).mean()
    assert model.objective_ == pytest.approx(expected, rel=1e-3)


def test_a_scale_is_that_of_the_scores():
    X, y = drawn()
    network = seeded(lambda: nn.Sequential(nn.Linear(4, 1, bias=False)))
    model = converged(network, "ap", mu=0, batch_size=40, scale=3.0).fit(X, y)
    expected = RankSVM("ap", C=10, tol=1e-6).fit(3 * X, y.ravel().astype(int))
    assert model.objective_ == pytest.approx(0.1 * expected.objective_, rel=1e-3)


def perceptron(n_hidden=3):
    return seeded(lambda: nn.Sequential(nn.Linear(2, n_hidden), nn.ReLU(), nn.Linear(n_hidden, 1)), seed=1)


def orders(positive):
    """Every order of the samples: its Delta for AP, and the coefficients of F(R*) - F(R)."""
    n_pairs = positive.sum() * (~positive).sum()
    for order in itertools.permutations(range(len(positive))):
        height = -np.argsort(order)
        coefficients = np.zeros(len(positive))
        for i, j in itertools.product(np.flatnonzero(positive), np.flatnonzero(~positive)):
            if height[i] < height[j]:
                coefficients[[i, j]] += np.array([2, -2]) / n_pairs
        yield 1 - average_precision(height, positive), coefficients


def quadratic_program(network, X, y, lam, mu):
    """The minimum of a hidden layer's convex problem: every ReLU and the hinge as variables, one row per order."""
    start = np.column_stack([network[0].weight.numpy(), network[0].bias.numpy()])
    v = network[2].weight.numpy().ravel()
    rows = np.column_stack([X, np.ones(len(X))])
    at = np.maximum(rows @ start.T, 0)
    slopes = (at > 0).astype(float)
    n, h, size = len(X), len(v), start.size

    def parts(z):
        W, t, xi = z[:size].reshape(start.shape), z[size:-1].reshape(n, h), z[-1]
        fixed = slopes * (rows @ W.T)
        maxima = np.where(y[:, None] == (v < 0), t, fixed)  # a positive's score must be concave, a negative's convex
        return W, t, xi, maxima @ v + network[2].bias.numpy()

    planes = list(orders(y))
    deltas, coefficients = np.array([p[0] for p in planes]), np.array([p[1] for p in planes])

    def slack(z):
        W, t, xi, scores = parts(z)
        return np.concatenate([t.ravel(), (t - rows @ W.T).ravel(), xi - deltas + coefficients @ scores])

    def objective(z):
        W = z[:size].reshape(start.shape)
        return 0.5 * lam * np.sum(W**2) + 0.5 * mu * np.sum((W - start) ** 2) + z[-1]

    z0 = np.concatenate([start.ravel(), at.ravel(), [10.0]])
    jac = np.array([slack(row) - slack(0 * z0) for row in np.eye(len(z0))]).T
    constraint = {"type": "ineq", "fun": slack, "jac": lambda _z: jac}
    found = minimize(objective, z0, constraints=constraint, method="SLSQP", options={"maxiter": 500, "ftol": 1e-12})
    assert found.success, found.message
    return found.fun


@pytest.mark.parametrize("seed", range(3))
def test_a_hidden_layers_bounded_problem_is_a_quadratic_program(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((5, 2)), np.array([1, 0, 1, 0, 0], dtype=bool)
    network = perceptron().requires_grad_(False)
    model = converged(network, "ap", lam=0.02, mu=0.1, batch_size=5, layers=["0"], tol=1e-6).fit(X, y)
    expected = quadratic_program(network, X, y, lam=0.02, mu=0.1)
    assert model.history_[-1]["dual"] == pytest.approx(expected, rel=1e-3)
    assert min(record["primal"] for record in model.history_) == pytest.approx(expected, rel=1e-3)


def test_a_hidden_layers_fixed_problem_is_a_rank_svm():
    X, y = drawn(dim=2)
    network = perceptron().requires_grad_(False)
    rows = np.column_stack([X, np.ones(len(X))])
    slopes = rows @ np.column_stack([network[0].weight.numpy(), network[0].bias.numpy()]).T > 0
    features = ((slopes * network[2].weight.numpy())[:, :, None] * rows[:, None]).reshape(len(X), -1)
    options = {"mu": 0, "batch_size": 40, "layers": ["0"], "activations": "fixed"}
    model = converged(network, "ap", **options).fit(X, y)
    expected = RankSVM("ap", C=10, tol=1e-6).fit(features, y.ravel().astype(int))
    assert min(record["primal"] for record in model.history_) == pytest.approx(0.1 * expected.objective_, rel=1e-3)


# --------------------------------------------------------------------------------------------- dual and objective


@pytest.mark.parametrize("activations", ["bounded", "fixed"])
@pytest.mark.parametrize("loss", ["ap", "ndcg", "zero_one"])
def test_the_dual_rises_below_the_primal_and_the_objective_falls(loss, activations):
    inputs, labels = pictures()
    options = {"batch_size": 12, "cccp_steps": 2, "passes": 2, "report_primal": True, "max_epochs": 6}
    network = seeded(convolutional)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    model = LayerwiseSVM(network, loss, lam=1e-3, scale=3.0, activations=activations, **options).fit(inputs, labels)
    steps = {}
    for record in model.history_:
        steps.setdefault((record["pass"], record["layer"], record["step"]), []).append(record)
    assert list(steps)[:8:2] == [(0, name, 0) for name in ("4", "2", "1.0", "0.0")]
    reached = model.start_objective_
    for records in steps.values():
        duals = [record["dual"] for record in records]
        assert duals == sorted(duals)
        assert all(record["dual"] <= record["primal"] for record in records)
        assert [record["objective"] for record in records[:-1]] == [None] * (len(records) - 1)
        assert records[-1]["objective"] <= reached
        reached = records[-1]["objective"]
    assert model.objective_ == reached < model.start_objective_
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert not model.network_.training


def test_the_objective_is_that_of_the_networks_scores():
    X, y = drawn(n=30, n_classes=2)
    network = seeded(lambda: nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)))
    model = LayerwiseSVM(network, "ap", lam=0.01, batch_size=10, seed=2).fit(X, y)
    again = LayerwiseSVM(model.network_, "ap", lam=0.01, batch_size=10, seed=2).fit(X, y)
    assert again.start_objective_ == pytest.approx(model.objective_, rel=1e-12)
    assert [record["kept"] for record in model.history_ if record["kept"]] != ["start", "start"]


def test_a_step_of_the_procedure_ends_at_or_below_its_convex_problem():
    inputs, labels = pictures()
    options = {"lam": 1e-3, "batch_size": 24, "layers": ["1.0"], "tol": 1e-3, "max_epochs": 50}
    model = LayerwiseSVM(seeded(convolutional), "ap", report_primal=True, **options).fit(inputs, labels)
    assert model.history_[-1]["kept"] in ("last", "average")
    assert model.objective_ <= model.history_[-1]["primal"] + 1e-12
    assert model.objective_ < model.start_objective_


def test_the_seed_decides():
    inputs, labels = pictures()

    def weights(seed):
        model = LayerwiseSVM(seeded(convolutional), lam=1e-3, batch_size=8, seed=seed, max_epochs=3)
        return torch.cat([value.ravel() for value in model.fit(inputs, labels).network_.state_dict().values()])

    assert torch.equal(weights(0), weights(0))
    assert not torch.equal(weights(0), weights(1))


def test_only_the_layers_named_are_trained():
    inputs, labels = pictures()
    network = seeded(convolutional)
    model = LayerwiseSVM(network, lam=1e-3, layers=["1.0", "4"], max_epochs=3).fit(inputs, labels)
    before = network.state_dict()
    changed = {name for name, value in model.network_.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {"1.0.weight", "4.weight", "4.bias"}


def test_training_ranks_better_and_other_inference_finds_the_same():
    inputs, labels = pictures(n=60)
    fitted = [
        LayerwiseSVM(seeded(convolutional), lam=1e-3, batch_size=60, scale=10.0, method=method, max_epochs=10)
        for method in ("auto", "greedy", "search")
    ]
    objectives = [model.fit(inputs, labels).objective_ for model in fitted]
    assert objectives == pytest.approx([objectives[0]] * 3, rel=1e-6)
    start = seeded(convolutional).eval()(inputs).detach().numpy()
    scores = fitted[0].decision_function(inputs)
    wanted = labels.numpy()[:, None] == np.arange(3)
    before, after = ([average_precision(s[:, k], wanted[:, k]) for k in range(3)] for s in (start, scores))
    assert scores.shape == (60, 3)
    assert scores.dtype == np.float64
    assert np.mean(after) > np.mean(before) + 0.1


def test_float32_networks_and_records_by_callback():
    inputs, labels = pictures()
    seen = []
    model = LayerwiseSVM(seeded(convolutional).float(), lam=1e-3, max_epochs=2, callback=seen.append)
    assert model.fit(inputs.numpy().astype(np.float32), labels.tolist()).history_ == seen
    assert next(model.network_.parameters()).dtype == torch.float32
    assert model.objective_ < model.start_objective_
    assert all(record["seconds"] >= record["inference_seconds"] > 0 for record in seen)


def test_a_dual_that_falls_is_an_error():
    dual = BlockDual(np.ones(2), np.array([0.5, 0.5]), 0.1, 1.0)
    plane = Plane(np.array([-1.0, 2.0]), 3.0)
    gap = dual.step(0, plane)
    assert gap == pytest.approx(0.5 * plane.value(np.ones(2) / 1.1))
    dual.recompute()
    dual._offsets[0] -= 1  # as if a plane were damaged
    with pytest.raises(CertificateError, match="the dual must not fall, got"):
        dual.recompute()


def test_a_plane_that_is_not_finite_is_an_error():
    dual = BlockDual(np.ones(2), np.ones(1), 0.1, 1.0)
    with pytest.raises(NotFiniteError, match="planes of mini-batches must be finite, got the gap nan of mini-batch 0"):
        dual.step(0, Plane(np.array([np.nan, 0.0]), 0.0))


# ---------------------------------------------------------------------------------------------------------- refusals


def shared():
    layer = nn.Linear(2, 2)
    return nn.Sequential(layer, nn.ReLU(), layer)


class Doubled(nn.Linear):
    """A linear module that computes something else."""

    def forward(self, values):
        return 2 * super().forward(values)


MLP = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))


@pytest.mark.parametrize(
    ("network", "sentence"),
    [
        (nn.Linear(2, 2), "network must be a torch.nn.Sequential, got Linear."),
        (None, "network must be a torch.nn.Sequential, got NoneType."),
        (nn.Sequential(nn.Linear(2, 2), nn.Sigmoid()), "got Sigmoid at '1'."),
        (nn.Sequential(nn.Sequential(Doubled(2, 2))), "got Doubled at '0.0'."),
        (nn.Sequential(nn.ReLU()), "network must have a linear or convolutional module, got none."),
        (nn.Sequential(), "network must have a linear or convolutional module, got none."),
        (shared(), "network must use each weight once, got a weight that is shared by two modules."),
        (
            nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2, track_running_stats=False)),
            "batch normalisation must have running statistics, got none at '1'.",
        ),
        (
            nn.Sequential(nn.Conv1d(1, 1, 1), nn.MaxPool1d(2, return_indices=True)),
            "max pooling must return its maxima alone, got return_indices=True at '1'.",
        ),
        (
            nn.Sequential(nn.Flatten(0), nn.Linear(2, 2)),
            "flatten must keep the samples apart (start_dim=1), got 0 at '0'.",
        ),
        (nn.Sequential(nn.Linear(2, 2).half()), "network must have float32 or float64 weights, got torch.float16."),
        (
            nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).double()),
            "network must have weights of one type on one device, got 2 combinations.",
        ),
        (nn.Sequential(nn.Linear(2, 4), nn.Unflatten(1, (2, 2))), "got Unflatten at '1'."),
        (
            nn.Sequential(nn.Conv1d(1, 1, 1)),
            "inputs of shape (4, 2) must fit the network; torch:",
        ),
    ],
    ids=range(14),
)
def test_networks_that_are_refused(network, sentence):
    with pytest.raises(InputError, match=re.escape(sentence)):
        LayerwiseSVM(network).fit(np.zeros((4, 2)), [0, 1, 0, 1])


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"lam": 0}, InputError, "lam must be a finite number greater than 0, got 0."),
        ({"mu": -1}, InputError, "mu must be a finite number greater than 0, got -1."),
        ({"tol": float("nan")}, InputError, "tol must be"),
        ({"scale": 0}, InputError, "scale must be"),
        ({"batch_size": 0}, InputError, "batch_size must be a whole number of 1 or more, got 0."),
        ({"max_epochs": 0}, InputError, "max_epochs must be"),
        ({"passes": 1.5}, InputError, "passes must be"),
        ({"cccp_steps": 0}, InputError, "cccp_steps must be"),
        ({"seed": -1}, InputError, "seed must be a whole number of 0 or more, got -1."),
        ({"activations": "free"}, OptionError, "activations must be one of bounded, fixed, got 'free'."),
        ({"layers": ["1"]}, OptionError, "layers must be among 0, 2, got '1'."),
        ({"layers": "0"}, InputError, "layers must be a list of at least one name, got '0'."),
        ({"layers": []}, InputError, "layers must be a list of at least one name, got []."),
        ({"loss": "map"}, OptionError, "map"),
        ({"method": "fast"}, OptionError, "method must be one of"),
        ({"report_primal": 1}, InputError, "report_primal must be True or False, got 1."),
    ],
    ids=range(16),
)
def test_options_that_are_refused(options, error, sentence):
    with pytest.raises(error, match=re.escape(sentence)):
        LayerwiseSVM(MLP, **options).fit(np.eye(4, 2), [0, 1, 0, 1])


@pytest.mark.parametrize(
    ("inputs", "labels", "error", "sentence"),
    [
        (np.full((4, 2), np.nan), [0, 1, 0, 1], NotFiniteError, "inputs must be finite, got NaN or infinity"),
        (np.zeros((0, 2)), [], ShapeError, "inputs must have shape (n, ...) with n > 0, got (0, 2)."),
        ("pictures", [0], InputError, "inputs must be numbers"),
        (np.zeros((4, 2), complex), [0, 1, 0, 1], InputError, "inputs must be numbers, got complex128."),
        (np.zeros((4, 3)), [0, 1, 0, 1], InputError, "inputs of shape (4, 3) must fit the network; torch:"),
        (np.zeros((4, 2)), [0, 1, 0], ShapeError, "labels must have shape (4, 2) or (4,), got (3,)."),
        (np.zeros((4, 2)), [0, 1, 2, 1], InputError, "labels of shape (4,) must be class indices 0 to 1, got 2."),
        (np.zeros((4, 2)), [0, 1, 0.5, 1], InputError, "class indices 0 to 1, got 0.5."),
        (np.zeros((4, 2)), [0, 1, np.nan, 1], NotFiniteError, "labels must not be NaN"),
        (np.zeros((4, 2)), [1, 1, 1, 1], OneClassError, "labels must give some class a positive and a negative"),
        (np.zeros((4, 2)), ["a", "b", "a", "b"], InputError, "labels must be numbers"),
    ],
    ids=range(11),
)
def test_data_that_are_refused(inputs, labels, error, sentence):
    with pytest.raises(error, match=re.escape(sentence)):
        LayerwiseSVM(MLP).fit(inputs, labels)
