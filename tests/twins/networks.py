"""Small ONNX networks: nodes, inputs and outputs by name."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

Node = tuple[str, str, str, dict[str, Any]]
Shapes = Mapping[str, Sequence[int | str | None] | None]


def onnx_network(
    nodes: Iterable[Node], inputs: Shapes, outputs: Shapes, arrays: Mapping[str, np.ndarray], opset: int = 13
) -> bytes:
    """Return an ONNX file; skip the test where onnx is not installed.

    A node is its operator, the names that go in, the names that come out, each separated by blanks, and its attributes.
    Inputs and outputs are shapes of float32 by name.
    """
    onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
    helper, single = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node(kind, given.split(), made.split(), **more) for kind, given, made, more in nodes],
        "tiny",
        [helper.make_tensor_value_info(name, single, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, single, shape) for name, shape in outputs.items()],
        [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return model.SerializeToString()


def cells(weights: np.ndarray, side: int) -> np.ndarray:
    """Return the kernel of a convolution that gives means of cells, of `side` x `side` pixels, times weights."""
    weights = np.asarray(weights, np.float32)
    return np.ascontiguousarray(np.broadcast_to(weights[:, :, None, None], (*weights.shape, side, side))) / side**2
