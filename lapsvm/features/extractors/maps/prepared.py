"""Prepared pictures: a network sees each once, for any number of calls with windows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Array, Float32, Float64
from lapsvm.features.extractors.blocks import Block
from lapsvm.features.extractors.maps import pooling
from lapsvm.features.extractors.picture import clip_boxes, inverses, l2_normalise


class PreparedPicture(Protocol):
    """One picture, ready to give the features of any windows."""

    def __call__(self, boxes: ArrayLike) -> Float32:
        """Return the features of windows, float32 of shape (n, dim) (see `Extractor`)."""

    def project(self, boxes: ArrayLike, components: Sequence[Float32]) -> Float32:
        """Return the features of windows times the components (d_i, k_i) of each block; the context takes the same."""

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""


@dataclass(frozen=True)
class PreparedPixels:
    """The pixels of a picture, for extractors that prepare nothing.

    Attributes
    ----------
    extractor : Extractor
    pixels : ndarray of shape (h, w, 3), uint8
    """

    extractor: Any
    pixels: Array

    def __call__(self, boxes: ArrayLike) -> Float32:
        """Return the features of windows."""
        features: Float32 = self.extractor(self.pixels, boxes)
        return features

    def project(self, boxes: ArrayLike, components: Sequence[Float32]) -> Float32:
        """Return the projected features of windows."""
        return project_blocks(self(boxes), components, self.extractor.blocks)

    @property
    def nbytes(self) -> int:
        """Memory of the pixels."""
        return int(self.pixels.nbytes)


@dataclass(frozen=True)
class PreparedProjection:
    """A picture whose features are projected.

    Attributes
    ----------
    whole : PreparedPicture
    components : sequence of ndarray of shape (d_i, k_i), float32
    """

    whole: PreparedPicture
    components: Sequence[Float32]

    def __call__(self, boxes: ArrayLike) -> Float32:
        """Return the projected features of windows."""
        return self.whole.project(boxes, self.components)

    def project(self, boxes: ArrayLike, components: Sequence[Float32]) -> Float32:
        """Return the features of windows, projected twice."""
        return self.whole.project(
            boxes, [stored @ given for stored, given in zip(self.components, components, strict=True)]
        )

    @property
    def nbytes(self) -> int:
        """Memory of the picture before the projection."""
        return self.whole.nbytes


@dataclass(frozen=True)
class PreparedParts:
    """What several extractors prepared of one picture; their features stand side by side.

    Attributes
    ----------
    parts : sequence of PreparedPicture
    n_blocks : sequence of int
        Number of the blocks of each.
    """

    parts: Sequence[PreparedPicture]
    n_blocks: Sequence[int]

    def __call__(self, boxes: ArrayLike) -> Float32:
        """Return the features of windows."""
        return np.concatenate([picture(boxes) for picture in self.parts], axis=1)

    def project(self, boxes: ArrayLike, components: Sequence[Float32]) -> Float32:
        """Return the projected features of windows."""
        ends = np.cumsum(self.n_blocks)
        each = zip(self.parts, ends, self.n_blocks, strict=True)
        return np.concatenate(
            [picture.project(boxes, components[end - count : end]) for picture, end, count in each], axis=1
        )

    @property
    def nbytes(self) -> int:
        """Memory of all parts."""
        return sum(picture.nbytes for picture in self.parts)


@dataclass(frozen=True)
class PoolingRules:
    """How the features of a window follow from a map.

    Attributes
    ----------
    contrast : float
        Share of the features of the context that is subtracted.
    appends_context : bool
        Whether they are appended instead.
    normalise : bool
        Whether features are divided by their length.
    """

    contrast: float
    appends_context: bool
    normalise: bool

    def features(self, feature_map: pooling.Map, windows: Float64) -> Float32:
        """Return the features of windows in cells of a map (channels, rows, columns)."""
        inside = pooling.pool_windows(feature_map, windows)
        if self.normalise:
            inside = l2_normalise(inside)
        if not self._sees_context:
            return inside
        around, weights = pooling.pool_rings(feature_map, windows)
        if self.normalise:
            around = l2_normalise(around)
        return self._combined(inside, around * weights[:, None])

    def projected(self, feature_map: pooling.Map, windows: Float64, components: Float32) -> Float32:
        """Return the features of windows times components (d, k)."""
        narrow = pooling.projected_map(feature_map, components)
        if not self._sees_context:
            inside = pooling.pool_windows(narrow, windows)
            if self.normalise:
                inside *= inverses(pooling.window_lengths(feature_map, windows)).astype(np.float32)[:, None]
            return inside
        factors = np.ones((2, len(windows)))
        if self.normalise:
            factors = inverses(np.stack(pooling.window_and_ring_lengths(feature_map, windows)))
        return self._combined(*np.split(pooling.pool_windows_and_rings(narrow, windows, *factors), 2, axis=1))

    @property
    def _sees_context(self) -> bool:
        return self.appends_context or self.contrast > 0

    def _combined(self, inside: Float32, around: Float32) -> Float32:
        """Return the features of windows beside the features of their context."""
        if self.appends_context:
            return np.hstack([inside, around])
        return np.asarray(inside - np.float32(self.contrast) * around)


@dataclass(frozen=True)
class PreparedMaps:
    """The maps of one picture.

    Attributes
    ----------
    maps : sequence of ndarray of shape (channels, rows, columns), float32, or of DeviceMap
    height, width : int
        Of the picture in pixels.
    rules : PoolingRules
    """

    maps: Sequence[pooling.Map]
    height: int
    width: int
    rules: PoolingRules

    def __call__(self, boxes: ArrayLike) -> Float32:
        """Return the features of windows."""
        windows = clip_boxes(boxes, self.height, self.width)
        return _joined(
            [self.rules.features(feature_map, self._in_cells(feature_map, windows)) for feature_map in self.maps]
        )

    def project(self, boxes: ArrayLike, components: Sequence[Float32]) -> Float32:
        """Return the projected features of windows."""
        windows = clip_boxes(boxes, self.height, self.width)
        each = zip(self.maps, components, strict=True)
        return _joined(
            [
                self.rules.projected(feature_map, self._in_cells(feature_map, windows), matrix)
                for feature_map, matrix in each
            ]
        )

    @property
    def nbytes(self) -> int:
        """Memory of the maps."""
        return sum(feature_map.nbytes for feature_map in self.maps)

    def _in_cells(self, feature_map: pooling.Map, windows: Float64) -> Float64:
        """Return windows in cells of a map."""
        rows, columns = feature_map.shape[1:]
        scales = np.array([columns / self.width, rows / self.height])
        return np.asarray(windows * np.tile(scales, 2))


def project_blocks(features: Float32, components: Sequence[Float32], blocks: Sequence[Block]) -> Float32:
    """Return features (n, d) times the components (d_i, k_i) of their blocks; the context of one takes the same."""
    pieces = [matrix for matrix, block in zip(components, blocks, strict=True) for _ in block.pieces]
    parts = np.split(features, np.cumsum([len(matrix) for matrix in pieces])[:-1], axis=1)
    return np.concatenate([piece @ matrix for piece, matrix in zip(parts, pieces, strict=True)], axis=1)


def _joined(parts: Sequence[Float32]) -> Float32:
    """Return parts side by side, without a copy of a single one."""
    return parts[0] if len(parts) == 1 else np.hstack(parts)
