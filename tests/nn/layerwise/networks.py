"""Networks, pictures and features of the tests of layerwise training."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import nn  # noqa: E402

from lapsvm.nn import LayerwiseSVM  # noqa: E402


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
