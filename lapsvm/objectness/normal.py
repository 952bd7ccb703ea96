"""Maps of the differences from negative pictures: the source ``normal``, for defects and cells.

A network's map has a vector for each of its cells. How far a vector is from the nearest one of the negative pictures
says how unusual the cell is (the idea of PatchCore, Roth et al., CVPR 2022). Borders and edges are unusual in any
picture, so the mean of these distances over the negatives at the same place is taken away, and the rest divided by
their deviation there. A negative's own vectors are not among its neighbours.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Array, Float32, Float64, check_count, check_finite
from lapsvm.blas import one_blas_thread
from lapsvm.catalog import check_pixels
from lapsvm.errors import DataError, InputError, ModelFileError, SettingsError, naming
from lapsvm.features import settings_difference
from lapsvm.model_files import read_model, write_model
from lapsvm.objectness.regions import picture_regions, stretched

FORMAT, VERSION = "lapsvm normal map", 1
PATCHES = 20_000
LEAST_PICTURES = 10
GRID = 32
"""Rows and columns of the places at which distances of negatives are summed up."""

LEAST_DEVIATION = 0.1
"""What is added to the deviation of every place, as a share of their mean."""

MAGNIFIED = 4
"""Cells of the returned map per row and column of the network's finest map, so that regions end between its cells."""

CHUNK = 256  # vectors whose distances are computed at once: 20 MB beside 20,000 others
_ARRAYS = ("patches", "mean", "deviation")


class MapNetwork(Protocol):
    """A network's maps of a picture, as `lapsvm.features.PooledNetwork` gives them."""

    def describe(self) -> dict[str, Any]:
        """Return everything that the maps depend on, as plain JSON."""

    def feature_maps(self, pixels: Array) -> list[Float32]:
        """Return the maps of a picture, each (channels, rows, columns), the same number for every picture."""


@dataclass(frozen=True, eq=False)
class NormalPatches:
    """What one map of a network has in negative pictures.

    Attributes
    ----------
    patches : ndarray of shape (n, channels), float32
        Vectors of its cells.
    mean, deviation : ndarray of shape (GRID, GRID), float32
        Of the distances in negative pictures, over the whole picture.
    """

    patches: Float32
    mean: Float32
    deviation: Float32

    @classmethod
    def fit(cls, maps: Sequence[Float32], limit: int, rng: np.random.Generator) -> Self:
        """Fit maps (channels, rows, columns) by the same number of cells of each, about `limit` in all."""
        drawn = [_drawn(_vectors(feature_map), max(1, limit // len(maps)), rng) for feature_map in maps]
        patches, ends = np.concatenate(drawn), np.cumsum([0, *map(len, drawn)])
        drawn_from = [slice(*pair) for pair in pairwise(ends)]
        unusual = (distances(feature_map, patches, mine) for feature_map, mine in zip(maps, drawn_from, strict=True))
        grids = np.stack([_resized(values, (GRID, GRID)) for values in unusual]).astype(np.float64)
        deviation = np.sqrt(_smoothed(grids.var(axis=0)))
        deviation += LEAST_DEVIATION * deviation.mean() or 1.0
        return cls(patches, _smoothed(grids.mean(axis=0)).astype(np.float32), deviation.astype(np.float32))

    def __call__(self, feature_map: Float32, shape: tuple[int, int]) -> Float32:
        """Return how unusual a map's cells are, resized to `shape`. Raises NotFiniteError if distances overflow."""
        raw = distances(feature_map, self.patches)
        mean, deviation = (_resized(grid, raw.shape) for grid in (self.mean, self.deviation))
        return _resized((raw - mean) / deviation, shape)


class NormalMap:
    """A source of objectness by the differences from negative pictures; thread-safe.

    It says what is unusual in pictures that it was not fitted to; in the others too little is.

    Parameters
    ----------
    network : MapNetwork
    parts : sequence of NormalPatches
        One for each of the network's maps; what they say is added.
    pictures : sequence of str, default ()
        Names of the pictures that it was fitted to.
    """

    def __init__(self, network: MapNetwork, parts: Sequence[NormalPatches], pictures: Sequence[str] = ()) -> None:
        self._network, self._parts, self.pictures = network, tuple(parts), tuple(pictures)
        digest = blake2b(digest_size=16)
        for array in _tensors(self._parts).values():
            digest.update(f"{array.shape}\n".encode() + array.tobytes())
        self._fit = digest.hexdigest()

    @classmethod
    def fit(
        cls, network: MapNetwork, negatives: Iterable[tuple[str, Array]], *, limit: int = PATCHES, seed: int = 0
    ) -> Self:
        """Fit a source to negative pictures.

        Memory holds the maps of all negatives, and one picture at a time. The same pictures in the same order give the
        same bytes.

        Parameters
        ----------
        network : MapNetwork
        negatives : iterable of (str, ndarray of shape (h, w, 3), uint8 RGB)
            Names and pixels of pictures without any object, at least 10.
        limit : int, default 20,000
            About how many cells of each map are kept, drawn at random, as many of each picture and at least one.
        seed : int, default 0

        Returns
        -------
        NormalMap

        Raises
        ------
        InputError
            If there are fewer than 10, or an argument breaks its rule.
        DataError, NotFiniteError
            If the network cannot take a picture, or its numbers are too large.
        """
        check_count("limit", limit)
        seen = [(name, _seen(network, name, pixels)) for name, pixels in negatives]
        names, maps = [name for name, _ in seen], [feature_maps for _, feature_maps in seen]
        if len(maps) < LEAST_PICTURES:
            raise InputError(f"a normal map needs at least {LEAST_PICTURES} negative pictures, got {len(maps)}.")
        rng = np.random.default_rng(seed)
        return cls(network, [NormalPatches.fit(of_layer, limit, rng) for of_layer in zip(*maps, strict=True)], names)

    @classmethod
    def load(cls, path: str | Path, network: MapNetwork) -> Self:
        """Read a source that `save` has written.

        Raises
        ------
        MissingError
            If there is no such file.
        ModelFileError
            If it is damaged, of another version, or holds arrays of other shapes or types, or numbers that are not
            finite.
        SettingsError
            If it was fitted with another network.
        """
        fitted_with, parts, pictures = read_normal_map(path)
        difference = settings_difference(fitted_with, network.describe())
        if difference:
            raise SettingsError(f"normal map {path} was fitted with {difference}.")
        return cls(network, parts, pictures)

    def save(self, path: str | Path) -> None:
        """Write a safetensors file; the network is described, and not in it."""
        description = {"format": FORMAT, "version": VERSION, "network": self._network.describe()}
        write_model(path, {**description, "pictures": list(self.pictures)}, _tensors(self._parts), "network")

    def describe(self) -> dict[str, Any]:
        """Return everything that the map and its regions depend on."""
        return {"kind": "normal-map", "version": VERSION, "fit": self._fit, "network": self._network.describe()}

    def map(self, pixels: Array) -> Float32:
        """Return the map of a picture, float32 of shape (rows, columns) in 0..1.

        The least number of each map becomes 0 and the largest 1; a map of one number becomes zeros.

        Parameters
        ----------
        pixels : ndarray of shape (h, w, 3), uint8 RGB

        Raises
        ------
        ShapeError, InputError
            If the picture has another shape or type.
        DataError, NotFiniteError
            If the network cannot take the picture, its maps are not those of the fit, or numbers are too large.
        """
        check_pixels(pixels)
        maps = self._network.feature_maps(pixels)
        self._check_maps(maps)
        rows, columns = max((feature_map.shape[1:] for feature_map in maps), key=np.prod)
        shape = (MAGNIFIED * rows, MAGNIFIED * columns)
        layers = [patches(feature_map, shape) for patches, feature_map in zip(self._parts, maps, strict=True)]
        return stretched(np.sum(layers, axis=0)).astype(np.float32)

    def _check_maps(self, maps: Sequence[Float32]) -> None:
        """Raise DataError if maps have other channels than the maps of the fit."""
        wanted, got = ([layer.patches.shape[1] for layer in self._parts], [len(layer) for layer in maps])
        if wanted != got:
            raise DataError(f"the network's maps must have the channels of the fit, {wanted}, got {got}.")

    def regions(self, pixels: Array) -> Float64:
        """Return the regions of a picture's map in pixels of the picture; see `picture_regions` and `map`."""
        return picture_regions(self.map(pixels), pixels.shape[:2])


def distances(feature_map: Float32, patches: Float32, excluded: slice | NDArray[np.bool_] = slice(0)) -> Float32:
    """Return the distance of each cell of a map to the nearest of some vectors.

    Parameters
    ----------
    feature_map : ndarray of shape (channels, rows, columns), float32
    patches : ndarray of shape (n, channels), float32
    excluded : slice or ndarray of bool, default none
        The vectors that are no neighbours.

    Returns
    -------
    ndarray of shape (rows, columns), float32

    Raises
    ------
    NotFiniteError
        If squares overflow.
    """
    vectors, squares = _vectors(feature_map), np.einsum("ij,ij->i", patches, patches)
    squares[excluded] = np.inf
    nearest = np.empty(len(vectors), np.float32)
    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
        for first in range(0, len(vectors), CHUNK):
            rows = vectors[first : first + CHUNK]
            products = (-2 * rows) @ patches.T
            products += squares
            nearest[first : first + CHUNK] = products.min(axis=1) + np.einsum("ij,ij->i", rows, rows)
    check_finite("distances of a normal map", nearest)
    return np.asarray(np.sqrt(np.maximum(nearest, 0)).reshape(feature_map.shape[1:]))


def read_normal_map(path: str | Path) -> tuple[dict[str, Any], list[NormalPatches], tuple[str, ...]]:
    """Return the network's description, the parts and the names of the pictures of a stored normal map.

    Raises
    ------
    MissingError
        If there is no such file.
    ModelFileError
        If it is no normal map whose numbers can be used.
    """
    description, tensors = read_model(path, FORMAT, VERSION)
    network, pictures = description.get("network"), description.get("pictures")
    if not isinstance(network, dict):
        raise ModelFileError(f"normal map {path} is damaged: it must describe its network, got {network!r}.")
    if not isinstance(pictures, list) or not all(isinstance(name, str) for name in pictures):
        raise ModelFileError(f"normal map {path} is damaged: its pictures must be a list of names.")
    count = max(1, len(tensors) // len(_ARRAYS))
    wanted = {f"{name}{number}" for number in range(count) for name in _ARRAYS}
    if tensors.keys() != wanted:
        names = ", ".join(sorted(tensors)) or "none"
        raise ModelFileError(f"normal map {path} is damaged: it must have the arrays of each map, got {names}.")
    for name, values in tensors.items():
        _check_stored(path, name, values)
    parts = [NormalPatches(*(tensors[f"{name}{number}"] for name in _ARRAYS)) for number in range(count)]
    return network, parts, tuple(pictures)


def _check_stored(path: str | Path, name: str, values: Array) -> None:
    """Raise ModelFileError unless an array of a stored normal map has the shape, type and numbers of its name."""
    is_patches = name.startswith(_ARRAYS[0])
    right_shape = values.ndim == 2 and values.size > 0 if is_patches else values.shape == (GRID, GRID)
    start = f"normal map {path} is damaged: its array {name} must"
    if not right_shape or values.dtype != np.float32:
        shape = "(n, channels)" if is_patches else f"{(GRID, GRID)}"
        raise ModelFileError(f"{start} be float32 of shape {shape}, got {values.dtype} of {values.shape}.")
    if not np.isfinite(values).all():
        raise ModelFileError(f"{start} be finite, got NaN or infinity.")
    if name.startswith(_ARRAYS[2]) and values.min() <= 0:
        raise ModelFileError(f"{start} be greater than 0, got {values.min():g}.")


def _seen(network: MapNetwork, name: str, pixels: Array) -> list[Float32]:
    """Return the maps of a picture; errors name it."""
    with naming(f"picture {name}"):
        return network.feature_maps(pixels)


def _tensors(parts: Sequence[NormalPatches]) -> Mapping[str, Array]:
    """Return the arrays of all parts by name."""
    return {f"{name}{number}": getattr(patches, name) for number, patches in enumerate(parts) for name in _ARRAYS}


def _vectors(feature_map: Float32) -> Float32:
    """Return the vectors (rows x columns, channels) of a map's cells."""
    return np.ascontiguousarray(feature_map.reshape(len(feature_map), -1).T)


def _drawn(vectors: Float32, limit: int, rng: np.random.Generator) -> Float32:
    """Return some vectors, drawn at random, none twice."""
    return np.asarray(vectors[rng.choice(len(vectors), min(limit, len(vectors)), replace=False)])


def _resized(values: Array, shape: tuple[int, ...]) -> Array:
    """Return a map of other rows and columns, between whose cells it is linear."""
    import cv2

    return np.asarray(cv2.resize(values, shape[::-1], interpolation=cv2.INTER_LINEAR))


def _smoothed(values: Float64) -> Float64:
    """Return means over neighbouring places, by a Gaussian of one place."""
    import cv2

    return np.asarray(cv2.GaussianBlur(values, (0, 0), 1))
