"""Small graphs, run by ONNX Runtime; the tests skip where onnx or ONNX Runtime is not installed."""

import numpy as np
import pytest

from lapsvm.detection.onnx_file.assembly import OPSET
from lapsvm.detection.onnx_file.graph import Graph

from ...twins.networks import onnx_network


@pytest.fixture
def run_graph():
    """A function that runs what ``build(graph, *inputs)`` adds to a graph, which is opened once, for arrays."""
    onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    helper = onnx.helper

    opened = {}

    def session_of(build, arrays):
        graph = Graph(onnx)
        inputs = [
            graph.input(f"in{number}", array.dtype, [f"axis{number}_{axis}" for axis in range(array.ndim)])
            for number, array in enumerate(arrays)
        ]
        found = build(graph, *inputs)
        tensors = found if isinstance(found, (tuple, list)) else [found]
        infos = [
            helper.make_tensor_value_info(one.name, helper.np_dtype_to_tensor_dtype(one.dtype), None) for one in tensors
        ]
        model = helper.make_model(
            helper.make_graph(graph.nodes, "test", graph.inputs, infos, graph.initializers),
            opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8,
        )  # fmt: skip
        options = runtime.SessionOptions()
        options.log_severity_level = 3
        session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return session, isinstance(found, (tuple, list))

    def run(build, *arrays):
        if build not in opened:
            opened[build] = session_of(build, arrays)
        session, gives_several = opened[build]
        outputs = session.run(None, {f"in{number}": array for number, array in enumerate(arrays)})
        return outputs if gives_several else outputs[0]

    return run


@pytest.fixture(scope="session")
def write_network():
    """A function that gives an ONNX network with maps of strides 16 and 32 for pictures of any size."""

    def write(opset=13, seed=0):
        rng = np.random.default_rng(seed)
        shapes = {"first": (6, 3, 16, 16), "second": (9, 6, 2, 2)}
        nodes = [
            ("Conv", "picture first", "fine", {"strides": [16, 16]}),
            ("Relu", "fine", "fine_relu", {}),
            ("Conv", "fine_relu second", "sums", {"strides": [2, 2]}),
            ("Relu", "sums", "coarse", {}),
        ]
        maps = {"fine": [1, 6, "fine_r", "fine_c"], "coarse": [1, 9, "coarse_r", "coarse_c"]}
        arrays = {name: rng.normal(size=shape).astype(np.float32) / 10 for name, shape in shapes.items()}
        return onnx_network(nodes, {"picture": [1, 3, "h", "w"]}, maps, arrays, opset)

    return write
