"""A memory of good pictures' patches, after PatchCore (Roth et al., CVPR 2022), on the network of a run.

A patch is a cell of the finest map with the means over 3 x 3 cells of every map there. Of patches that are drawn at
random the memory keeps those that greedily cover all of them. A cell's number is the distance to its nearest patch; a
picture's is that of its largest cell. Good pictures are all it sees, so it knows no classes.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import cv2
import numpy as np

from lapsvm.arrays import Array, Float32
from lapsvm.objectness.normal import distances

CANDIDATES, KEPT = 40_000, 8_000
PROJECTED = 64  # random directions in which the cover is measured
MAGNIFIED, BLUR = 4, 2.0  # the map is resized before its peak is looked for, and blurred by half a cell


@dataclass(frozen=True, eq=False)
class NormalMemory:
    """Patches of good pictures; `map` says how unlike them a picture's are."""

    network: Any
    patches: Float32

    @classmethod
    def fit(cls, network: Any, pictures: Iterable[Array], candidates: int = CANDIDATES, kept: int = KEPT) -> Self:
        """Return the memory of some good pictures."""
        rng, maps = np.random.default_rng(0), [patches_of(network, one) for one in pictures]
        each = max(1, candidates // len(maps))
        drawn = [rng.permutation(one.reshape(-1, one.shape[2]))[:each] for one in maps]
        vectors = np.concatenate(drawn)
        return cls(network, vectors[greedy_cover(vectors, kept, rng)])

    def map(self, pixels: Array) -> Float32:
        """Return the distances (rows, columns) of a picture's cells to the nearest patch."""
        return distances(np.moveaxis(patches_of(self.network, pixels), 2, 0), self.patches)


def patches_of(network: Any, pixels: Array) -> Float32:
    """Return the patches (rows, columns, channels) of a picture."""
    maps = [_averaged(np.ascontiguousarray(np.moveaxis(one, 0, 2))) for one in network.feature_maps(pixels)]
    rows, columns = max((one.shape[:2] for one in maps), key=np.prod)
    return np.concatenate([cv2.resize(one, (columns, rows), interpolation=cv2.INTER_LINEAR) for one in maps], axis=2)


def _averaged(values: Float32) -> Float32:
    """Return means over 3 x 3 cells, with zeros outside, without which borders stand out in every picture."""
    return np.asarray(cv2.blur(values, (3, 3), borderType=cv2.BORDER_CONSTANT))


def greedy_cover(vectors: Float32, kept: int, rng: np.random.Generator) -> Array:
    """Return the indices of vectors, each the farthest from those before it, in a random projection."""
    directions = rng.standard_normal((vectors.shape[1], min(PROJECTED, vectors.shape[1]))).astype(np.float32)
    points = vectors @ directions
    squares = np.einsum("ij,ij->i", points, points)
    chosen, nearest = [0], np.full(len(points), np.inf, np.float32)
    while len(chosen) < min(kept, len(points)):
        last = chosen[-1]
        np.minimum(nearest, squares + squares[last] - 2 * (points @ points[last]), out=nearest)
        nearest[last] = -np.inf
        chosen.append(int(nearest.argmax()))
    return np.array(chosen)


def peak(values: Float32, shape: tuple[int, ...]) -> tuple[float, float]:
    """Return where a map of cells is largest, as x, y of a picture of rows and columns `shape`."""
    rows, columns = values.shape
    large = cv2.resize(values, (MAGNIFIED * columns, MAGNIFIED * rows), interpolation=cv2.INTER_LINEAR)
    large = cv2.GaussianBlur(large, (0, 0), BLUR)
    row, column = np.unravel_index(int(large.argmax()), large.shape)
    return (column + 0.5) * shape[1] / large.shape[1], (row + 0.5) * shape[0] / large.shape[0]
