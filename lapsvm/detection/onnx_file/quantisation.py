"""A network in whole numbers of 8 bits: smaller and faster, with nearly the same maps.

Weights are int8, one scale for each channel; what flows between layers is uint8, in the range that it has on some
pictures (B. Jacob et al., "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only
Inference", CVPR 2018). The first layers stay float32: they see the picture itself, cost little and lose most.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lapsvm.arrays import Array, Float32
from lapsvm.detection.onnx_file.assembly import load_onnx
from lapsvm.detection.onnx_file.content import FileContent, NetworkPass
from lapsvm.errors import DataError, LapsvmError, import_optional, one_line
from lapsvm.features.extractors.maps.letterbox import network_size
from lapsvm.features.extractors.networks import load_runtime
from lapsvm.features.extractors.picture import Colours, resized
from lapsvm.windows.proposals import reduced

FLOAT_LAYERS = 3  # convolutions before the first one in whole numbers
_LAYERS = ("Conv", "Gemm", "MatMul")
_PREPROCESSED = "onnx.quant.pre_process"  # the key without which ONNX Runtime prints advice


def quantised_network(network: bytes, name: str, content: FileContent, pictures: Iterable[Array]) -> bytes:
    """Return a network whose layers compute in 8 bits, as an ONNX file with the maps that a detector's file needs.

    Parameters
    ----------
    network : bytes
        Its ONNX file, with one input (1, 3, height, width) of any size.
    name : str
        The network's, for messages.
    content : FileContent
        Whose passes see the pictures at their sizes.
    pictures : iterable of ndarray of shape (h, w, 3), uint8 RGB
        On which the ranges between layers are measured; one at least.

    Raises
    ------
    DependencyError
        If onnx or ONNX Runtime is not installed.
    DataError
        If ONNX Runtime cannot do it.
    """
    onnx, tools = load_onnx(), load_quantisation()
    model, first = _prepared(onnx, network, content)
    picture = _picture_name(model)
    batches = ({picture: batch} for pixels in pictures for batch in network_inputs(pixels, content))
    with TemporaryDirectory() as folder:
        to = Path(folder) / "network.onnx"
        try:
            tools.quantize_static(
                model, to, _reader(tools, batches), quant_format=tools.QuantFormat.QDQ, per_channel=True,
                activation_type=tools.QuantType.QUInt8, weight_type=tools.QuantType.QInt8, nodes_to_exclude=first,
            )  # fmt: skip
        except LapsvmError:  # of the pictures
            raise
        except Exception as error:  # noqa: BLE001 - its exceptions share no other base
            raise DataError(f"network {name} cannot be computed in int8: {one_line(error)}.") from None
        return to.read_bytes()


def check_packages(*, in_8_bits: bool) -> None:
    """Raise DependencyError unless the packages that write and run a detector's file can be imported."""
    load_onnx()
    load_runtime("an exported detector needs ONNX Runtime", "photos")
    if in_8_bits:
        load_quantisation()


def load_quantisation() -> Any:
    """Return ONNX Runtime's tools. Raises DependencyError if they, or their imports, are not installed."""
    load_runtime("int8 needs onnxruntime", "photos")
    return import_optional("onnxruntime.quantization", "int8 needs ONNX Runtime's quantization", "photos")


def network_inputs(pixels: Array, content: FileContent) -> Iterator[Float32]:
    """Yield the input of each pass's network for a picture, float32 (1, 3, h, w)."""
    seen = reduced(pixels, content.max_side)
    for network_pass in content.passes:
        yield _network_input(seen, network_pass)


def _network_input(seen: Array, network_pass: NetworkPass) -> Float32:
    """Return the network input of one pass for a picture."""
    size = network_size(seen.shape[0], seen.shape[1], network_pass.size, network_pass.multiple)
    colours = Colours(network_pass.order, network_pass.mean, network_pass.scale)
    return colours(resized(seen, *size))[None]


def _prepared(onnx: Any, network: bytes, content: FileContent) -> tuple[Any, list[str]]:
    """Return the network with the maps that are needed and names for all nodes, and the names of its first layers."""
    model = onnx.load_model_from_string(network)
    needed = {name for network_pass in content.passes for name in network_pass.maps}
    kept = [output for output in model.graph.output if output.name in needed]
    del model.graph.output[:]
    model.graph.output.extend(kept)
    for number, node in enumerate(model.graph.node):
        node.name = f"{node.op_type}_{number}"
    layers = [number for number, node in enumerate(model.graph.node) if node.op_type in _LAYERS]
    stop = layers[FLOAT_LAYERS] if len(layers) > FLOAT_LAYERS else 0
    onnx.helper.set_model_props(model, {_PREPROCESSED: "onnxruntime.quant"})
    return model, [node.name for node in model.graph.node[:stop]]


def _picture_name(model: Any) -> str:
    """Return the name of the input that is no weight."""
    weights = {entry.name for entry in model.graph.initializer}
    (picture,) = (entry.name for entry in model.graph.input if entry.name not in weights)
    return str(picture)


def _reader(tools: Any, batches: Iterator[dict[str, Float32]]) -> Any:
    """Return the reader of batches for ONNX Runtime."""

    class Batches(tools.CalibrationDataReader):  # type: ignore[misc]
        def get_next(self) -> dict[str, Float32] | None:
            return next(batches, None)

    return Batches()
