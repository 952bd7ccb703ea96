"""The training pictures as bags: what their shards hold, every part of the features at the same mean norm."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lapsvm.arrays import Array, Float64, Index
from lapsvm.bags import Bags
from lapsvm.features import ShardSet, block_scales, mean_block_norms

from .stages import Context


@dataclass(frozen=True)
class Halves:
    """Parts of features of which some are a window's own followed by those of its surroundings, and how they combine.

    Attributes
    ----------
    blocks : tuple of int
        Numbers of features of the parts, as stored.
    halved : tuple of bool
        Which of them have two halves.
    contrast : float
        How much of the second half is taken away from the first.
    """

    blocks: tuple[int, ...]
    halved: tuple[bool, ...]
    contrast: float

    @property
    def combined_blocks(self) -> list[int]:
        """Numbers of features of the parts after `combine`."""
        return [block // (1 + half) for block, half in zip(self.blocks, self.halved, strict=True)]

    def combine(self, features: Array) -> Array:
        """Return features (n, d) with one half taken away from the other, in the same type."""
        parts = zip(np.split(features, np.cumsum(self.blocks)[:-1], axis=1), self.halved, strict=True)
        return np.concatenate([self._combined(part, half) for part, half in parts], axis=1).astype(features.dtype)

    def _combined(self, part: Array, half: bool) -> Array:
        wide = part.astype(np.float32)
        if not half:
            return wide
        own, around = np.split(wide, 2, axis=1)
        return np.asarray(own - np.float32(self.contrast) * around)

    def unfold(self, weights: Float64) -> Float64:
        """Return the weights of the stored features that score as `weights` do after `combine`."""
        return self._doubled(weights, -self.contrast)

    def unfold_scale(self, scale: Float64) -> Float64:
        """Return the scale of the stored features that goes with `unfold`."""
        return self._doubled(scale, 1.0)

    def _doubled(self, numbers: Float64, factor: float) -> Float64:
        parts = zip(np.split(numbers, np.cumsum(self.combined_blocks)[:-1]), self.halved, strict=True)
        return np.concatenate([np.append(own, factor * own) if half else own for own, half in parts])


def stored_bags(context: Context, shards: ShardSet) -> tuple[Bags, Float64]:
    """Return the training pictures with their features as stored, and the scale that they are given."""
    blocks = shards.provenance["features"]["extractor"]["blocks"]
    scale = block_scales(mean_block_norms(_verified_features(shards), blocks), blocks)
    return Bags.open(context.run.path, context.settings.data.train_set, scale, threads=context.threads), scale


def training_bags(context: Context, shards: ShardSet) -> tuple[Bags, Float64, Halves]:
    """Return the training pictures as training sees them, their scale, and how weights are unfolded."""
    extractor = shards.provenance["features"]["extractor"]
    blocks, halved = tuple(extractor["blocks"]), tuple(extractor["halves"])
    halves = Halves(blocks, halved, context.settings.features.contrast)
    if not any(halved):
        return *stored_bags(context, shards), halves
    features, offsets = _combined(shards, halves)
    scale = block_scales(mean_block_norms(features, halves.combined_blocks), halves.combined_blocks)
    return Bags(features, offsets, scale, threads=context.threads), scale, halves


def _combined(shards: ShardSet, halves: Halves) -> tuple[Array, Index]:
    """Return all features with one half taken away from the other, and the offsets of the pictures."""
    features = np.empty((shards.n_windows, sum(halves.combined_blocks)), dtype=shards.dtype)
    end = 0
    for own in _verified_features(shards):
        features[end : end + len(own)] = halves.combine(own)
        end += len(own)
    sizes = np.concatenate([np.diff(shard.offsets) for shard in shards])
    return features, np.append(0, np.cumsum(sizes)).astype(np.intp)


def _verified_features(shards: ShardSet) -> Iterator[Array]:
    """Yield the features of every shard, once its checksum is found right."""
    for index in range(len(shards)):
        yield shards.read(index, verify=True).features
