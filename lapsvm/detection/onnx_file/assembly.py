"""The detector as one ONNX file: a picture in, boxes, classes, scores and probabilities out."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from lapsvm.arrays import Array
from lapsvm.detection.onnx_file.choosing import Chosen, Limits, choose, positive, spreads
from lapsvm.detection.onnx_file.content import FileContent, NetworkPass
from lapsvm.detection.onnx_file.graph import Graph, Tensor
from lapsvm.detection.onnx_file.grouping import grouped_windows, lattice
from lapsvm.detection.onnx_file.network import EmbeddedNetwork
from lapsvm.detection.onnx_file.pooling import Cells, as_cells, clipped, covered, map_scores
from lapsvm.detection.onnx_file.resizing import Size, network_size, reduced, resized
from lapsvm.errors import import_optional

FORMAT = "lapsvm onnx detector 1"
_IR_VERSION = 8
_HEAT = 0.5  # temperature of the score map in standard deviations of the windows' scores


@dataclass(frozen=True)
class _Scored:
    """The windows of a picture, their scores (k, n), and the finest map that they were pooled from."""

    windows: Tensor
    scores: Tensor
    finest: Cells


def detector_file(content: FileContent, network: bytes, name: str, metadata: Mapping[str, str]) -> bytes:
    """Return an ONNX file that detects objects in pictures, for ONNX Runtime alone.

    Inputs: ``picture`` (height, width, 3) uint8 RGB; these may be left out: ``windows`` (n, 4) float32, in place of its
    own, ``iou_threshold`` (1,) float32, ``score_threshold`` (1,) float32, ``probability_threshold`` (1,) float32,
    ``max_boxes`` (1,) int64 per class.

    Outputs: ``boxes`` (m, 4) float32, x1, y1, x2, y2 in pixels of the picture, half-open; ``classes`` (m,) int64;
    ``scores`` (m,) float32; ``probabilities`` (m,) float32, NaN for a class without calibration; ``score_maps`` (k,
    rows, columns) float32; ``all_windows`` (n, 4) float32 and ``window_scores`` (n, k) float32. Boxes are sorted by
    class, then by descending score.

    Parameters
    ----------
    content : FileContent
    network : bytes
        The ONNX file of the extractor's network.
    name : str
        The network's, for messages.
    metadata : mapping of str to str
        Stored in the file.

    Raises
    ------
    DependencyError
        If the package onnx is not installed.
    DataError, OptionError
        If the network cannot be read, or be part of another file.
    """
    onnx = import_optional("onnx", "the ONNX format needs the package onnx", "photos")
    embedded = EmbeddedNetwork.read(onnx, network, name)
    graph = Graph(onnx)
    picture = graph.input("picture", np.uint8, ["height", "width", 3])
    given = graph.input("windows", np.float32, ["given", 4], np.zeros((0, 4)))
    limits = Limits(
        graph.input("iou_threshold", np.float32, [1], np.array([content.rules[0].nms_threshold])),
        graph.input("score_threshold", np.float32, [1], np.array([np.finfo(np.float32).min])),
        graph.input("probability_threshold", np.float32, [1], np.zeros(1)),
        graph.input("max_boxes", np.int64, [1], np.array([max(own.max_detections for own in content.rules)])),
    )
    scored = _scored_windows(graph, content, embedded, picture, given)
    calibrations = [detector.calibration for detector in content.detectors]
    chosen = choose(graph, scored.windows, scored.scores, content.rules, calibrations, limits)
    outputs = _outputs(graph, content, chosen, scored)
    model = onnx.helper.make_model(
        onnx.helper.make_graph(graph.nodes, "lapsvm_detector", graph.inputs, outputs, graph.initializers),
        opset_imports=embedded.model.opset_import,
        functions=embedded.model.functions,
        ir_version=max(_IR_VERSION, embedded.model.ir_version),
        producer_name="lapsvm",
    )
    onnx.helper.set_model_props(model, dict(metadata))
    serialised: bytes = model.SerializeToString(deterministic=True)
    return serialised


def _scored_windows(
    graph: Graph, content: FileContent, network: EmbeddedNetwork, picture: Tensor, given: Tensor
) -> _Scored:
    """Return the windows of a picture and their scores by all maps."""
    network.add_weights(graph)
    planes = picture.transposed(2, 0, 1).cast(np.float32)
    size = Size.of(planes)
    windows = _windows(graph, planes, given, content.max_area)
    inside = clipped(windows, size.height, size.width)
    seen = reduced(graph, planes, content.max_side)
    found: list[tuple[Cells, Tensor]] = []
    for number, one in enumerate(content.passes):
        maps = network.run(graph, _batch(graph, seen, one), list(one.maps), f"pass{number}")
        for name, weights in one.maps.items():
            cells = as_cells(maps[name], inside, size.height, size.width)
            found.append((cells, map_scores(cells, weights)))
    finest = found[len(content.passes[0].maps) - 1][0]  # the last map of the first pass
    intercepts = graph.constant(np.array([detector.intercept for detector in content.detectors]))
    scores = reduce(add, [part for _, part in found]).cast(np.float64) + intercepts
    return _Scored(windows, scores.transposed(1, 0), finest)


def _windows(graph: Graph, planes: Tensor, given: Tensor, max_area: float) -> Tensor:
    """Return the windows (n, 4) in pixels, float64: those of the caller, or of the picture's regions and a lattice."""
    size = Size.of(planes)

    def own() -> Tensor:
        regions = grouped_windows(graph, planes, max_area)
        shares = graph.join([regions, graph.constant(lattice(max_area))], 0)
        return shares * graph.join([side.reshape(1) for side in (size.width, size.height)] * 2, 0)

    return graph.choose(given.size(0) > 0, lambda: given.cast(np.float64), own)


def _batch(graph: Graph, planes: Tensor, one: NetworkPass) -> Tensor:
    """Return the network's input (1, 3, h, w)."""
    wanted = network_size(Size.of(planes), one.size, one.multiple)
    found = resized(graph, planes, wanted)
    if one.order == "bgr":
        found = found.gather(graph.constant([2, 1, 0], np.int64), 0)
    mean, scale = (_channels(graph, values) for values in (one.mean, one.scale))
    return ((found - mean) * scale).unsqueeze(0)


def _channels(graph: Graph, values: tuple[float, ...]) -> Tensor:
    return graph.constant(np.array(values, dtype=np.float32)[:, None, None])


def _score_maps(graph: Graph, scored: _Scored) -> Tensor:
    """Return for every cell the mean score of the windows that cover it, the best counting most, (k, rows, columns)."""
    highest, spread = scored.scores.largest(1), spreads(scored.scores)
    weights = ((scored.scores - highest) / positive(spread * _HEAT)).exp()
    total = covered(scored.finest, weights.cast(np.float32))
    sums = covered(scored.finest, (weights * scored.scores).cast(np.float32))
    lowest = (scored.scores * -1.0).largest(1) * -1.0
    return graph.where(total > 1e-30, sums / positive(total), lowest.cast(np.float32).unsqueeze(2))


def _outputs(graph: Graph, content: FileContent, chosen: Chosen, scored: _Scored) -> list[Array]:
    """Name the outputs and return what declares them."""
    k = len(content.detectors)
    declared: dict[str, tuple[Tensor, list[int | str]]] = {
        "boxes": (chosen.boxes, ["found", 4]),
        "classes": (chosen.classes, ["found"]),
        "scores": (chosen.scores, ["found"]),
        "probabilities": (chosen.probabilities, ["found"]),
        "score_maps": (_score_maps(graph, scored), [k, "rows", "columns"]),
        "all_windows": (scored.windows.cast(np.float32), ["windows", 4]),
        "window_scores": (scored.scores.transposed(1, 0).cast(np.float32), ["windows", k]),
    }
    infos = []
    for name, (tensor, shape) in declared.items():
        graph.nodes.append(graph.onnx.helper.make_node("Identity", [tensor.name], [name]))
        infos.append(graph.declared(Tensor(graph, name, tensor.dtype), shape))
    return infos
