"""Layerwise training: the dual rises, the objective falls, what is trained and recorded."""

import numpy as np
import pytest

from lapsvm.errors import CertificateError, NotFiniteError
from lapsvm.optim import Plane
from lapsvm.ranking import average_precision

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import nn  # noqa: E402

from lapsvm.nn import LayerwiseSVM  # noqa: E402
from lapsvm.nn.layerwise.descent import BlockDual  # noqa: E402

from .networks import convolutional, drawn, pictures, seeded  # noqa: E402


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
