"""What an exported file computes: the extractor's maps, the detectors' weights on them, and the rules of detection."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lapsvm.detection.detector import Detector, unscaled_weights
from lapsvm.detection.onnx_file.pooling import MapWeights
from lapsvm.errors import OptionError, ShapeError
from lapsvm.features.extractors.maps.outputs import MULTIPLE
from lapsvm.settings import DetectSettings

_WHY = "so its detectors cannot become an ONNX file"


@dataclass(frozen=True, eq=False)
class NetworkPass:
    """One pass of a network over the picture.

    Attributes
    ----------
    size : int
        Longest side of the network's input in pixels.
    multiple : int
        Number that its sides are multiples of.
    order : "rgb" or "bgr"
    mean, scale : tuple of 3 floats
        The input is ``(pixels - mean) * scale``.
    maps : dict of str to MapWeights
        By the name of the network's output.
    """

    size: int
    multiple: int
    order: str
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    maps: Mapping[str, MapWeights]


@dataclass(frozen=True, eq=False)
class FileContent:
    """Everything that the graph is made of.

    Attributes
    ----------
    detectors : sequence of k Detector
        Of the features before projection.
    rules : sequence of k DetectSettings
        How the scores of each become detections; they share the threshold of suppression. The largest number of
        detections is the file's default for every class.
    passes : tuple of NetworkPass
    max_side : int
        Larger pictures are reduced to it first.
    max_area : float
        Area of the file's largest windows, as a share of the picture.
    """

    detectors: Sequence[Detector]
    rules: Sequence[DetectSettings]
    passes: tuple[NetworkPass, ...]
    max_side: int
    max_area: float


def network_passes(description: Mapping[str, Any], detectors: Sequence[Detector]) -> tuple[NetworkPass, ...]:
    """Return the passes of an extractor with the weights that some detectors have for it.

    Parameters
    ----------
    description : mapping
        Of the extractor, `lapsvm.features.Extractor.describe`.
    detectors : sequence of Detector
        Of its features, see `Detector.whole`.

    Raises
    ------
    OptionError
        If the extractor has a part that cannot be exported.
    ShapeError
        If the detectors are of other features.
    """
    parts = _parts(description)
    for part in parts:
        _check_exportable(part)
    if len({part["weights"] for part in parts}) > 1:
        raise OptionError(f"the extractor has several networks, {_WHY}.")
    weights = unscaled_weights(detectors)
    sizes = [int(size) for part in parts for size in part["blocks"]]
    if sum(sizes) != len(weights):
        raise ShapeError(f"the detectors must be of {sum(sizes)} features, got {len(weights)}.")
    blocks = iter(np.split(weights, np.cumsum(sizes)[:-1]))
    return tuple(_network_pass(part, [next(blocks) for _ in part["blocks"]]) for part in parts)


def _parts(description: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the descriptions of the extractors that stand side by side."""
    if description["kind"] != "concatenation":
        return [description]
    return [part for key in range(len(description["parts"])) for part in _parts(description["parts"][str(key)])]


def _check_exportable(part: Mapping[str, Any]) -> None:
    """Raise OptionError that names what cannot be exported."""
    reason = None
    if part["kind"] != "pooled-network":
        reason = f"extractor {part['kind']!r} is no network with pooled windows"
    elif part["engine"] != "onnxruntime":
        reason = f"the extractor's network is run by {part['engine']}, not from an ONNX file"
    elif "fit" in part:
        reason = "the extractor's network takes pictures of one size only"
    elif "prefix" in part:
        reason = "the extractor reads a transformer's tokens"
    if reason:
        raise OptionError(f"{reason}, {_WHY}.")


def _network_pass(part: Mapping[str, Any], blocks: Sequence[Any]) -> NetworkPass:
    """Return the pass of one extractor, whose maps have blocks of weights (d, k)."""
    outputs = _listed(part["output"])
    multiple = np.lcm.reduce([patch or MULTIPLE for patch in _listed(part.get("patch"))])
    scale = part["scale"] if isinstance(part["scale"], list) else [part["scale"]] * 3
    halves = part["halves"]
    maps = {
        name: _map_weights(block, part["norm"] == "l2", part["contrast"], beside=half)
        for name, block, half in zip(outputs, blocks, halves, strict=True)
    }
    return NetworkPass(int(part["size"]), int(multiple), part["order"], tuple(part["mean"]), tuple(scale), maps)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _map_weights(block: Any, normalise: bool, contrast: float, *, beside: bool) -> MapWeights:
    """Return the weights of one map."""
    if beside:
        inside, around = np.split(block, 2)
        return MapWeights(inside, around, normalise)
    return MapWeights(block, -contrast * block if contrast else None, normalise)
