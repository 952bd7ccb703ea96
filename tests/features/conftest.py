"""Networks small enough that their features are a formula: written as ONNX files, and made by factories for torch."""

import sys
from importlib import import_module

import numpy as np
import pytest

from ..twins.networks import cells, onnx_network

FACTORIES = """
import torch
from torch import nn

TEXT = "no factory"


class Colours(nn.Module):
    '''The mean of 32 x 32 pixels through a weight, cell by cell.'''

    def __init__(self, bias=0.0):
        super().__init__()
        self.mix = nn.Conv2d(3, 5, 1)
        nn.init.constant_(self.mix.bias, bias)

    def forward(self, batch):
        return self.mix(nn.functional.avg_pool2d(batch, 32))


def colours():
    return Colours()


def with_weights(weights=None):
    net = Colours()
    if weights is not None:
        net.load_state_dict(torch.load(weights, weights_only=True))
    return nn.Sequential(net, nn.ReLU())


def vectors():
    return nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(12, 7))


class Named(Colours):
    def forward(self, batch):
        found = super().forward(batch)
        return {"low": found, "high": -found, "flat": found.mean((2, 3)), "note": "none"}


def named():
    return Named()


class Starving(nn.Module):
    def forward(self, batch):
        if batch.abs().sum() > 0:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return nn.functional.avg_pool2d(batch, 32)


def starving():
    return Starving()


class Gives(nn.Module):
    def __init__(self, what):
        super().__init__()
        self.what = what

    def forward(self, batch):
        return self.what(batch)


def gives_nothing():
    return Gives(lambda batch: None)


def gives_nan():
    return Gives(lambda batch: nn.functional.avg_pool2d(batch, 32) * (float("nan") if batch.any() else 1))


def fails_inside():
    return nn.Conv2d(4, 5, 1)


def fails():
    raise KeyError("no such thing")


def no_module():
    return 3
"""


def _write_network(path, weights=None, *, relu=False, size=("h", "w"), channels=3, also=(), flat=False, inputs=1):
    """Write a network whose map is, cell by cell, the mean of 32 x 32 pixels times `weights` (channels out, in).

    `also` names more outputs (copies of the map), `flat` replaces every output by its mean over the map.
    """
    weights = np.eye(channels) if weights is None else np.asarray(weights, float)
    nodes, last = [("Conv", "picture0 kernel", "sums", {"strides": [32, 32]})], "sums"
    if relu:
        nodes.append(("Relu", last, "positive", {}))
        last = "positive"
    if flat:
        nodes.append(("ReduceMean", last, "flat", {"axes": [2, 3], "keepdims": 0}))
        last = "flat"
    nodes += [("Identity", last, name, {}) for name in ("map", *also)]
    shape = [1, len(weights)] if flat else [1, len(weights), "rows", "columns"]
    taken = {f"picture{i}": [1, channels, *size] for i in range(inputs)}
    made = dict.fromkeys(("map", *also), shape)
    path.write_bytes(onnx_network(nodes, taken, made, {"kernel": cells(weights, 32)}))
    return path


def _write_transformer(path, weights, *, patch=14, prefix=1, size=("h", "w"), also=(), batch=1):
    """Write a network whose tokens are the means of patches times `weights` (channels out, 3) after `prefix` others.

    The tokens before the grid are far from every mean. `also` names copies of the output.
    """
    before = np.full((1, prefix, len(weights)), 1e6, np.float32)
    nodes = [
        ("Conv", "picture kernel", "sums", {"strides": [patch] * 2}),
        ("Reshape", "sums shape", "flat", {}),
        ("Transpose", "flat", "grid", {"perm": [0, 2, 1]}),
        ("Concat", "before grid", "all", {"axis": 1}),
        *(("Identity", "all", name, {}) for name in ("tokens", *also)),
    ]
    arrays = {"kernel": cells(weights, patch), "shape": np.array([0, len(weights), -1]), "before": before}
    made = {name: [batch, "n", len(weights)] for name in ("tokens", *also)}
    path.write_bytes(onnx_network(nodes, {"picture": [batch, 3, *size]}, made, arrays))
    return path


@pytest.fixture(scope="session")
def write_transformer():
    """The function that writes a tiny transformer; the test is skipped where onnx is not installed."""
    pytest.importorskip("onnx")
    return _write_transformer


@pytest.fixture(scope="session")
def write_network():
    """The function that writes a tiny network; the test is skipped where onnx is not installed."""
    pytest.importorskip("onnx")
    return _write_network


@pytest.fixture
def importable(tmp_path, monkeypatch):
    """Write a module and import it, for this test; the test is skipped where torch is not installed."""
    pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.syspath_prepend(tmp_path)
    names = []

    def write(name, text):
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
        names.append(name)
        return import_module(name)

    yield write
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture
def nets(importable):
    """The module of tiny factories, importable as `tiny_nets`."""
    return importable("tiny_nets", FACTORIES)
