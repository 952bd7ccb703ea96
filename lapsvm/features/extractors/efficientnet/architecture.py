"""EfficientNet-Lite0 as an ONNX network with several maps, its batch norms folded into the convolutions.

M. Tan and Q. Le, EfficientNet, ICML 2019; the Lite family leaves out squeeze-and-excitation and uses ReLU6. Padding is
TensorFlow's "same": it depends on the size of what comes in, so the network says SAME_UPPER and every size is right.
"""

from collections.abc import Mapping
from itertools import groupby

import numpy as np

from lapsvm.arrays import Array
from lapsvm.features.extractors.efficientnet import protobuf

_STRIDES = (1, 2, 2, 2, 1, 2, 1)  # of the first block of each stage; the shapes of the weights say all else
MAPS = {"stride8": 40, "stride16": 112, "stride16_expanded": 672, "stride32": 1280}
"""The maps by name, and their channels: three outputs of blocks or their last layers, and what block 12 expands to."""

INPUT, NAME = "picture", "efficientnet_lite0"
_EPSILON = 1e-3
_IR_VERSION, _OPSET = 8, 13


def onnx_network(tensors: Mapping[str, Array], name: str = NAME) -> bytes:
    """Return an ONNX file with the outputs of `MAPS`, for a batch (1, 3, h, w) of any size.

    The same tensors give the same bytes, those of the package onnx.

    Parameters
    ----------
    tensors : mapping of str to ndarray
        The checkpoint's state dict; of Lite0, or of a larger one of the family, whose maps have more channels.
    name : str, default "efficientnet_lite0"
        Of the graph.
    """
    graph = _Graph(tensors)
    _add_layers(graph)
    return protobuf.model(graph.finished(name), _IR_VERSION, _OPSET)


def _add_layers(graph: "_Graph") -> None:
    """Add every layer, from the picture to the widest map."""
    last, stages = graph.convolution(INPUT, "_conv_stem", "_bn0", stride=2), _stages(graph.tensors)
    names = {stages[2][-1]: "stride8", stages[4][-1]: "stride16"}
    for stride, numbers in zip(_STRIDES, stages, strict=True):
        for number in numbers:
            expanded = "stride16_expanded" if number == stages[5][0] else None
            first = number == numbers[0]
            last = _add_block(graph, last, number, stride if first else 1, not first, expanded, names.get(number))
    graph.convolution(last, "_conv_head", "_bn1", name="stride32")


def _stages(tensors: Mapping[str, Array]) -> list[list[int]]:
    """Return the numbers of the blocks of each stage, whose outputs have as many channels."""
    count = sum(layer.endswith("._project_conv.weight") for layer in tensors)
    widths = [len(tensors[f"_blocks.{number}._project_conv.weight"]) for number in range(count)]
    return [list(numbers) for _, numbers in groupby(range(count), widths.__getitem__)]


def _add_block(
    graph: "_Graph", before: str, number: int, stride: int, adds: bool, expanded: str | None, name: str | None
) -> str:
    """Add an inverted residual block: expand, filter each channel, project; return its output's name."""
    block, last = f"_blocks.{number}", before
    if f"{block}._expand_conv.weight" in graph.tensors:
        last = graph.convolution(last, f"{block}._expand_conv", f"{block}._bn0", name=expanded)
    last = graph.convolution(last, f"{block}._depthwise_conv", f"{block}._bn1", stride, by_channel=True)
    last = graph.convolution(last, f"{block}._project_conv", f"{block}._bn2", linear=True, name=None if adds else name)
    return graph.add(before, last, block, name) if adds else last


class _Graph:
    """The nodes and weights of an ONNX graph that is being made."""

    def __init__(self, tensors: Mapping[str, Array]) -> None:
        self.tensors = tensors
        self._nodes: list[bytes] = []
        self._channels: dict[str, int] = {}
        self._weights = [self._weight("zero", np.zeros(())), self._weight("six", np.full((), 6.0))]

    def convolution(
        self, before: str, layer: str, norm: str, stride: int = 1, *, by_channel: bool = False,
        linear: bool = False, name: str | None = None,
    ) -> str:  # fmt: skip
        """Add a convolution with its batch norm folded in, and ReLU6 unless linear; return its output's name."""
        kernel, bias = folded(self.tensors, layer, norm)
        self._weights += [self._weight(f"{layer}.weight", kernel), self._weight(f"{layer}.bias", bias)]
        output = name or f"{layer}.output"
        self._channels[output] = len(kernel)
        sums = output if linear else f"{layer}.sums"
        self._add("Conv", [before, f"{layer}.weight", f"{layer}.bias"], sums, auto_pad="SAME_UPPER",
                  group=len(kernel) if by_channel else 1, kernel_shape=list(kernel.shape[2:]),
                  strides=[stride, stride])  # fmt: skip
        if not linear:
            self._add("Clip", [sums, "zero", "six"], output)
        return output

    def add(self, first: str, second: str, block: str, name: str | None) -> str:
        """Add the sum of two maps; return its name."""
        self._add("Add", [second, first], name or f"{block}.sum")
        self._channels[name or f"{block}.sum"] = self._channels[second]
        return name or f"{block}.sum"

    def finished(self, name: str) -> bytes:
        """Return the graph."""
        picture = protobuf.value(INPUT, [1, 3, "height", "width"])
        maps = [
            protobuf.value(output, (1, self._channels[output], f"{output}_rows", f"{output}_columns"))
            for output in MAPS
        ]
        return protobuf.graph(name, self._nodes, self._weights, [picture], maps)

    def _add(self, kind: str, inputs: list[str], output: str, **attributes: protobuf.Attribute) -> None:
        self._nodes.append(protobuf.node(kind, inputs, output, attributes))

    def _weight(self, name: str, values: Array) -> bytes:
        return protobuf.tensor(name, np.ascontiguousarray(values, np.float32))


def folded(tensors: Mapping[str, Array], layer: str, norm: str) -> tuple[Array, Array]:
    """Return the kernel and bias, float64, of a convolution that includes the batch norm behind it."""
    gain, shift, mean, variance = (
        tensors[f"{norm}.{tensor}"].astype(np.float64) for tensor in ("weight", "bias", "running_mean", "running_var")
    )
    scale = gain / np.sqrt(variance + _EPSILON)
    return tensors[f"{layer}.weight"] * scale[:, None, None, None], shift - mean * scale
