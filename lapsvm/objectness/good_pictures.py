"""A memory of what good pictures have, and the distance of a new picture to it, which needs no picture of a defect.

A picture's parts are the cells of one map of a network, each with the means and deviations of its neighbourhood. A
part's distance is the product of that of means and deviations and the square of that of means less the mean of all good
pictures, each of length 1, to the nearest part in the memory (the idea of PatchCore, Roth et al., CVPR 2022, with
directions in place of vectors, so that brightness and contrast count less). Distances are those of random projections,
which keep them nearly as they are (W. B. Johnson and J. Lindenstrauss, 1984) and take a third of the time. A picture's
distance is the mean over its most distant tenth.

For the distance of a good picture itself, parts of its group are no neighbours. A new picture has all parts as
neighbours, which only makes its distance less: a share of good pictures that is promised by their own distances holds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Array, Float32, Index, check_finite
from lapsvm.blas import one_blas_thread
from lapsvm.errors import ModelFileError, SettingsError
from lapsvm.features import Concatenation, Extractor, PooledNetwork, settings_difference
from lapsvm.model_files import read_model, write_model
from lapsvm.objectness.normal import MapNetwork, distances
from lapsvm.objectness.regions import picture_regions, stretched

FORMAT, VERSION = "lapsvm good pictures", 2
FILE = "good-pictures.memory"
"""The name of the file, beside the models; its suffix is none of a model."""

SIZE = 320
"""The longest side of a picture as the network sees it, so that a part is as large as a small defect."""

FINEST, COARSEST = 12, 24
"""The strides of the map, in pixels of the network's input; another map only where there is none."""

PARTS = 8_000
"""About how many parts the memory keeps."""

PROJECTED = 64
"""The dimensions in which distances are measured, where channels give more."""

LEAST_PICTURES = 10
AROUND = 5
"""Rows and columns of a cell's neighbourhood."""

TOP = 0.1
"""The share of a picture's parts whose mean is its distance."""

_CHANNELS = 128  # that OpenCV averages at once
LEAST_LENGTH = 1e-12
_ARRAYS = ("looks", "differences", "centre", "axes")


def good_network(extractor: Extractor) -> PooledNetwork | None:
    """Return the first network of an extractor with the one map that the memory is of. None without a network."""
    parts = extractor.parts if isinstance(extractor, Concatenation) else (extractor,)
    networks = [part for part in parts if isinstance(part, PooledNetwork)]
    if not networks:
        return None
    fine = networks[0].finer_than(COARSEST)
    fitting = fine and (fine.coarser_than(FINEST) or fine)
    network = fitting or networks[0]
    return network if network.fixed_size else network.at_size(SIZE)


def parts_of(network: MapNetwork, pixels: Array) -> Float32:
    """Return means, and then deviations, of the neighbourhoods of a map's cells, (rows, columns, 2 channels)."""
    cells = np.moveaxis(network.feature_maps(pixels)[0], 0, 2)
    means = _averaged(cells)
    deviations = np.sqrt(np.maximum(_averaged(cells * cells) - means * means, 0))
    parts = np.concatenate([means, deviations], axis=2)
    check_finite("parts of a picture", parts)
    return parts


def distance_of(distance_map: Float32) -> float:
    """Return the distance of a picture with the distances (rows, columns) of its parts."""
    values = np.sort(distance_map, axis=None)
    return float(values[-max(1, int(TOP * len(values))) :].mean(dtype=np.float64))


@dataclass(frozen=True, eq=False)
class GoodPictures:
    """The memory of good pictures.

    Attributes
    ----------
    network : MapNetwork
    looks : ndarray of shape (n, d), float16
        Means and deviations of each part, of length 1, projected.
    differences : ndarray of shape (n, d), float16
        Means less the centre, of length 1, projected.
    centre : ndarray of shape (channels,), float32
    axes : ndarray of shape (2 channels, d), float32
        The projection of means and deviations; its first half is that of differences.
    groups : ndarray of shape (n,), optional
        The group of the picture of each part, as long as pictures of the fit are asked for.
    """

    network: MapNetwork
    looks: NDArray[np.float16]
    differences: NDArray[np.float16]
    centre: Float32
    axes: Float32
    groups: Index | None = None

    @classmethod
    def fit(
        cls, network: MapNetwork, pictures: Sequence[Float32], groups: Sequence[int], limit: int = PARTS, seed: int = 0
    ) -> Self:
        """Return the memory of pictures, given by their `parts_of`: about `limit` parts, as many of each at random."""
        rng, each = np.random.default_rng(seed), max(1, limit // len(pictures))
        drawn = [_drawn(parts, each, rng) for parts in pictures]
        parts, channels = np.concatenate(drawn), pictures[0].shape[2] // 2
        centre = parts[:, :channels].mean(axis=0, dtype=np.float64).astype(np.float32)
        axes = _axes(2 * channels, rng)
        looks, differences = (values.astype(np.float16) for values in _directions(parts, centre, axes))
        return cls(network, looks, differences, centre, axes, np.repeat(groups, [len(rows) for rows in drawn]))

    def map(self, parts: Float32, without: int | None = None) -> Float32:
        """Return the distances (rows, columns) of a picture's parts, to no part of the group `without`."""
        excluded: Any = slice(0) if without is None or self.groups is None else self.groups == without
        looks, differences = (
            distances(np.moveaxis(values, 2, 0), memory, excluded)
            for values, memory in zip(_directions(parts, self.centre, self.axes), self._stored, strict=True)
        )
        return np.asarray(looks * differences * differences)

    @cached_property
    def _stored(self) -> tuple[Float32, Float32]:
        """Its looks and differences as numbers that a processor multiplies."""
        return self.looks.astype(np.float32), self.differences.astype(np.float32)

    @property
    def digest(self) -> str:
        """The hash of its arrays, 32 hex digits."""
        digest = blake2b(digest_size=16)
        for name in _ARRAYS:
            digest.update(np.ascontiguousarray(getattr(self, name)).tobytes())
        return digest.hexdigest()

    def save(self, path: str | Path) -> None:
        """Write a safetensors file; the network is described, and not in it."""
        description = {"format": FORMAT, "version": VERSION, "network": self.network.describe()}
        write_model(path, description, {name: getattr(self, name) for name in _ARRAYS}, "network")

    @classmethod
    def load(cls, path: str | Path, network: MapNetwork) -> Self:
        """Read a memory that `save` has written.

        Raises
        ------
        MissingError, ModelFileError
            If there is no such file, or it is damaged.
        SettingsError
            If it was fitted with another network.
        """
        described, arrays = read_good_pictures(path)
        difference = settings_difference(described, network.describe())
        if difference:
            raise SettingsError(f"memory {path} was fitted with {difference}.")
        return cls(network, *(arrays[name] for name in _ARRAYS))


def read_good_pictures(path: str | Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the network's description and the arrays of a stored memory; MissingError, ModelFileError if damaged."""
    description, arrays = read_model(path, FORMAT, VERSION)
    shapes = {name: values.shape for name, values in arrays.items()}
    try:
        count, size = arrays["looks"].shape
        (channels,) = arrays["centre"].shape
    except (KeyError, ValueError):
        count = size = channels = 0
    wanted = {
        "looks": (count, size), "differences": (count, size), "centre": (channels,), "axes": (2 * channels, size),
    }  # fmt: skip
    if shapes != wanted or not count or not isinstance(description.get("network"), dict):
        raise ModelFileError(f"memory {path} is damaged: its arrays must fit each other, got {shapes}.")
    if not all(np.isfinite(values).all() for values in arrays.values()):
        raise ModelFileError(f"memory {path} is damaged: its numbers must be finite.")
    return description["network"], arrays


@dataclass(frozen=True, eq=False)
class Unlike:
    """How unlike good pictures a picture is, and where.

    Attributes
    ----------
    map : ndarray of shape (rows, columns), float32
        The distances of its parts.
    size : tuple of int
        Height and width of the picture.
    """

    map: Float32
    size: tuple[int, int]

    @cached_property
    def distance(self) -> float:
        """The distance of the picture."""
        return distance_of(self.map)

    @cached_property
    def values(self) -> Float32:
        """The distances at each pixel, float32 (h, w)."""
        return self._at_pixels(self.map)

    @cached_property
    def box(self) -> tuple[float, float, float, float]:
        """The least region around the most distant pixel, x1, y1, x2, y2; the picture if it is in no region.

        The neighbourhoods of all cells around a small defect hold it and are about as distant, so that the largest
        distance lies anywhere among them. The mean over a neighbourhood is largest in their middle.
        """
        values, (height, width) = self._at_pixels(_averaged(self.map[..., None])[..., 0]), self.size
        row, column = np.unravel_index(int(values.argmax()), values.shape)
        x1, y1, x2, y2 = (regions := picture_regions(stretched(values.astype(np.float64)), self.size)).T
        around = regions[(x1 <= column) & (column < x2) & (y1 <= row) & (row < y2)]
        areas = (around[:, 2] - around[:, 0]) * (around[:, 3] - around[:, 1])
        box = around[areas.argmin()].tolist() if len(around) else [0.0, 0.0, float(width), float(height)]
        return box[0], box[1], box[2], box[3]

    def _at_pixels(self, values: Float32) -> Float32:
        """Return a map's values at each pixel, float32 (h, w)."""
        import cv2

        return np.asarray(cv2.resize(values, self.size[::-1], interpolation=cv2.INTER_LINEAR))


def _drawn(parts: Float32, count: int, rng: np.random.Generator) -> Float32:
    """Return some parts of a picture, drawn at random, none twice."""
    rows = parts.reshape(-1, parts.shape[2])
    return np.asarray(rows[rng.permutation(len(rows))[:count]])


def _axes(count: int, rng: np.random.Generator) -> Float32:
    """Return a projection (count, d) by random numbers, with lengths of 1 on average; of few dimensions all stay."""
    if count <= PROJECTED:
        return np.eye(count, dtype=np.float32)
    return np.asarray(rng.standard_normal((count, PROJECTED)) / np.sqrt(PROJECTED), np.float32)


def _directions(parts: Float32, centre: Float32, axes: Float32) -> tuple[Float32, Float32]:
    """Return means and deviations, and means less the centre, each divided by its length and projected."""
    channels = len(centre)
    with one_blas_thread():
        return _unit(parts) @ axes, _unit(parts[..., :channels] - centre) @ axes[:channels]


def _unit(values: Float32) -> Float32:
    lengths = np.linalg.norm(values.astype(np.float64), axis=-1, keepdims=True)
    return np.asarray(values / np.maximum(lengths, LEAST_LENGTH), np.float32)


def _averaged(cells: Float32) -> Float32:
    """Return means over the neighbourhoods of cells (rows, columns, channels), mirrored at the border."""
    import cv2

    side, (rows, columns, channels) = (AROUND, AROUND), cells.shape
    averaged = np.empty((rows, columns, channels), np.float32)
    for first in range(0, channels, _CHANNELS):
        some = np.ascontiguousarray(cells[..., first : first + _CHANNELS])
        blurred = cv2.blur(some, side, borderType=cv2.BORDER_REFLECT_101)
        averaged[..., first : first + _CHANNELS] = blurred.reshape(some.shape)
    return averaged
