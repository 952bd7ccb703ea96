"""The detector as one ONNX file: a picture in, boxes, classes, scores and probabilities out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from lapsvm.arrays import Array, check_known
from lapsvm.detection.onnx_file.choosing import Chosen, Limits, choose, positive, sized, spreads
from lapsvm.detection.onnx_file.content import FileContent, NetworkPass, memory_pass
from lapsvm.detection.onnx_file.contrast import contrast_windows
from lapsvm.detection.onnx_file.deciding import class_probabilities, decide, distance_to_good, is_varied
from lapsvm.detection.onnx_file.graph import Graph, Tensor
from lapsvm.detection.onnx_file.grouping import grouped_windows, lattice
from lapsvm.detection.onnx_file.pooling import MANY_CHANNELS, Cells, Levels, as_cells, clipped, covered, map_scores
from lapsvm.detection.onnx_file.resizing import Size, network_size, reduced, resized
from lapsvm.detection.scoring import picture_detectors
from lapsvm.errors import DataError, OptionError, import_optional

FORMAT = "lapsvm onnx detector 2"
INPUTS = "picture", "all"
LEAST_OPSET = 13  # of a network
OPSET = 18  # of the file, or later: scattered minima
_SUBGRAPHS = (5, 10)  # attribute types GRAPH and GRAPHS
_IR_VERSION = 8
FINE_WINDOWS = 50  # of contrast
_HEAT = 0.5  # temperature of the score map in standard deviations of the windows' scores


@dataclass(frozen=True)
class _Scored:
    """The windows of a picture, their scores (k, n), the finest map they were pooled from, and whether they count.

    The windows of the file itself always count. Their scores (n, p) by picture models are there if the file decides.
    """

    windows: Tensor
    scores: Tensor
    finest: Cells
    counts: Tensor | None
    by_models: Tensor | None


def load_onnx() -> Any:
    """Return the package onnx. Raises DependencyError if it is not installed."""
    return import_optional("onnx", "the ONNX format needs the package onnx", "photos")


def detector_file(
    content: FileContent, network: bytes, name: str, metadata: Mapping[str, str], inputs: str = "picture"
) -> bytes:
    """Return an ONNX file that detects objects in pictures, for ONNX Runtime alone.

    Inputs: ``picture`` (height, width, 3) uint8 RGB. With inputs "all" also, none of which may be left out:
    ``windows`` (n, 4) float32, in place of its own, without those that are not finite or have no area in the picture,
    with n of 0 its own; ``iou_threshold`` (1,) float32, ``score_threshold`` (1,) float32, ``probability_threshold``
    (1,) float32, of which NaN is the default; ``max_boxes`` (1,) int64 per class, of which 0 is the default. No input
    has an initial value: ONNX Runtime would warn of each, and not all of its languages would pass it on.

    Outputs: ``boxes`` (m, 4) float32, x1, y1, x2, y2 in pixels of the picture, half-open; ``classes`` (m,) int64;
    ``scores`` (m,) float32; ``probabilities`` (m,) float32, NaN for a class without calibration; ``score_maps`` (k,
    rows, columns) float32; ``all_windows`` (n, 4) float32 and ``window_scores`` (n, k) float32. Boxes are sorted by
    class, then by descending score. With an alarm also ``decision`` (1,) int64, 0 for ok, k for the k-th class, -1 for
    unknown, and ``probability`` (1,) float32, of the most probable class. With a memory of good pictures also
    ``heatmap`` (rows, columns) float32, the distances of the picture's parts to them: that of the picture is the mean
    of their highest tenth.

    Parameters
    ----------
    content : FileContent
    network : bytes
        The ONNX file of the extractor's network.
    name : str
        The network's, for messages.
    metadata : mapping of str to str
        Stored in the file.
    inputs : str, default "picture"
        "picture" or "all".

    Raises
    ------
    DependencyError
        If the package onnx is not installed.
    DataError, OptionError
        If the network cannot be read, or be part of another file, or the inputs are unknown.
    """
    check_known(f"inputs {inputs!r}", inputs, INPUTS)
    onnx = load_onnx()
    embedded = EmbeddedNetwork.read(onnx, network, name)
    graph = Graph(onnx)
    picture = graph.input("picture", np.uint8, ["height", "width", 3])
    given = graph.input("windows", np.float32, ["given", 4]) if inputs == "all" else None
    limits = _limits(graph, content, given=inputs == "all")
    scored = _scored_windows(graph, content, embedded, picture, given)
    calibrations = [detector.calibration for detector in content.detectors]
    ranked = sized(graph, scored.windows, scored.scores, [detector.sizes for detector in content.detectors])
    chosen = choose(graph, scored.windows, ranked, content.rules, calibrations, limits, scored.counts)
    decided = _decided(graph, content, embedded, picture, scored)
    outputs = _outputs(graph, content, chosen, scored, decided)
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


def _limits(graph: Graph, content: FileContent, *, given: bool) -> Limits:
    """Return the recorded limits of detections, or inputs that may say others."""
    most = max(rule.max_detections for rule in content.rules)
    recorded = {
        "iou_threshold": float(content.rules[0].nms_threshold),
        "score_threshold": float(np.finfo(np.float32).min),
        "probability_threshold": 0.0,
    }
    if not given:
        iou, score, probability = (graph.constant([value], np.float32) for value in recorded.values())
        return Limits(iou, score, probability, graph.constant([most], np.int64))
    iou, score, probability = (_threshold(graph, name, value) for name, value in recorded.items())
    boxes = graph.input("max_boxes", np.int64, [1])
    return Limits(iou, score, probability, graph.where(boxes > 0, boxes, most))


def _threshold(graph: Graph, name: str, recorded: float) -> Tensor:
    """Return a threshold of the caller, float32 (1,), or the recorded one in place of NaN."""
    value = graph.input(name, np.float32, [1])
    return graph.where(value.equals(value), value, recorded)


def _scored_windows(
    graph: Graph, content: FileContent, network: "EmbeddedNetwork", picture: Tensor, given: Tensor | None
) -> _Scored:
    """Return the windows of a picture and their scores by all maps."""
    network.add_weights(graph)
    planes = picture.transposed(2, 0, 1).cast(np.float32)
    size = Size.of(planes)
    seen = reduced(graph, planes, content.max_side)
    batches = [_batch(graph, seen, network_pass) for network_pass in content.passes]
    windows, counts = _own_windows(graph, planes, content), None
    if given is not None:
        windows, counts = _windows(graph, planes, given, content)
    inside = clipped(windows, size.height, size.width)
    scored_maps: list[tuple[Cells, Tensor]] = []
    for number, network_pass in enumerate(content.passes):
        maps = network.run(graph, batches[number], list(network_pass.maps), f"pass{number}")
        for name, weights in network_pass.maps.items():
            values, levels = maps[name], None
            if content.in_8_bits and len(weights.inside) >= MANY_CHANNELS:
                values, levels = network.levels(values, name, f"pass{number}")
            cells = as_cells(values, inside, size.height, size.width, levels)
            scored_maps.append((cells, map_scores(cells, weights)))
    finest = scored_maps[len(content.passes[0].maps) - 1][0]  # the last map of the first pass
    intercepts = graph.constant(np.array([detector.intercept for detector in content.detectors]))
    scores, by_models = reduce(add, [summand for _, summand in scored_maps]).cast(np.float64), None
    if picture_detectors(content.alarm, content.detectors):
        k = len(content.detectors)
        scores, by_models = scores.column(0, k), scores.slice(k, None, 1)
    return _Scored(windows, (scores + intercepts).transposed(1, 0), finest, counts, by_models)


def _decided(
    graph: Graph, content: FileContent, network: "EmbeddedNetwork", picture: Tensor, scored: _Scored
) -> dict[str, tuple[Tensor, list[int | str]]]:
    """Return the outputs of the decision with their shapes; none without an alarm."""
    if content.alarm is None:
        return {}
    planes, distance = picture.transposed(2, 0, 1).cast(np.float32), None
    outputs: dict[str, tuple[Tensor, list[int | str]]] = {}
    if content.good is not None:
        network_pass, name = memory_pass(content.good)
        batch = _batch(graph, reduced(graph, planes, content.max_side), network_pass)
        feature_map = network.run(graph, batch, [name], "memory")[name]
        distance, distances = distance_to_good(graph, content.good, feature_map)
        outputs["heatmap"] = distances, ["heat_rows", "heat_columns"]
    shows = is_varied(graph, planes)
    shows = shows if scored.counts is None else shows & scored.counts
    probabilities = class_probabilities(graph, content.alarm, content.detectors, scored.scores, scored.by_models)
    decision, probability = decide(graph, content.alarm, probabilities, shows, distance)
    return {"decision": (decision, [1]), "probability": (probability, [1]), **outputs}


def _windows(graph: Graph, planes: Tensor, given: Tensor, content: FileContent) -> tuple[Tensor, Tensor]:
    """Return the windows (n, 4) in pixels, float64: the caller's, or else the file's own.

    Of the caller's, those without a part of the picture are left out. If none is left, the whole picture stands in for
    them, and the second value, bool (1,), is False.
    """
    size = Size.of(planes)
    sides = graph.join([side.reshape(1) for side in (size.width, size.height)], 0)
    usable = given.cast(np.float64).gather(_usable(given.cast(np.float64), sides), 0)
    is_empty = ~(usable.size(0).reshape(1) > 0)
    counts = ~(is_empty & (given.size(0).reshape(1) > 0))
    full_box = graph.join([sides * 0.0, sides], 0).reshape(1, 4)
    filled = graph.join([usable, full_box.gather(is_empty.places(), 0)], 0)

    return graph.choose(given.size(0) > 0, lambda: filled, lambda: _own_windows(graph, planes, content)), counts


def _own_windows(graph: Graph, planes: Tensor, content: FileContent) -> Tensor:
    """Return the boxes of a picture's regions, of contrast, and of a lattice (n, 4) in pixels.

    They are float64; the second ones are there if the content asks for them.
    """
    size = Size.of(planes)
    shares = [grouped_windows(graph, planes, content.max_area)]
    if content.fine_side:
        shares.append(contrast_windows(graph, planes, content.fine_side, FINE_WINDOWS, content.max_area))
    shares.append(graph.constant(lattice(content.max_area)))
    return graph.join(shares, 0) * graph.join([side.reshape(1) for side in (size.width, size.height)] * 2, 0)


def _usable(windows: Tensor, sides: Tensor) -> Tensor:
    """Return the indices of the windows (n, 4) that are finite and have an area in the picture."""
    low, high, large = windows.column(0, 2), windows.column(2, 4), float(np.finfo(np.float32).max)
    has_length = (high > low) & (high.minimum(sides) > low.maximum(0.0))
    has_length = has_length & (low > -large) & (high < large)
    both = has_length.cast(np.int64)
    return ((both.column(0) + both.column(1)).reshape(-1) > 1).places()


def _batch(graph: Graph, planes: Tensor, network_pass: NetworkPass) -> Tensor:
    """Return the network's input (1, 3, h, w)."""
    wanted = network_size(Size.of(planes), network_pass.size, network_pass.multiple)
    image = resized(graph, planes, wanted)
    image = image.gather(graph.count(image.size(1)), 1)  # else OpenVINO's first answer begins before the branch ends
    if network_pass.order == "bgr":
        image = image.gather(graph.constant([2, 1, 0], np.int64), 0)
    mean, scale = (_channels(graph, values) for values in (network_pass.mean, network_pass.scale))
    return ((image - mean) * scale).unsqueeze(0)


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


def _outputs(
    graph: Graph, content: FileContent, chosen: Chosen, scored: _Scored,
    decided: Mapping[str, tuple[Tensor, list[int | str]]],
) -> list[Array]:  # fmt: skip
    """Name the outputs and return their declarations."""
    k = len(content.detectors)
    declared: dict[str, tuple[Tensor, list[int | str]]] = {
        "boxes": (chosen.boxes, ["found", 4]),
        "classes": (chosen.classes, ["found"]),
        "scores": (chosen.scores, ["found"]),
        "probabilities": (chosen.probabilities, ["found"]),
        "score_maps": (_score_maps(graph, scored), [k, "rows", "columns"]),
        "all_windows": (scored.windows.cast(np.float32), ["windows", 4]),
        "window_scores": (scored.scores.transposed(1, 0).cast(np.float32), ["windows", k]),
        **decided,
    }
    infos = []
    for name, (tensor, shape) in declared.items():
        graph.nodes.append(graph.onnx.helper.make_node("Identity", [tensor.name], [name]))
        infos.append(graph.declared(Tensor(graph, name, tensor.dtype), shape))
    return infos


@dataclass(frozen=True, eq=False)
class EmbeddedNetwork:
    """A network that is to be part of a file, several times with one copy of its weights.

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

    def levels(self, output: Tensor, name: str, prefix: str) -> tuple[Tensor, Levels | None]:
        """Return an output of `run` as codes, uint8, and their levels. An unquantised output is unchanged."""
        maker = next(node for node in self.model.graph.node if name in node.output)
        if maker.op_type != "DequantizeLinear":
            return output, None
        values, scale, zero = maker.input
        level = np.dtype(np.uint8)
        of_network = (
            Tensor(output.graph, f"network/{scale}", output.dtype),
            Tensor(output.graph, f"network/{zero}", level),
        )
        return Tensor(output.graph, f"{prefix}/{values}", level), Levels(*of_network)

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
