"""Networks of strangers: a loop that never ends, and a file that is larger than any, are refused before they run."""

import pytest

from lapsvm.errors import DataError
from lapsvm.features.extractors.networks import LARGEST_NETWORK, check_self_contained
from lapsvm.features.extractors.pooled_network import open_pooled_network
from lapsvm.features.extractors.specs import Machine, parse_spec

onnx = pytest.importorskip("onnx")


def looping(rounds, inside=False):
    """Return a network with a loop of some rounds ("" for any number), perhaps in the branch of a condition."""
    make, kinds = onnx.helper, onnx.TensorProto
    flag = make.make_tensor_value_info("go", kinds.BOOL, [])
    body = make.make_graph(
        [make.make_node("Identity", ["on"], ["go"])],
        "body",
        [make.make_tensor_value_info("i", kinds.INT64, []), make.make_tensor_value_info("on", kinds.BOOL, [])],
        [flag],
    )
    nodes = [make.make_node("Loop", [rounds, "yes"], [], body=body)]
    if inside:
        branch = make.make_graph(nodes, "branch", [], [])
        nodes = [make.make_node("If", ["yes"], [], then_branch=branch, else_branch=branch)]
    picture = make.make_tensor_value_info("picture", kinds.FLOAT, [1, 3, None, None])
    values = [make.make_tensor("yes", kinds.BOOL, [], [True]), make.make_tensor("three", kinds.INT64, [], [3])]
    graph = make.make_graph(nodes, "graph", [picture], [picture], values)
    return make.make_model(graph).SerializeToString()


@pytest.mark.parametrize("inside", [False, True])
def test_a_loop_without_a_limit_is_refused(inside):
    with pytest.raises(DataError, match="network a must end: a node Loop of it has no limit of its rounds"):
        check_self_contained("a", looping("", inside))
    check_self_contained("a", looping("three", inside))


def test_a_file_larger_than_the_format_takes_is_not_read(tmp_path):
    with (tmp_path / "a.onnx").open("wb") as file:
        file.truncate(LARGEST_NETWORK + 1)
    with pytest.raises(DataError, match="must have at most 2,147,483,648 bytes, got 2,147,483,649"):
        open_pooled_network(parse_spec(f"onnx:{tmp_path / 'a.onnx'}"), Machine())
