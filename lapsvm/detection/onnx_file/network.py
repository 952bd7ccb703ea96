"""A network's graph inside another graph, several times with one copy of its weights."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lapsvm.detection.onnx_file.graph import Graph, Tensor
from lapsvm.errors import DataError, OptionError

LEAST_OPSET = 13  # of a network
OPSET = 18  # of the file, or later: scattered minima
_SUBGRAPHS = (5, 10)  # attribute types GRAPH and GRAPHS


@dataclass(frozen=True, eq=False)
class EmbeddedNetwork:
    """A network that is to be part of a file.

    Attributes
    ----------
    onnx : module
    model : onnx.ModelProto
        With one input (1, 3, height, width) of any size.
    """

    onnx: Any
    model: Any

    @classmethod
    def read(cls, onnx: Any, content: bytes, name: str) -> "EmbeddedNetwork":
        """Return the network of an ONNX file.

        Raises
        ------
        DataError
            If the file cannot be read.
        OptionError
            If the network cannot be part of another file.
        """
        try:
            model = onnx.load_model_from_string(content)
        except Exception as error:  # noqa: BLE001 - protobuf's own exceptions differ between its backends
            raise DataError(f"network {name} is no ONNX file that can be read: {type(error).__name__}.") from None
        opset = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=0)
        if opset < LEAST_OPSET:
            raise OptionError(f"network {name} must have opset {LEAST_OPSET} or later to be exported, got {opset}.")
        branching = [node.op_type for node in model.graph.node if any(a.type in _SUBGRAPHS for a in node.attribute)]
        if branching:
            raise OptionError(f"network {name} must be without branches and loops to be exported, got {branching[0]}.")
        return cls(onnx, _converted(model, name) if opset < OPSET else model)

    def run(self, graph: Graph, batch: Tensor, outputs: Sequence[str], prefix: str) -> dict[str, Tensor]:
        """Add the network's nodes; return the outputs by name, float32."""
        weights = {entry.name for entry in self.model.graph.initializer}
        names = {name: f"network/{name}" for name in weights}
        (picture,) = (entry.name for entry in self.model.graph.input if entry.name not in weights)
        names[picture] = batch.name
        for node in self.model.graph.node:
            names |= {name: f"{prefix}/{name}" for name in node.output if name}
        graph.nodes += [self._renamed(node, names, prefix) for node in self.model.graph.node]
        return {name: Tensor(graph, names[name], np.dtype(np.float32)) for name in outputs}

    def add_weights(self, graph: Graph) -> None:
        """Add the network's weights to the file, once."""
        for entry in self.model.graph.initializer:
            copied = self.onnx.TensorProto()
            copied.CopyFrom(entry)
            copied.name = f"network/{entry.name}"
            graph.initializers.append(copied)

    def _renamed(self, node: Any, names: Mapping[str, str], prefix: str) -> Any:
        """Return a node with other names."""
        copied = self.onnx.NodeProto()
        copied.CopyFrom(node)
        copied.name = f"{prefix}/{node.name}" if node.name else ""
        copied.input[:] = [names.get(name, name) for name in node.input]
        copied.output[:] = [names.get(name, name) for name in node.output]
        return copied


def _converted(model: Any, name: str) -> Any:
    """Return a network of the file's opset."""
    from onnx import version_converter

    try:
        return version_converter.convert_version(model, OPSET)
    except Exception as error:  # noqa: BLE001 - the converter's own exceptions
        raise OptionError(
            f"network {name} must have opset {OPSET}, or one that onnx converts to it, to be exported: {error}."
        ) from None
