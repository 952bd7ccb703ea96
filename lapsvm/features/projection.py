"""Dimensionality reduction: principal components of each part, computed on a sample of training windows.

Shards and passes shrink with the number of features, and what the last components hold is mostly noise. No mean is
taken away first: it would add the same to every window's score, which changes no ranking. The sums over windows,
from which components are computed, can be stored, so that an interrupted sum is continued.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Array, Float32, Float64, as_numbers, check_finite, check_positive
from lapsvm.errors import InputError, ModelFileError, SettingsError, ShapeError
from lapsvm.features.extractors.blocks import Block, block_record, sizes_of, split_blocks
from lapsvm.features.extractors.extractor import Extractor, prepared, recorded_description
from lapsvm.features.extractors.maps.prepared import PreparedPicture, PreparedProjection, project_blocks
from lapsvm.features.shards.shard_folder import settings_difference
from lapsvm.model_files import read_model, write_model

FORMAT = "lapsvm projection"
VERSION = 1
SUMS_FORMAT = "lapsvm sums for a projection"
BATCH = 1024  # windows whose products are summed at once


@dataclass(frozen=True, eq=False)
class Projection:
    """The first principal components of every part of some features.

    Attributes
    ----------
    components : tuple of ndarray of shape (d_i, k_i), float32
        For each part; orthonormal columns, those of largest variance first.
    kept : tuple of float
        The share of each part's variance that its components hold.
    has_context : tuple of bool
        Whether a part is a window's features, then as many of its context: both take the same components, d_i being the
        number of one, so that the one may still be subtracted from the other.
    """

    components: tuple[Float32, ...]
    kept: tuple[float, ...]
    has_context: tuple[bool, ...]

    def __post_init__(self) -> None:
        for matrix in self.components:
            check_finite("components", matrix)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks of the features before the projection."""
        return self._blocks([len(matrix) for matrix in self.components])

    @property
    def projected_blocks(self) -> tuple[Block, ...]:
        """The blocks of the projected features."""
        return self._blocks([matrix.shape[1] for matrix in self.components])

    def _blocks(self, inside: Sequence[int]) -> tuple[Block, ...]:
        return tuple(Block.of(size, doubled) for size, doubled in zip(inside, self.has_context, strict=True))

    @property
    def pieces(self) -> tuple[Float32, ...]:
        """The components of each block's window, then of its context if it has one."""
        pairs = zip(self.components, self.blocks, strict=True)
        return tuple(matrix for matrix, block in pairs for _ in block.pieces)

    def apply(self, features: Float32) -> Float32:
        """Return the projection (n, k) of features (n, d)."""
        return project_blocks(features, self.components, self.blocks)

    def unfold(self, weights: ArrayLike) -> Float64:
        """Return the weights (d,) of unprojected features with the same scores as `weights` (k,)."""
        edges = np.cumsum([matrix.shape[1] for matrix in self.pieces])[:-1]
        parts = np.split(as_numbers("weights", weights), edges)
        return np.concatenate([matrix @ piece for piece, matrix in zip(parts, self.pieces, strict=True)])

    @property
    def fingerprint(self) -> str:
        """Hash of the components: 32 hex digits."""
        digest = blake2b(repr(self.has_context).encode(), digest_size=16)
        for matrix in self.components:
            digest.update(f"{matrix.shape}".encode() + np.ascontiguousarray(matrix).tobytes())
        return digest.hexdigest()


class Projected:
    """An extractor whose features are projected (see `Extractor`).

    Parameters
    ----------
    whole : Extractor
    projection : Projection

    Raises
    ------
    ShapeError
        If the projection is of other features.
    """

    def __init__(self, whole: Extractor, projection: Projection) -> None:
        if projection.blocks != tuple(whole.blocks):
            wanted, got = (list(sizes_of(blocks)) for blocks in (whole.blocks, projection.blocks))
            raise ShapeError(f"the projection must be of blocks of {wanted} features, got {got}.")
        self.whole, self.projection = whole, projection

    @property
    def dim(self) -> int:
        """Number of features of a window."""
        return sum(sizes_of(self.blocks))

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks of the projected features."""
        return self.projection.projected_blocks

    def describe(self) -> dict[str, Any]:
        """Return the description of the unprojected features, and the hash of the components."""
        return {
            "kind": "projection",
            "version": VERSION,
            **block_record(self.blocks),
            "components": self.projection.fingerprint,
            "of": recorded_description(self.whole),
        }

    def __call__(self, pixels: Array, boxes: ArrayLike) -> Float32:
        """Return the projected features, float32 of shape (n, dim)."""
        return self.prepare(pixels)(boxes)

    def prepare(self, pixels: Array) -> PreparedPicture:
        """Prepare a picture for several calls with windows (see `prepared`)."""
        return PreparedProjection(prepared(self.whole, pixels), self.projection.components)


@dataclass(frozen=True, eq=False)
class Moments:
    """The sums of some windows' features, part by part.

    Attributes
    ----------
    samples : int
        Number of samples (pictures) that are summed.
    windows : int
        Number of their windows.
    sums : tuple of ndarray of shape (d_i,), float64
    products : tuple of ndarray of shape (d_i, d_i), float64
        The sums of the features' products.
    """

    samples: int
    windows: int
    sums: tuple[Float64, ...]
    products: tuple[Float64, ...]

    @classmethod
    def empty(cls, sizes: Sequence[int]) -> "Moments":
        """Return the sums of no window, of parts of some sizes."""
        return cls(0, 0, tuple(np.zeros(d) for d in sizes), tuple(np.zeros((d, d)) for d in sizes))

    def plus(self, samples: int, parts: Sequence[Float64]) -> "Moments":
        """Return the sums with the features (n, d_i) of more samples."""
        sums = (total + block.sum(axis=0) for total, block in zip(self.sums, parts, strict=True))
        products = (total + block.T @ block for total, block in zip(self.products, parts, strict=True))
        return Moments(self.samples + samples, self.windows + len(parts[0]), tuple(sums), tuple(products))

    def covariances(self) -> list[Float64]:
        """Return the covariance (d_i, d_i) of each part."""
        pairs = zip(self.sums, self.products, strict=True)
        return [product / self.windows - np.outer(total, total) / self.windows**2 for total, product in pairs]

    def save(self, path: str | Path, made_with: Mapping[str, Any]) -> None:
        """Write the sums to a file, with the settings that determine the samples."""
        tensors: dict[str, Array] = {f"sums{i}": array for i, array in enumerate(self.sums)}
        tensors |= {f"products{i}": array for i, array in enumerate(self.products)}
        counts = {"samples": self.samples, "windows": self.windows, "made_with": dict(made_with)}
        write_model(path, {"format": SUMS_FORMAT, "version": VERSION, **counts}, tensors, "sums")

    @classmethod
    def load(cls, path: str | Path, made_with: Mapping[str, Any], sizes: Sequence[int]) -> "Moments | None":
        """Return the sums of a file. None if they were made with something else.

        Raises
        ------
        MissingError
            If there is no such file.
        ModelFileError
            If it is damaged.
        """
        description, tensors = read_model(path, SUMS_FORMAT, VERSION)
        shapes = {f"sums{i}": (d,) for i, d in enumerate(sizes)} | {f"products{i}": (d, d) for i, d in enumerate(sizes)}
        stored_shapes = {name: tensor.shape for name, tensor in tensors.items()}
        if description.get("made_with") != dict(made_with) or stored_shapes != shapes:
            return None
        arrays = tuple(tensors[name] for name in shapes)
        return cls(description["samples"], description["windows"], arrays[: len(sizes)], arrays[len(sizes) :])


def fit_projection(
    samples: Iterable[Array],
    blocks: Sequence[Block],
    size: float,
    earlier: Moments | None = None,
    keep: Callable[[Moments], object] = lambda _: None,
    threads: int = 1,
) -> Projection:
    """Return the principal components of every part of some features.

    Parameters
    ----------
    samples : iterable of arrays of shape (n, d)
        Features of windows, for instance some of each training picture.
    blocks : sequence of Block
        Their sizes sum to d. The components of one with context are those of the window's own features.
    size : float
        From 1 on how many components a part keeps, at most all; below 1 the share of its variance to keep at least.
    earlier : Moments, optional
        The sums of earlier samples, of which `keep` received them; the result has the bytes of one uninterrupted sum.
    keep : callable, optional
        Receives the sums after each batch of samples.
    threads : int, default 1
        On which the components of the parts are found.

    Returns
    -------
    Projection

    Raises
    ------
    ShapeError
        If there are fewer than two windows.
    InputError
        If `size` is no finite number greater than 0.
    """
    check_positive("the size of a projection", size)
    moments = Moments.empty([block.inside for block in blocks]) if earlier is None else earlier
    for count, parts in _batches(samples, blocks):
        moments = moments.plus(count, parts)
        keep(moments)
    if moments.windows < 2:
        raise ShapeError(f"a projection needs at least two windows, got {moments.windows}.")
    with ThreadPoolExecutor(threads) as pool:
        principal = list(pool.map(partial(_principal, size), moments.covariances()))
    has_context = tuple(block.has_context for block in blocks)
    return Projection(
        tuple(components for components, _ in principal), tuple(kept for _, kept in principal), has_context
    )


def _batches(samples: Iterable[Array], blocks: Sequence[Block]) -> Iterator[tuple[int, list[Float64]]]:
    """Yield the number and parts of some samples: a product of few rows adds to matrices as large as one of many."""
    held: list[list[Float64]] = []
    for rows in samples:
        parts = zip(split_blocks(rows, blocks, axis=1), blocks, strict=True)
        held.append([as_numbers("samples", features[:, : block.inside]) for features, block in parts])
        if sum(len(of_sample[0]) for of_sample in held) >= BATCH:
            yield len(held), [np.concatenate(of_part) for of_part in zip(*held, strict=True)]
            held = []
    if held:
        yield len(held), [np.concatenate(of_part) for of_part in zip(*held, strict=True)]


def _principal(size: float, covariance: Float64) -> tuple[Float32, float]:
    """Return the components (d, k) of one part, and the share of variance that they hold."""
    variances, vectors = np.linalg.eigh(covariance)
    variances, vectors = np.maximum(variances[::-1], 0), vectors[:, ::-1]
    shares = np.cumsum(variances) / max(variances.sum(), np.finfo(float).tiny)
    count = int(min(size, len(shares)) if size >= 1 else np.searchsorted(shares, size - 1e-12) + 1)
    count = min(count, len(shares))
    chosen = vectors[:, :count]
    largest = np.take_along_axis(chosen, np.abs(chosen).argmax(axis=0)[None], axis=0)
    return (chosen * np.where(largest < 0, -1, 1)).astype(np.float32), float(shares[count - 1])


def save_projection(path: str | Path, projection: Projection, made_with: Mapping[str, Any]) -> None:
    """Write a projection to a safetensors file, with the settings that determine it."""
    tensors = {f"components{i}": matrix for i, matrix in enumerate(projection.components)}
    description = {
        "format": FORMAT,
        "version": VERSION,
        "kept": list(projection.kept),
        "has_context": list(projection.has_context),
        "made_with": dict(made_with),
    }
    write_model(path, description, tensors, "made_with")


def load_projection(path: str | Path, made_with: Mapping[str, Any] | None = None) -> Projection:
    """Read a projection.

    Parameters
    ----------
    path : str or Path
    made_with : mapping, optional
        What it must have been made with (see `save_projection`), but for its pictures: a run keeps its projection when
        pictures are added.

    Raises
    ------
    MissingError
        If there is no such file.
    ModelFileError
        If it is damaged, or no projection of this version.
    SettingsError
        If it was made with something else.
    """
    description, tensors = read_model(path, FORMAT, VERSION)
    try:
        kept = tuple(description["kept"])
        components = tuple(tensors[f"components{i}"] for i in range(len(kept)))
        projection = Projection(components, kept, tuple(description["has_context"]))
        stored = {**description["made_with"]}
        wanted = stored if made_with is None else {**made_with, "pictures": stored.get("pictures")}
        difference = settings_difference(stored, wanted)
    except (KeyError, TypeError) as error:
        raise ModelFileError(f"projection {path} is damaged: it lacks {error}.") from None
    except InputError as error:
        raise ModelFileError(f"projection {path} is damaged: {error}") from None
    if difference:
        raise SettingsError(f"projection {path} was made with {difference}.")
    return projection
