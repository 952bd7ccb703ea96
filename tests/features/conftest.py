"""ONNX networks small enough that their features are a formula."""

import numpy as np
import pytest


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


@pytest.fixture(scope="session")
def write_network():
    """The function that writes a tiny network; the test is skipped where onnx is not installed."""
    pytest.importorskip("onnx")
    return _write_network
