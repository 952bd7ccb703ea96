"""Messages against the package onnx: the same bytes for any names, shapes and numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapsvm.features.extractors.efficientnet import protobuf

onnx = pytest.importorskip("onnx", reason="onnx is not installed")

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200)
NUMBERS = st.integers(0, 2**40)


def content(message):
    return message.SerializeToString(deterministic=True)


@given(
    NAMES, st.lists(NAMES, max_size=3), NAMES, st.dictionaries(NAMES, NUMBERS | NAMES | st.lists(NUMBERS, min_size=1))
)
def test_a_node_is_that_of_onnx(kind, inputs, output, attributes):
    expected = onnx.helper.make_node(kind, inputs, [output], **attributes)
    assert protobuf.node(kind, inputs, output, attributes) == content(expected)


@given(NAMES, st.lists(st.integers(0, 5), max_size=4))
def test_weights_are_those_of_onnx(name, shape):
    values = np.random.default_rng(len(name)).normal(size=shape).astype(np.float32)
    assert protobuf.tensor(name, values) == content(onnx.numpy_helper.from_array(values, name))


@given(NAMES, st.lists(NUMBERS | NAMES, min_size=1, max_size=4))
def test_an_input_is_that_of_onnx(name, shape):
    expected = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
    assert protobuf.value(name, shape) == content(expected)


def test_a_model_is_that_of_onnx():
    put, got = (protobuf.value(name, [1, "n"]) for name in ("put", "got"))
    weight = np.ones((2, 300), np.float32)
    made = protobuf.graph(
        "net", [protobuf.node("Relu", ["put"], "got", {})], [protobuf.tensor("w", weight)], [put], [got]
    )
    entries = [[onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, "n"])] for name in ("put", "got")]
    nodes, weights = [onnx.helper.make_node("Relu", ["put"], ["got"])], [onnx.numpy_helper.from_array(weight, "w")]
    graph = onnx.helper.make_graph(nodes, "net", *entries, weights)
    expected = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    assert protobuf.model(made, 8, 13) == content(expected)
