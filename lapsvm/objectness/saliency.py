"""Saliency maps by a network that gives one map a picture, such as U2-Net, ISNet, BiRefNet or InSPyReNet.

The picture is resized to the network's input without keeping its aspect ratio, so the map covers the whole picture and
nothing else.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lapsvm.arrays import Array, Float32, Float64, check_finite, check_known
from lapsvm.catalog import check_pixels
from lapsvm.errors import DataError, OptionError
from lapsvm.features.extractors.networks import RuntimeNetwork
from lapsvm.objectness.regions import picture_regions, stretched

DEFAULT_SIZE = 320
"""Side in pixels of the input of a network that takes any size."""

PEAK = "peak"
_IMAGENET_MEAN, _IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_LEAST_PEAK = 1.0  # a black picture has no brightest pixel to divide by


@dataclass(frozen=True)
class InputColours:
    """The conversion of pixels to a network's input: ``(pixels / scale - mean) / std``, channels in `order`.

    Attributes
    ----------
    scale : float or "peak"
        "peak", the default, is the largest number of the resized picture.
    mean, std : tuple of 3 floats
        In the network's order of channels; by default those of ImageNet in 0..1, red first.
    order : "rgb" or "bgr"
    """

    scale: float | str = PEAK
    mean: tuple[float, float, float] = _IMAGENET_MEAN
    std: tuple[float, float, float] = _IMAGENET_STD
    order: str = "rgb"

    def batch(self, pixels: Array, size: tuple[int, int]) -> Float32:
        """Return a network's input of a height and width for a picture, float32 of shape (1, 3, height, width)."""
        resized = _resized(pixels, size)[..., :: 1 if self.order == "rgb" else -1]
        scale = max(resized.max(), _LEAST_PEAK) if isinstance(self.scale, str) else self.scale
        factor = 1 / (np.float64(scale) * np.array(self.std))
        offset = np.array(self.mean) / np.array(self.std)
        planes = resized.astype(np.float32) * factor.astype(np.float32) - offset.astype(np.float32)
        return np.ascontiguousarray(planes.transpose(2, 0, 1))[None]

    def describe(self) -> dict[str, Any]:
        """Return the settings as plain JSON."""
        return {"scale": self.scale, "mean": list(self.mean), "std": list(self.std), "order": self.order}


def _resized(pixels: Array, size: tuple[int, int]) -> Array:
    """Return a picture of a height and width; area means where both sides shrink."""
    import cv2

    height, width = size
    shrinks = height <= pixels.shape[0] and width <= pixels.shape[1]
    interpolation = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(np.ascontiguousarray(pixels), (width, height), interpolation=interpolation))


@dataclass(frozen=True)
class MapReading:
    """The conversion of a network's output to a map in 0..1.

    Attributes
    ----------
    output : str
        Its name.
    activation : "none" or "sigmoid"
        "sigmoid" is for networks that give logits.
    stretch : bool, default True
        Whether the least number of each map becomes 0 and the largest 1; a map of one number becomes zeros.
    """

    output: str
    activation: str = "none"
    stretch: bool = True

    def __call__(self, value: Any) -> Float32:
        """Return the map of an output's value, float32 of shape (rows, columns).

        Raises
        ------
        DataError
            If the output is not one map, or is not in 0..1 where it is not stretched.
        NotFiniteError
            If a number is NaN or infinite.
        """
        from scipy.special import expit

        if not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf":
            got = value.dtype if isinstance(value, np.ndarray) else type(value).__name__
            raise DataError(f"output {self.output!r} of the network must be numbers, got {got}.")
        check_map_shape(self.output, value.shape)
        single = value.reshape(value.shape[-2:]).astype(np.float64)
        check_finite(f"output {self.output!r} of the network", single)
        active = expit(single) if self.activation == "sigmoid" else single
        return (stretched(active) if self.stretch else self._in_range(active)).astype(np.float32)

    def _in_range(self, values: Float64) -> Float64:
        """Return values that are in 0..1."""
        low, high = values.min(), values.max()
        if low < 0 or high > 1:
            raise DataError(
                f"output {self.output!r} of the network must be in 0..1 where it is not stretched, got {low:g} to "
                f"{high:g}; activation=sigmoid is for logits."
            )
        return values

    def describe(self) -> dict[str, Any]:
        """Return the settings as plain JSON."""
        return {"output": self.output, "activation": self.activation, "stretch": self.stretch}


def check_map_shape(name: str, shape: Sequence[Any]) -> None:
    """Raise DataError unless an output has the shape of one map; a free dimension is a name or None."""
    sides = [side if isinstance(side, int) else None for side in shape]
    if not 3 <= len(sides) <= 4 or 0 in sides or any(side not in (1, None) for side in sides[:-2]):
        raise DataError(
            f"output {name!r} of the network must be one map of shape (1, 1, rows, columns), got {tuple(shape)}; "
            "output=NAME names another."
        )


class SaliencyNetwork:
    """The saliency map of a network, and its regions; thread-safe.

    Parameters
    ----------
    network : RuntimeNetwork
    weights : str
        Hash of the network's file.
    size : int, optional
        Side in pixels of the square that the network sees, if it takes any size; 320 by default.
    colours : InputColours, optional
    output : str, optional
        Name of the output that is the map; by default the first.
    activation : "none" or "sigmoid"
    stretch : bool, default True

    Raises
    ------
    OptionError
        If `size` is given for a network of fixed size, or there is no such output.
    DataError
        If the output is not one map.
    """

    def __init__(
        self,
        network: RuntimeNetwork,
        weights: str,
        *,
        size: int | None = None,
        colours: InputColours | None = None,
        output: str | None = None,
        activation: str = "none",
        stretch: bool = True,
    ) -> None:
        if size is not None and network.fixed_size is not None:
            raise OptionError(f"size must not be given: the network takes only {network.fixed_size}, got {size}.")
        if not network.outputs:
            raise DataError(f"network {network.name} must give a map, but its graph has no output.")
        name = next(iter(network.outputs)) if output is None else output
        check_known(f"output {name!r}", name, list(network.outputs))
        if network.outputs[name]:  # a file need not declare shapes
            check_map_shape(name, network.outputs[name])
        side = DEFAULT_SIZE if size is None else size
        self._network, self._weights, self._size = network, weights, network.fixed_size or (side, side)
        self._colours, self._reading = colours or InputColours(), MapReading(name, activation, stretch)

    def describe(self) -> dict[str, Any]:
        """Return everything that the map and its regions depend on."""
        return {
            "kind": "saliency-network",
            "version": 1,
            "engine": self._network.runtime["name"],
            "weights": self._weights,
            "size": list(self._size),
            **self._colours.describe(),
            **self._reading.describe(),
            "runtime": self._network.runtime,
        }

    def map(self, pixels: Array) -> Float32:
        """Return the map of a picture, float32 of shape (rows, columns) in 0..1.

        Parameters
        ----------
        pixels : ndarray of shape (h, w, 3), uint8 RGB

        Raises
        ------
        ShapeError, InputError
            If the picture has another shape or type.
        DataError
            If the network cannot take the picture, its output is not one map, or is not in 0..1 where it is not
            stretched.
        NotFiniteError
            If the map is not finite.
        """
        check_pixels(pixels)
        outputs = self._network.run(self._colours.batch(pixels, self._size), [self._reading.output])
        return self._reading(outputs[self._reading.output])

    def regions(self, pixels: Array) -> Float64:
        """Return the regions of a picture's map in pixels of the picture; see `picture_regions` and `map`."""
        return picture_regions(self.map(pixels), pixels.shape[:2])
