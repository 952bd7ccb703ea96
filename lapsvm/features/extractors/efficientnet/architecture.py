"""EfficientNet-Lite0 as an ONNX network with several maps, its batch norms folded into the convolutions.

M. Tan and Q. Le, EfficientNet, ICML 2019; the Lite family leaves out squeeze-and-excitation and uses ReLU6. Padding is
TensorFlow's "same": it depends on the size of what comes in, so the network says SAME_UPPER and every size is right.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from lapsvm.arrays import Array
from lapsvm.errors import DependencyError, install_extra

# kernel, stride of the first block, expansion, channels, blocks
_STAGES = (
    (3, 1, 1, 16, 1),
    (3, 2, 6, 24, 2),
    (5, 2, 6, 40, 2),
    (3, 2, 6, 80, 3),
    (5, 1, 6, 112, 3),
    (5, 2, 6, 192, 4),
    (3, 1, 6, 320, 1),
)
MAPS = {"stride8": 40, "stride16": 112, "stride16_expanded": 672, "stride32": 1280}
"""The maps by name, and their channels: three outputs of blocks or their last layers, and what block 12 expands to."""

INPUT = "picture"
_STRIDE8, _STRIDE16, _EXPANDED = 4, 10, 11  # blocks, the first is 0
_EPSILON = 1e-3
_IR_VERSION, _OPSET = 8, 13


def onnx_network(tensors: Mapping[str, Array]) -> bytes:
    """Return an ONNX file with the outputs of `MAPS`, for a batch (1, 3, h, w) of any size.

    The same tensors give the same bytes.

    Parameters
    ----------
    tensors : mapping of str to ndarray
        The checkpoint's state dict.

    Raises
    ------
    DependencyError
        If the package onnx is not installed.
    """
    try:
        import onnx
    except ImportError:
        raise DependencyError(
            f"network efficientnet_lite0 needs the package onnx, which is not installed; {install_extra('photos')}."
        ) from None
    graph = _Graph(onnx, tensors)
    _add_layers(graph)
    model = onnx.helper.make_model(
        graph.finished(), opset_imports=[onnx.helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION
    )
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def _add_layers(graph: "_Graph") -> None:
    """Add every layer, from the picture to the widest map."""
    last = graph.convolution(INPUT, "_conv_stem", "_bn0", stride=2)
    channels, number = 32, 0
    for kernel, stride, expansion, width, count in _STAGES:
        for first in (True, *(False,) * (count - 1)):
            last = _add_block(graph, last, number, stride if first else 1, channels, (kernel, expansion, width))
            channels, number = width, number + 1
    graph.convolution(last, "_conv_head", "_bn1", name="stride32")


def _add_block(
    graph: "_Graph", before: str, number: int, stride: int, channels: int, shape: tuple[int, int, int]
) -> str:
    """Add an inverted residual block: expand, filter each channel, project; return its output's name."""
    kernel, expansion, width = shape
    block, last = f"_blocks.{number}", before
    if expansion > 1:
        name = "stride16_expanded" if number == _EXPANDED else None
        last = graph.convolution(last, f"{block}._expand_conv", f"{block}._bn0", name=name)
    graph.expect(f"{block}._depthwise_conv", (channels * expansion, 1, kernel, kernel))
    last = graph.convolution(last, f"{block}._depthwise_conv", f"{block}._bn1", stride, groups=channels * expansion)
    graph.expect(f"{block}._project_conv", (width, channels * expansion, 1, 1))
    name = {_STRIDE8: "stride8", _STRIDE16: "stride16"}.get(number)
    adds = stride == 1 and width == channels
    last = graph.convolution(last, f"{block}._project_conv", f"{block}._bn2", linear=True, name=None if adds else name)
    return graph.add(before, last, block, name) if adds else last


class _Graph:
    """The nodes and weights of an ONNX graph that is being made."""

    def __init__(self, onnx: Any, tensors: Mapping[str, Array]) -> None:
        self._onnx, self._tensors = onnx, tensors
        self._nodes: list[Any] = []
        self._weights = [self._weight("zero", np.zeros(())), self._weight("six", np.full((), 6.0))]

    def expect(self, layer: str, shape: tuple[int, ...]) -> None:
        """Raise unless a layer's weight has a shape: the checkpoint is another network's, our mistake."""
        found = self._tensors[f"{layer}.weight"].shape
        if found != shape:
            raise AssertionError(f"{layer} must be {shape}, got {found}")

    def convolution(
        self, before: str, layer: str, norm: str, stride: int = 1, groups: int = 1, *, linear: bool = False,
        name: str | None = None,
    ) -> str:  # fmt: skip
        """Add a convolution with its batch norm folded in, and ReLU6 unless linear; return its output's name."""
        kernel, bias = folded(self._tensors, layer, norm)
        self._weights += [self._weight(f"{layer}.weight", kernel), self._weight(f"{layer}.bias", bias)]
        output = name or f"{layer}.output"
        sums = output if linear else f"{layer}.sums"
        self._add("Conv", [before, f"{layer}.weight", f"{layer}.bias"], sums, auto_pad="SAME_UPPER", group=groups,
                  kernel_shape=list(kernel.shape[2:]), strides=[stride, stride])  # fmt: skip
        if not linear:
            self._add("Clip", [sums, "zero", "six"], output)
        return output

    def add(self, first: str, second: str, block: str, name: str | None) -> str:
        """Add the sum of two maps; return its name."""
        self._add("Add", [second, first], name or f"{block}.sum")
        return name or f"{block}.sum"

    def finished(self) -> Any:
        """Return the graph."""
        helper, single = self._onnx.helper, self._onnx.TensorProto.FLOAT
        picture = helper.make_tensor_value_info(INPUT, single, [1, 3, "height", "width"])
        maps = [
            helper.make_tensor_value_info(name, single, [1, channels, f"{name}_rows", f"{name}_columns"])
            for name, channels in MAPS.items()
        ]
        return helper.make_graph(self._nodes, "efficientnet_lite0", [picture], maps, self._weights)

    def _add(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> None:
        self._nodes.append(self._onnx.helper.make_node(kind, inputs, [output], **attributes))

    def _weight(self, name: str, values: Array) -> Any:
        return self._onnx.numpy_helper.from_array(np.ascontiguousarray(values, dtype=np.float32), name)


def folded(tensors: Mapping[str, Array], layer: str, norm: str) -> tuple[Array, Array]:
    """Return the kernel and bias of a convolution that does what it and the batch norm behind it do, float64."""
    gain, shift, mean, variance = (
        tensors[f"{norm}.{part}"].astype(np.float64) for part in ("weight", "bias", "running_mean", "running_var")
    )
    scale = gain / np.sqrt(variance + _EPSILON)
    return tensors[f"{layer}.weight"] * scale[:, None, None, None], shift - mean * scale
