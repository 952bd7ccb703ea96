"""The base class of extractors that run a network."""

from abc import ABC, abstractmethod
from typing import Any

from numpy.typing import ArrayLike

from lapsvm.arrays import Array, Float32
from lapsvm.features.extractors.networks import Network
from lapsvm.features.extractors.picture import Colours, check_pixels, l2_normalise


class NetworkExtractor(ABC):
    """An extractor whose features are outputs of a network (see `Extractor`).

    Parameters
    ----------
    network : Network
    weights : str
        Hash of the network's file, or of its weights.
    colours : Colours
    norm : "l2" or "none"
        Whether each window's features are normalised to length 1.
    """

    def __init__(self, network: Network, weights: str, colours: Colours, norm: str) -> None:
        self._network, self._weights, self._colours, self._norm = network, weights, colours, norm

    @property
    @abstractmethod
    def blocks(self) -> tuple[int, ...]:
        """Numbers of features of the parts that stand side by side; they sum to `dim`."""

    @property
    def halves(self) -> tuple[bool, ...]:
        """Whether each part is a window's features followed by as many of its surroundings."""
        return (False,) * len(self.blocks)

    @property
    def dim(self) -> int:
        """Number of features of a window."""
        return sum(self.blocks)

    def _description(self, kind: str, version: int) -> dict[str, Any]:
        """Return the part of `describe` that all networks share."""
        return {
            "kind": kind,
            "version": version,
            "blocks": list(self.blocks),
            "halves": list(self.halves),
            "engine": self._network.runtime["name"],
            "weights": self._weights,
            **self._colours.describe(),
            "norm": self._norm,
        }

    def __call__(self, pixels: Array, boxes: ArrayLike) -> Float32:
        """Return the features of windows, float32 of shape (n, dim); see `Extractor`."""
        check_pixels(pixels)
        return self._measure(pixels, boxes)

    @abstractmethod
    def _measure(self, pixels: Array, boxes: ArrayLike) -> Float32:
        """Return the features in a picture that is one."""

    def _normalised(self, features: Float32) -> Float32:
        return l2_normalise(features) if self._norm == "l2" else features
