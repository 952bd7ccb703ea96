"""An ONNX graph under construction: tensors with arithmetic, constants, branches and inputs."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

Number = int | float
MOST_ROUNDS = 10_000  # of a loop


def _operator(kind: str, dtype: Any = None) -> Callable[..., "Tensor"]:
    """Return the method of an elementwise function or operator, whose result has the tensor's type by default."""

    def method(self: "Tensor", *others: "Tensor | Number") -> "Tensor":
        return self.graph.op(kind, self, *others, dtype=dtype)

    return method


@dataclass(frozen=True)
class Tensor:
    """A value of a graph, with NumPy's arithmetic.

    Attributes
    ----------
    graph : Graph
    name : str
    dtype : numpy.dtype
    """

    graph: "Graph"
    name: str
    dtype: np.dtype[Any]

    __add__ = _operator("Add")
    __sub__ = _operator("Sub")
    __mul__ = _operator("Mul")
    __truediv__ = _operator("Div")
    __matmul__ = _operator("MatMul")
    __and__ = _operator("And")
    __gt__ = _operator("Greater", bool)
    __lt__ = _operator("Less", bool)
    equals = _operator("Equal", bool)
    minimum = _operator("Min")
    maximum = _operator("Max")
    __invert__ = _operator("Not")
    floor = _operator("Floor")
    round = _operator("Round")  # halves to even
    exp = _operator("Exp")
    log = _operator("Log")
    sqrt = _operator("Sqrt")

    def cast(self, dtype: Any) -> "Tensor":
        """Return the elements in another type."""
        kind = np.dtype(dtype)
        if kind == self.dtype:
            return self
        return self.graph.op("Cast", self, dtype=kind, to=self.graph.onnx.helper.np_dtype_to_tensor_dtype(kind))

    def sum(self, axis: int) -> "Tensor":
        """Return the sums along an axis, which stays with length 1."""
        return self.graph.op("ReduceSum", self, self.graph.constant([axis], np.int64), keepdims=1)

    def largest(self, axis: int) -> "Tensor":
        """Return the largest elements along an axis, which stays with length 1."""
        single = self.graph.constant([1], np.int64)
        return self.graph.ops("TopK", (self.dtype, np.int64), self, single, axis=axis)[0]

    def transposed(self, *axes: int) -> "Tensor":
        """Return the tensor with its axes in another order."""
        return self.graph.op("Transpose", self, perm=list(axes))

    def gather(self, indices: "Tensor", axis: int) -> "Tensor":
        """Return the elements at some indices of an axis."""
        return self.graph.op("Gather", self, indices, axis=axis)

    def at(self, indices: "Tensor") -> "Tensor":
        """Return the elements of a tensor of one axis at some indices (m,).

        In ONNX Runtime `gather` takes ten times as long.
        """
        return self.graph.op("GatherElements", self, indices, axis=0)

    def slice(self, first: int, last: int | None, axis: int) -> "Tensor":
        """Return a slice of an axis, to its end if `last` is None."""
        end = np.iinfo(np.int64).max if last is None else last
        return self.graph.op("Slice", self, *(self.graph.constant([value], np.int64) for value in (first, end, axis)))

    def column(self, first: int, last: int | None = None) -> "Tensor":
        """Return the columns `first` to `last` (exclusive; one by default) of the last axis, which stays."""
        return self.slice(first, last or first + 1, -1)

    def scatter(self, indices: "Tensor", values: "Tensor", how: str = "none") -> "Tensor":
        """Return the tensor with values at some indices of the first axis; `how` combines several values."""
        return self.graph.op("ScatterElements", self, indices, values, axis=0, reduction=how)

    def places(self) -> "Tensor":
        """Return the indices of the true elements, int64 (m,)."""
        return self.graph.op("NonZero", self, dtype=np.int64).reshape(-1)

    def reshape(self, *shape: int) -> "Tensor":
        """Return the elements in another shape; 0 keeps a dimension, -1 takes the rest."""
        return self.graph.op("Reshape", self, self.graph.constant(shape, np.int64))

    def unsqueeze(self, axis: int) -> "Tensor":
        """Return the tensor with a new axis of length 1."""
        return self.graph.op("Unsqueeze", self, self.graph.constant([axis], np.int64))

    def size(self, axis: int) -> "Tensor":
        """Return the length of an axis, int64 without dimensions."""
        shape = self.graph.op("Shape", self, dtype=np.int64)
        return shape.gather(self.graph.constant(axis, np.int64), 0)


class Graph:
    """The nodes, constants and inputs of a graph.

    Parameters
    ----------
    onnx : module

    Attributes
    ----------
    nodes : list
        Those of the graph, or of the branch or loop that is under construction. What is computed before and outside of
        a branch is known in it.
    """

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self._count = 0
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self.initializers: list[Any] = []
        self.inputs: list[Any] = []

    def op(self, kind: str, *operands: "Tensor | Number", dtype: Any = None, **attributes: Any) -> Tensor:
        """Add a node with one output, of the first operand's type by default."""
        first = next(operand for operand in operands if isinstance(operand, Tensor))
        return self.ops(kind, (first.dtype if dtype is None else dtype,), *operands, **attributes)[0]

    def ops(self, kind: str, dtypes: Sequence[Any], *operands: "Tensor | Number", **attributes: Any) -> list[Tensor]:
        """Add a node with an output of each type; a number becomes a constant of the first operand's type."""
        first = next((operand for operand in operands if isinstance(operand, Tensor)), None)
        inputs = [
            operand.name if isinstance(operand, Tensor) else self.constant(operand, first.dtype if first else None).name
            for operand in operands
        ]
        outputs = [Tensor(self, self.new_name(kind), np.dtype(dtype)) for dtype in dtypes]
        names = [output.name for output in outputs]
        # ONNX Runtime 1.20 needs names of nodes
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, names, name=names[0], **attributes))
        return outputs

    def new_name(self, kind: str) -> str:
        """Return a name that no other value has."""
        self._count += 1
        return f"{kind}_{self._count}"

    def constant(self, value: Any, dtype: Any = None) -> Tensor:
        """Return a constant; equal ones are stored once."""
        array = np.asarray(value, dtype=dtype)
        key = array.dtype.str, array.shape, array.tobytes()
        if key not in self._constants:
            self._constants[key] = self.new_name("constant")
            self.initializers.append(self.onnx.numpy_helper.from_array(array, self._constants[key]))
        return Tensor(self, self._constants[key], array.dtype)

    def named(self, name: str, value: float) -> Tensor:
        """Return a number as a constant of its own, float64 (), that may be replaced in the file."""
        self.initializers.append(self.onnx.numpy_helper.from_array(np.asarray(value, np.float64), name))
        return Tensor(self, name, np.dtype(np.float64))

    def input(self, name: str, dtype: Any, shape: Sequence[int | str]) -> Tensor:
        """Return an input of the graph, which callers must give."""
        tensor = Tensor(self, name, np.dtype(dtype))
        self.inputs.append(self.declared(tensor, shape))
        return tensor

    def choose(self, condition: Tensor, then: Callable[[], Tensor], other: Callable[[], Tensor]) -> Tensor:
        """Return the result of one of two branches; the nodes that each adds become its own."""
        branches, dtype = {}, None
        for name, build in (("then_branch", then), ("else_branch", other)):
            with self._inside() as nodes:
                output = self.op("Identity", build())
            dtype = output.dtype
            branches[name] = self.onnx.helper.make_graph(nodes, name, [], [self.declared(output, None)])
        return self.op("If", condition, dtype=dtype, **branches)

    def loop(
        self, state: Sequence[Tensor], body: Callable[..., Sequence[Tensor]], rounds: int = MOST_ROUNDS
    ) -> list[Tensor]:
        """Return the state after rounds of `body`; it gets the state, and gives whether to go on and more.

        The shapes of the state may change from round to round.
        """
        types = [np.dtype(np.int64), np.dtype(bool), *(value.dtype for value in state)]
        before = [Tensor(self, self.new_name("state"), kind) for kind in types]
        with self._inside() as nodes:
            after = [self.op("Identity", value) for value in body(*before[2:])]
        info = [[self.declared(value, [] if index < free else None) for index, value in enumerate(values)]
                for values, free in ((before, 2), (after, 1))]  # fmt: skip
        graph = self.onnx.helper.make_graph(nodes, self.new_name("loop"), *info)
        most, going = self.constant(rounds, np.int64), self.constant(True)
        return self.ops("Loop", types[2:], most, going, *state, body=graph)

    @contextmanager
    def _inside(self) -> Iterator[list[Any]]:
        """Collect the nodes that are added meanwhile, for a graph inside this one."""
        outer, self.nodes = self.nodes, []
        yield self.nodes
        self.nodes = outer

    def declared(self, value: Tensor, shape: Sequence[int | str] | None) -> Any:
        """Return the declaration of an input or output of a graph."""
        helper = self.onnx.helper
        return helper.make_tensor_value_info(value.name, helper.np_dtype_to_tensor_dtype(value.dtype), shape)

    def count(self, length: Tensor) -> Tensor:
        """Return 0, 1, ... below a length, in its type."""
        zero, unit = self.constant(0, length.dtype), self.constant(1, length.dtype)
        return self.ops("Range", (length.dtype,), zero, length, unit)[0]

    def join(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        """Return tensors one after the other along an axis."""
        return self.op("Concat", *tensors, axis=axis)

    def where(self, condition: Tensor, then: Tensor, other: "Tensor | Number") -> Tensor:
        """Return the elements of one of two tensors."""
        rest = other if isinstance(other, Tensor) else self.constant(other, then.dtype)
        return self.ops("Where", (then.dtype,), condition, then, rest)[0]
