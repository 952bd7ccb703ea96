"""Networks small enough that their features are a formula: written as ONNX files, and made by factories for torch."""

import sys

import numpy as np
import pytest

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
    import onnx

    helper, single = onnx.helper, onnx.TensorProto.FLOAT
    weights = np.eye(channels) if weights is None else np.asarray(weights, float)
    kernel = np.broadcast_to(weights[:, :, None, None], (*weights.shape, 32, 32)) / 32**2
    nodes = [helper.make_node("Conv", ["picture0", "kernel"], ["sums"], kernel_shape=[32, 32], strides=[32, 32])]
    last = "sums"
    if relu:
        nodes.append(helper.make_node("Relu", ["sums"], ["positive"]))
        last = "positive"
    if flat:
        nodes.append(helper.make_node("ReduceMean", [last], ["flat"], axes=[2, 3], keepdims=0))
        last = "flat"
    outputs = ["map", *also]
    nodes += [helper.make_node("Identity", [last], [name]) for name in outputs]
    shape = [1, len(weights)] if flat else [1, len(weights), "rows", "columns"]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(f"picture{i}", single, [1, channels, *size]) for i in range(inputs)],
        [helper.make_tensor_value_info(name, single, shape) for name in outputs],
        [onnx.numpy_helper.from_array(kernel.astype(np.float32), "kernel")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())
    return path


def _write_transformer(path, weights, *, patch=14, prefix=1, size=("h", "w"), also=(), batch=1):
    """Write a network whose tokens are the means of patches times `weights` (channels out, 3) after `prefix` others.

    The tokens before the grid are far from every mean. `also` names copies of the output.
    """
    import onnx

    helper, single = onnx.helper, onnx.TensorProto.FLOAT
    weights = np.asarray(weights, float)
    kernel = np.broadcast_to(weights[:, :, None, None], (*weights.shape, patch, patch)) / patch**2
    arrays = {
        "kernel": kernel.astype(np.float32),
        "shape": np.array([0, len(weights), -1]),
        "before": np.full((1, prefix, len(weights)), 1e6, np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["picture", "kernel"], ["sums"], kernel_shape=[patch] * 2, strides=[patch] * 2),
        helper.make_node("Reshape", ["sums", "shape"], ["flat"]),
        helper.make_node("Transpose", ["flat"], ["grid"], perm=[0, 2, 1]),
        helper.make_node("Concat", ["before", "grid"], ["all"], axis=1),
        *(helper.make_node("Identity", ["all"], [name]) for name in ("tokens", *also)),
    ]
    graph = helper.make_graph(
        nodes,
        "transformer",
        [helper.make_tensor_value_info("picture", single, [batch, 3, *size])],
        [helper.make_tensor_value_info(name, single, [batch, "n", len(weights)]) for name in ("tokens", *also)],
        [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())
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
def nets(tmp_path, monkeypatch):
    """The module of tiny factories, importable as `tiny_nets`; the test is skipped where torch is not installed."""
    pytest.importorskip("torch", reason="torch is not installed")
    (tmp_path / "tiny_nets.py").write_text(FACTORIES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "tiny_nets", raising=False)
    import tiny_nets

    yield tiny_nets
    sys.modules.pop("tiny_nets", None)
