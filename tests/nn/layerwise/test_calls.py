"""Calls of layerwise training as users make them by mistake, or under torch's switches."""

import pytest

torch = pytest.importorskip("torch", reason="layerwise training needs torch")

from lapsvm.errors import InputError, ShapeError  # noqa: E402
from lapsvm.nn import LayerwiseSVM  # noqa: E402

INPUTS, LABELS = torch.tensor([[0.0, 1.0], [1.0, 0.0], [3.0, 1.0], [2.0, 5.0]]), [0, 0, 1, 1]


def made(*modules):
    torch.manual_seed(0)
    return LayerwiseSVM(torch.nn.Sequential(*(modules or (torch.nn.Linear(2, 1),))), lam=0.01, max_epochs=3)


def test_scoring_inputs_of_another_shape_is_refused():
    model = made().fit(INPUTS, LABELS)
    with pytest.raises(InputError, match=r"inputs of shape \(4, 3\) must fit the network; torch: "):
        model.decision_function(torch.zeros(4, 3))
    assert model.n_scores_ == 1


def test_scoring_inputs_that_give_other_scores_is_refused():
    model = made(torch.nn.Conv1d(1, 1, 2), torch.nn.Flatten()).fit(INPUTS[:, None], LABELS)
    with pytest.raises(ShapeError, match=r"inputs must give 1 score\(s\) each, got 2 for \(4, 1, 3\)"):
        model.decision_function(torch.zeros(4, 1, 3))


def test_training_under_no_grad_is_the_same():
    expected = made().fit(INPUTS, LABELS)
    with torch.no_grad():
        model = made().fit(INPUTS, LABELS)
    assert model.objective_ == expected.objective_ < model.start_objective_
