"""Features of windows pooled from one feature map: one forward pass per picture, whatever the number of windows.

The picture is brought to a longest side of ``size`` pixels, both sides rounded to multiples of 32 (so that the strides
of common backbones divide them), and runs through the network once. A window's features are the exact area mean of the
map, taken as constant inside its cells, over the window's place in the map, and by default brought to length 1.

A network's map says what is near a place as much as what is at it, and pictures with an object differ from others by
their whole scene; so the mean alone scores a window beside the object as high as one on it. With a contrast beta, beta
times the same mean over the window's surroundings is taken away; or both stand side by side, for who wants to weigh
them. docs/features.md has what that gives.

The window may be cut into cells, each with a mean of its own (spatial pyramids: S. Lazebnik et al., CVPR 2006).
"""

from copy import copy
from hashlib import blake2b
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Array, Float32
from lapsvm.errors import DataError, NotFiniteError, OptionError
from lapsvm.features.networks import Network, OpenCVNetwork, RuntimeNetwork, read_network_file
from lapsvm.features.picture import Colours, check_pixels, clip_boxes, l2_normalise, mean_with_mirror
from lapsvm.features.pooling import Grids, pool_cells, pool_rings, pool_windows
from lapsvm.features.specs import (
    Machine,
    Spec,
    cell_grids,
    choice,
    one_or_three_numbers,
    one_or_three_positive_numbers,
    read_options,
    share,
    switch,
    whole_number,
    word,
)

DEFAULT_SIZE = 640
MULTIPLE = 32
_PROBE = (224, 224)
WHOLE = ((1, 1),)
_read_size = whole_number(MULTIPLE, 8192)
OPTIONS = {
    "output": word,
    "order": choice("rgb", "bgr"),
    "mean": one_or_three_numbers,
    "scale": one_or_three_positive_numbers,
    "size": _read_size,
    "norm": choice("l2", "none"),
    "cells": cell_grids,
    "flip": switch,
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
        Hash of the network's file, or of its weights.
    output : str, optional
        Which output is the map; by default the only one with 4 dimensions.
    order : "rgb" or "bgr"
    mean : tuple of 3 floats, default 127.5 each
        In the network's order of channels.
    scale : float or tuple of 3 floats, default 1/127.5
    size : int, default 640
        Longest side of the picture that the network sees.
    norm : "l2" or "none"
        Whether each window's features are brought to length 1.
    contrast : float, default 0
        How much of the features of a window's surroundings is taken away from its own, in [0, 1]; less where the
        picture ends (see `lapsvm.features.pooling.pool_rings`). .25 to .5 was best on VOC pictures.
    surroundings : "none" or "beside"
        Whether the features of the surroundings, weighted so, stand beside the window's own: twice as many numbers.
    cells : sequence of (int, int), default 1 x 1
        Rows and columns into which a window is cut, see `lapsvm.features.pooling.pool_cells`. The surroundings of all
        cells are those of the window.
    flip : bool, default False
        Whether the features are the mean of those in the picture and in its mirror image.
    name : str, optional
        Which network it is, where its weights do not say.

    Attributes
    ----------
    stride : float
        Pixels of what the network sees per row of its map.
    fixed_size : tuple of int or None
        Height and width, where the network takes no others.

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
        scale: float | tuple[float, float, float] = 1 / 127.5,
        size: int | None = None,
        norm: str = "l2",
        contrast: float = 0.0,
        surroundings: str = "none",
        cells: Grids = WHOLE,
        flip: bool = False,
        name: str | None = None,
    ) -> None:
        if contrast and surroundings == "beside":
            raise OptionError(f"contrast must not be given where surroundings=beside keeps both parts, got {contrast}.")
        if size is not None and network.fixed_size is not None:
            raise OptionError(f"size must not be given: the network takes only {network.fixed_size}, got {size}.")
        self._network, self._weights = network, weights
        self._colours = Colours(order, mean, scale if isinstance(scale, tuple) else (scale,) * 3)
        self._norm, self._contrast, self._grids, self._flip, self._name = norm, contrast, tuple(cells), flip, name
        self._beside = surroundings == "beside"
        self._size = DEFAULT_SIZE if size is None else size
        height, width = network.fixed_size or _PROBE
        outputs = network.run(np.zeros((1, 3, height, width), dtype=np.float32))
        self._output = _map_output({name: np.shape(value) for name, value in outputs.items()}, output)
        self._channels = int(outputs[self._output].shape[1])
        self.stride = height / outputs[self._output].shape[2]
        self.fixed_size = network.fixed_size

    def at_size(self, size: int) -> Self:
        """Return an extractor with the same network, opened once, that sees pictures at another size.

        Raises
        ------
        OptionError
            If the size breaks its rule, or the network's is fixed.
        """
        try:
            checked = _read_size(str(size))
        except ValueError as error:
            raise OptionError(f"size must be {error}, got {size}.") from None
        if self.fixed_size is not None:
            raise OptionError(f"size must not be given: the network takes only {self.fixed_size}, got {size}.")
        other = copy(self)
        other._size = checked
        return other

    @property
    def dim(self) -> int:
        """Number of channels of the map, times the number of cells, times two with the surroundings."""
        return self._channels * self._n_cells * (1 + self._beside)

    @property
    def _n_cells(self) -> int:
        return sum(rows * columns for rows, columns in self._grids)

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
            **self._colours.describe(),
            "size": list(self._network.fixed_size or ()) or self._size,
            "norm": self._norm,
            "contrast": float(self._contrast),
            "runtime": self._network.runtime,
            **self._where_not_plain(),
        }

    def _where_not_plain(self) -> dict[str, Any]:
        """Return the settings without which shards were made before these existed: they stay valid."""
        cells = ",".join(f"{rows}x{columns}" for rows, columns in self._grids)
        settings = {"cells": None if self._grids == WHOLE else cells, "flip": self._flip or None, "network": self._name}
        return {name: value for name, value in settings.items() if value is not None}

    def __call__(self, pixels: Array, boxes: ArrayLike) -> Float32:
        """Return the features of windows, float32 of shape (n, dim); see `Extractor`."""
        check_pixels(pixels)
        return mean_with_mirror(self._measure, pixels, boxes) if self._flip else self._measure(pixels, boxes)

    def _measure(self, pixels: Array, boxes: ArrayLike) -> Float32:
        """Return the features in one picture, not in its mirror image."""
        height, width = pixels.shape[:2]
        windows = clip_boxes(boxes, height, width)
        feature_map = self.feature_map(pixels)
        rows, columns = feature_map.shape[1:]
        places = windows * [columns / width, rows / height, columns / width, rows / height]
        pooled = pool_cells(feature_map, places, self._grids)
        own = self._normalised(pooled)
        if not (self._contrast or self._beside):
            return own
        inside = pooled if self._grids == WHOLE else pool_windows(feature_map, places)
        means, weights = pool_rings(feature_map, places, inside)
        around = weights[:, None] * self._normalised(np.tile(means, (1, self._n_cells)))
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
        return self._colours(seen)[None]


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


def open_pooled_network(spec: Spec, machine: Machine) -> PooledNetwork:
    """Return the extractor that an ``onnx:`` or ``onnx-cv2:`` spec asks for (see `open_extractor`)."""
    if not spec.file:
        raise OptionError(f"extractor {spec.text!r} needs a file, as in {spec.kind}:network.onnx.")
    options = read_options(spec, OPTIONS)
    content = read_network_file(spec.file)
    network: Network = (
        OpenCVNetwork(spec.file, content)
        if spec.kind == "onnx-cv2"
        else RuntimeNetwork(spec.file, content, machine.threads)
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
