"""Layerwise training: networks, options and data that are refused."""

import re

import numpy as np
import pytest

from lapsvm.errors import InputError, NotFiniteError, OneClassError, OptionError, ShapeError

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import nn  # noqa: E402

from lapsvm.nn import LayerwiseSVM  # noqa: E402


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
