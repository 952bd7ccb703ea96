"""Features of windows pooled from one feature map: one forward pass per picture, whatever the number of windows.

The picture is brought to a longest side of ``size`` pixels, both sides rounded to multiples of 32 (so that the strides
of common backbones divide them), and runs through the network once. A window's features are the exact area mean of the
map, taken as constant inside its cells, over the window's place in the map, and by default brought to length 1.

A network's map says what is near a place as much as what is at it, and pictures with an object differ from others by
their whole scene; so the mean alone scores a window beside the object as high as one on it. With a contrast beta, beta
times the same mean over the window's surroundings is taken away; or both stand side by side, for who wants to weigh
them. docs/features.md has what that gives.
"""

from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Array, Float32
from lapsvm.errors import DataError, NotFiniteError, OptionError
from lapsvm.features.networks import Network, OpenCVNetwork, RuntimeNetwork, read_network_file
from lapsvm.features.picture import check_pixels, clip_boxes, l2_normalise
from lapsvm.features.pooling import pool_rings, pool_windows
from lapsvm.features.specs import (
    Spec,
    choice,
    one_or_three_numbers,
    positive_number,
    read_options,
    share,
    whole_number,
    word,
)

DEFAULT_SIZE = 640
MULTIPLE = 32
_PROBE = (224, 224)
_OPTIONS = {
    "output": word,
    "order": choice("rgb", "bgr"),
    "mean": one_or_three_numbers,
    "scale": positive_number,
    "size": whole_number(MULTIPLE, 8192),
    "norm": choice("l2", "none"),
    "contrast": share,
    "surroundings": choice("none", "beside"),
}


class PooledNetwork:
    """A network's map of the whole picture, averaged over each window.

    The network sees ``(pixels - mean) * scale``, with channels in `order`.

    Parameters
    ----------
    network : Network
    weights : str
        Hash of the network's file.
    output : str, optional
        Which output is the map; by default the only one with 4 dimensions.
    order : "rgb" or "bgr"
    mean : tuple of 3 floats, default 127.5 each
        In the network's order of channels.
    scale : float, default 1/127.5
    size : int, default 640
        Longest side of the picture that the network sees.
    norm : "l2" or "none"
        Whether each window's features are brought to length 1.
    contrast : float, default 0
        How much of the features of a window's surroundings is taken away from its own, in [0, 1]; less where the
        picture ends (see `lapsvm.features.pooling.pool_rings`). .25 to .5 was best on VOC pictures.
    surroundings : "none" or "beside"
        Whether the features of the surroundings, weighted so, stand beside the window's own: twice as many numbers.

    Raises
    ------
    OptionError
        If there is no such output, or several to choose from, or `size` is given to a network of fixed size.
    DataError
        If no output has 4 dimensions.
    """

    def __init__(
        self,
        network: Network,
        weights: str,
        *,
        output: str | None = None,
        order: str = "rgb",
        mean: tuple[float, float, float] = (127.5, 127.5, 127.5),
        scale: float = 1 / 127.5,
        size: int | None = None,
        norm: str = "l2",
        contrast: float = 0.0,
        surroundings: str = "none",
    ) -> None:
        if contrast and surroundings == "beside":
            raise OptionError(f"contrast must not be given where surroundings=beside keeps both parts, got {contrast}.")
        if size is not None and network.fixed_size is not None:
            raise OptionError(f"size must not be given: the network takes only {network.fixed_size}, got {size}.")
        self._network, self._weights = network, weights
        self._order, self._mean, self._scale, self._norm, self._contrast = order, mean, scale, norm, contrast
        self._beside = surroundings == "beside"
        self._size = DEFAULT_SIZE if size is None else size
        height, width = network.fixed_size or _PROBE
        outputs = network.run(np.zeros((1, 3, height, width), dtype=np.float32))
        self._output = _map_output({name: np.shape(value) for name, value in outputs.items()}, output)
        self._channels = int(outputs[self._output].shape[1])
        self.stride = height / outputs[self._output].shape[2]
        self.fixed_size = network.fixed_size

    @property
    def dim(self) -> int:
        """Number of channels of the map, or twice that."""
        return self._channels * (1 + self._beside)

    @property
    def blocks(self) -> tuple[int, ...]:
        """One part: ``(dim,)``."""
        return (self.dim,)

    @property
    def halves(self) -> tuple[bool, ...]:
        """Whether the part is a window's features, then those of its surroundings."""
        return (self._beside,)

    def describe(self) -> dict[str, Any]:
        """Return everything that the features depend on."""
        return {
            "kind": "pooled-network",
            "version": 2,
            "blocks": list(self.blocks),
            "halves": list(self.halves),
            "engine": self._network.runtime["name"],
            "weights": self._weights,
            "output": self._output,
            "order": self._order,
            "mean": [float(value) for value in self._mean],
            "scale": float(self._scale),
            "size": list(self._network.fixed_size or ()) or self._size,
            "norm": self._norm,
            "contrast": float(self._contrast),
            "runtime": self._network.runtime,
        }

    def __call__(self, pixels: Array, boxes: ArrayLike) -> Float32:
        """Return the features of windows, float32 of shape (n, dim); see `Extractor`."""
        check_pixels(pixels)
        height, width = pixels.shape[:2]
        windows = clip_boxes(boxes, height, width)
        feature_map = self.feature_map(pixels)
        rows, columns = feature_map.shape[1:]
        cells = windows * [columns / width, rows / height, columns / width, rows / height]
        inside = pool_windows(feature_map, cells)
        own = self._normalised(inside)
        if not (self._contrast or self._beside):
            return own
        means, weights = pool_rings(feature_map, cells, inside)
        around = weights[:, None] * self._normalised(means)
        return np.hstack([own, around]) if self._beside else np.asarray(own - np.float32(self._contrast) * around)

    def _normalised(self, pooled: Float32) -> Float32:
        return l2_normalise(pooled) if self._norm == "l2" else pooled

    def feature_map(self, pixels: Array) -> Float32:
        """Return the network's map of a picture, float32 of shape (channels, rows, columns).

        Raises
        ------
        DataError
            If the network cannot take the picture.
        NotFiniteError
            If the map is not finite.
        """
        found = self._network.run(self._batch(pixels))[self._output]
        if not np.isfinite(found).all():
            raise NotFiniteError(f"output {self._output!r} of the network must be finite, got NaN or infinity.")
        return np.asarray(found[0], dtype=np.float32)

    def _batch(self, pixels: Array) -> Float32:
        """Return a picture as the network takes it, (1, 3, h, w)."""
        import cv2

        height, width = self._network.fixed_size or network_size(pixels.shape[0], pixels.shape[1], self._size)
        how = cv2.INTER_AREA if height * width < pixels.shape[0] * pixels.shape[1] else cv2.INTER_LINEAR
        seen = cv2.resize(np.ascontiguousarray(pixels), (width, height), interpolation=how)
        channels = seen.transpose(2, 0, 1)[:: 1 if self._order == "rgb" else -1]
        mean = np.array(self._mean, dtype=np.float32)[:, None, None]
        return np.ascontiguousarray((channels - mean) * np.float32(self._scale), dtype=np.float32)[None]


def network_size(height: int, width: int, longest: int) -> tuple[int, int]:
    """Return the size at which the network sees a picture, both sides multiples of 32 and at least that.

    Parameters
    ----------
    height, width : int
        Of the picture.
    longest : int
        Wanted for the longer side.

    Returns
    -------
    tuple of int
        Height and width.
    """
    scale = longest / max(height, width)
    first, second = (max(MULTIPLE, round(side * scale / MULTIPLE) * MULTIPLE) for side in (height, width))
    return first, second


def open_pooled_network(spec: Spec, threads: int) -> PooledNetwork:
    """Return the extractor that an ``onnx:`` or ``onnx-cv2:`` spec asks for (see `open_extractor`)."""
    if not spec.file:
        raise OptionError(f"extractor {spec.text!r} needs a file, as in {spec.kind}:network.onnx.")
    options = read_options(spec, _OPTIONS)
    content = read_network_file(spec.file)
    network: Network = (
        OpenCVNetwork(spec.file, content) if spec.kind == "onnx-cv2" else RuntimeNetwork(spec.file, content, threads)
    )
    weights = blake2b(content, digest_size=16).hexdigest()
    try:
        return PooledNetwork(network, weights, **options)
    except (OptionError, DataError) as error:
        raise type(error)(f"extractor {spec.text!r}: {error}") from None


def _map_output(shapes: dict[str, tuple[int, ...]], wanted: str | None) -> str:
    """Return the name of the output that is the map."""
    maps = [name for name, shape in shapes.items() if len(shape) == 4]
    shown = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
    if wanted is not None and wanted not in maps:
        raise OptionError(f"output must be one with 4 dimensions, got {wanted!r}; there are {shown}.")
    if not maps:
        raise DataError(f"the network needs an output with 4 dimensions; there are {shown}.")
    if wanted is None and len(maps) > 1:
        raise OptionError(f"output must be chosen, as in output={maps[0]}; there are {shown}.")
    return wanted or maps[0]
