"""What an exported file computes: the extractor's maps, the detectors' weights on them, and the rules of detection."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from lapsvm.arrays import Array
from lapsvm.detection.detector import Detector, unscaled_weights
from lapsvm.detection.onnx_file.pooling import MapWeights
from lapsvm.errors import OptionError, ShapeError
from lapsvm.features.extractors.blocks import Block, recorded_blocks, split_blocks
from lapsvm.features.extractors.maps.outputs import MULTIPLE
from lapsvm.inspection.threshold import AlarmThreshold
from lapsvm.objectness.good_pictures import GoodPictures
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
    mean: tuple[float, float, float]
    scale: tuple[float, float, float]
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
    fine_side : int, default 0
        Longer side in pixels of the picture in which windows around small things are sought, see
        `lapsvm.windows.contrast`; 0 for none.
    in_8_bits : bool, default False
        Whether maps of many channels are pooled in 8 bits where the network gives them in 8 bits.
    alarm : AlarmThreshold, optional
        With it the file decides on pictures. The passes have the weights of its picture models after those of the
        detectors, in the order of `lapsvm.detection.scoring.picture_detectors`.
    good : GoodPictures, optional
        The memory of good pictures, if the alarm has one.
    """

    detectors: Sequence[Detector]
    rules: Sequence[DetectSettings]
    passes: tuple[NetworkPass, ...]
    max_side: int
    max_area: float
    fine_side: int = 0
    in_8_bits: bool = False
    alarm: AlarmThreshold | None = None
    good: GoodPictures | None = None


def network_passes(description: Mapping[str, Any], detectors: Sequence[Detector]) -> tuple[NetworkPass, ...]:
    """Return the passes of an extractor with the weights that some detectors have for it.

    Parameters
    ----------
    description : mapping
        Of the extractor, `lapsvm.features.recorded_description`.
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
    for extractor in parts:
        _check_exportable(extractor)
    if len({extractor["weights"] for extractor in parts}) > 1:
        raise OptionError(f"the extractor has several networks, {_WHY}.")
    weights = unscaled_weights(detectors)
    blocks = [recorded_blocks(extractor) for extractor in parts]
    joined = [block for each in blocks for block in each]
    dim = sum(block.size for block in joined)
    if dim != len(weights):
        raise ShapeError(f"the detectors must be of {dim} features, got {len(weights)}.")
    pieces = iter(zip(split_blocks(weights, joined), joined, strict=True))
    return tuple(
        _network_pass(extractor, list(islice(pieces, len(each)))) for extractor, each in zip(parts, blocks, strict=True)
    )


def _parts(description: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the descriptions of the extractors that stand side by side."""
    if description.get("kind") != "concatenation":
        return [description]
    return [
        extractor for key in range(len(description["parts"])) for extractor in _parts(description["parts"][str(key)])
    ]


def _check_exportable(extractor: Mapping[str, Any]) -> None:
    """Raise OptionError, which names the obstacle, unless the detector can be exported."""
    reason = None
    if extractor.get("kind") != "pooled-network":
        reason = f"extractor {extractor.get('kind')!r} is no network with pooled windows"
    elif extractor["engine"] != "onnxruntime":
        reason = f"the extractor's network is run by {extractor['engine']}, not from an ONNX file"
    elif "fit" in extractor:
        reason = "the extractor's network takes pictures of one size only"
    elif "prefix" in extractor:
        reason = "the extractor reads a transformer's tokens"
    if reason:
        raise OptionError(f"{reason}, {_WHY}.")


def _network_pass(extractor: Mapping[str, Any], weights: Sequence[tuple[Array, Block]]) -> NetworkPass:
    """Return the pass of one extractor, whose maps have these weights (d, k)."""
    outputs = _listed(extractor["output"])
    maps = {
        name: _map_weights(matrix, block, extractor["norm"] == "l2", extractor["contrast"])
        for name, (matrix, block) in zip(outputs, weights, strict=True)
    }
    return _pass_with(extractor, maps)


def memory_pass(good: GoodPictures) -> tuple[NetworkPass, str]:
    """Return the pass of the network of a memory, without weights, and the name of its map."""
    description = good.network.describe()
    return _pass_with(description, {}), str(_listed(description["output"])[0])


def _pass_with(extractor: Mapping[str, Any], maps: Mapping[str, MapWeights]) -> NetworkPass:
    """Return the pass of an extractor with these maps."""
    multiple = np.lcm.reduce([patch or MULTIPLE for patch in _listed(extractor.get("patch"))])
    scale = extractor["scale"] if isinstance(extractor["scale"], list) else [extractor["scale"]] * 3
    return NetworkPass(
        int(extractor["size"]), int(multiple), extractor["order"], tuple(extractor["mean"]), tuple(scale), maps
    )


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _map_weights(weights: Array, block: Block, normalise: bool, contrast: float) -> MapWeights:
    """Return the weights of one map."""
    if block.has_context:
        inside, around = np.split(weights, 2)
        return MapWeights(inside, around, normalise)
    return MapWeights(weights, -contrast * weights if contrast else None, normalise)
