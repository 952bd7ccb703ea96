"""The training pictures as bags: what their shards hold, every part of the features at the same mean norm."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lapsvm.arrays import Array, Float64
from lapsvm.bags import Bags
from lapsvm.bfloat16 import narrowed, widened
from lapsvm.features import BlockNorms, ShardSet, block_scales

from ..run.context import RunContext
from ..run.progress import Bar


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
        combined = np.concatenate([self._combined(part, half) for part, half in parts], axis=1)
        return narrowed(combined, features.dtype)

    def _combined(self, part: Array, half: bool) -> Array:
        wide = widened(part).astype(np.float32)
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


def stored_bags(context: RunContext, shards: ShardSet) -> tuple[Bags, Float64]:
    """Return the training pictures with their features as stored, and the scale that they are given."""
    return _opened(context, shards, shards.provenance["features"]["extractor"]["blocks"])


def training_bags(context: RunContext, shards: ShardSet) -> tuple[Bags, Float64, Halves]:
    """Return the training pictures as training sees them, their scale, and how weights are unfolded."""
    extractor = shards.provenance["features"]["extractor"]
    blocks, halved = tuple(extractor["blocks"]), tuple(extractor["halves"])
    halves = Halves(blocks, halved, context.settings.features.contrast)
    if not any(halved):
        return *stored_bags(context, shards), halves
    return *_opened(context, shards, halves.combined_blocks, halves.combine), halves


def _opened(
    context: RunContext, shards: ShardSet, blocks: Sequence[int], transform: Callable[[Array], Array] | None = None
) -> tuple[Bags, Float64]:
    """Return the training pictures and their scale; each shard is read once, its checksum compared."""
    set_name = context.settings.data.train_set
    total = None if context.cluster else shards.n_windows  # of what workers read nothing is heard before the end
    with context.reporter.bar(f"read {set_name}", total, "windows") as bar:
        norms = BlockNorms(blocks) if context.cluster else _ShownNorms(blocks, bar)
        bags = Bags.open(
            context.run.path,
            set_name,
            threads=context.threads,
            memory=context.memory,
            verify=True,
            transform=transform,
            visit=norms,
            device=context.device,
            cluster=context.cluster,
        )
    scale = block_scales(norms.means, blocks)
    return bags.scaled(scale), scale


class _ShownNorms(BlockNorms):
    """Norms of what is read here, and a bar that tells how far reading is."""

    def __init__(self, blocks: Sequence[int], bar: Bar) -> None:
        super().__init__(blocks)
        self._bar = bar

    def add(self, features: Array) -> None:
        """See the features of one shard."""
        super().add(features)
        self._bar.step(len(features))
