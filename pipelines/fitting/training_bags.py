"""The training pictures as bags, every block of the features scaled to the same mean norm."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Array, Float32, Float64
from lapsvm.bags import Bags
from lapsvm.bfloat16 import as_float32, narrowed
from lapsvm.features import BlockNorms, Shard, ShardSet, block_scales

from ..run.context import RunContext
from ..run.progress import Bar

_ROWS = 256
"""How many windows are combined at once, so that intermediate arrays stay in the processor's cache."""


@dataclass(frozen=True)
class ContextPairs:
    """Blocks of features; those that are `paired` hold a window's features followed by those of its surroundings.

    `blocks` has their dimensions, as stored; `contrast` times the second half is subtracted from the first.
    """

    blocks: tuple[int, ...]
    paired: tuple[bool, ...]
    contrast: float

    @classmethod
    def of(cls, provenance: Mapping[str, Any], contrast: float) -> Self:
        """Return the context pairs in the features of shards of this provenance."""
        extractor = provenance["features"]["extractor"]
        return cls(tuple(extractor["blocks"]), tuple(extractor["halves"]), contrast)

    @property
    def inside(self) -> NDArray[np.bool_]:
        """Which stored features are a window's own (d,)."""
        blocks = zip(self.blocks, self.paired, strict=True)
        return np.concatenate([np.arange(block) < block // (1 + half) for block, half in blocks])

    @property
    def combined_blocks(self) -> list[int]:
        """Dimensions of the blocks after `combine`."""
        return [block // (1 + half) for block, half in zip(self.blocks, self.paired, strict=True)]

    def combine(self, features: Array) -> Array:
        """Return features (n, d) without a share of those of their surroundings, in the same type."""
        combined = np.empty((len(features), sum(self.combined_blocks)), features.dtype)
        for start in range(0, len(features), _ROWS):
            part = as_float32(features[start : start + _ROWS])
            blocks = zip(np.split(part, np.cumsum(self.blocks)[:-1], axis=1), self.paired, strict=True)
            numbers = np.concatenate([self._combined(block, half) for block, half in blocks], axis=1)
            combined[start : start + _ROWS] = narrowed(numbers, features.dtype)
        return combined

    def _combined(self, block: Array, half: bool) -> Array:
        if not half:
            return block
        inside, around = np.split(block, 2, axis=1)
        return np.asarray(inside - np.float32(self.contrast) * around)

    def unfold(self, weights: Float64) -> Float64:
        """Return the weights of stored features that score as `weights` does after `combine`."""
        return self._doubled(weights, -self.contrast)

    def unfold_scale(self, scale: Float64) -> Float64:
        """Return the scale of stored features that belongs to `unfold`."""
        return self._doubled(scale, 1.0)

    def _doubled(self, numbers: Float64, factor: float) -> Float64:
        blocks = zip(np.split(numbers, np.cumsum(self.combined_blocks)[:-1]), self.paired, strict=True)
        return np.concatenate([np.append(block, factor * block) if half else block for block, half in blocks])


def stored_bags(context: RunContext, shards: ShardSet, memory: int | str | None = None) -> tuple[Bags, Float64]:
    """Return the training pictures with their features as stored, all parts scaled to one mean norm, and the scale.

    `memory` is the limit for the windows, by default that of the context.
    """
    return _opened(context, shards, shards.provenance["features"]["extractor"]["blocks"], memory=memory)


def training_bags(context: RunContext, shards: ShardSet) -> tuple[Bags, Float64, ContextPairs]:
    """Return the training pictures with combined context pairs, the scale, and the pairs."""
    pairs = ContextPairs.of(shards.provenance, context.settings.features.contrast)
    transform = pairs.combine if any(pairs.paired) else None
    return *_opened(context, shards, pairs.combined_blocks, transform), pairs


def _opened(
    context: RunContext,
    shards: ShardSet,
    blocks: Sequence[int],
    transform: Callable[[Array], Array] | None = None,
    memory: int | str | None = None,
) -> tuple[Bags, Float64]:
    """Return the scaled training pictures and the scale, reading each shard once and checking it."""
    set_name = context.train_set
    total = None if context.cluster else shards.n_windows  # workers report only at the end
    with context.reporter.bar(f"read {set_name}", total, "windows") as bar:
        norms = BlockNorms(blocks) if context.cluster else _NormsWithBar(blocks, bar)
        resources = {name: getattr(context, name) for name in ("threads", "device", "cluster")}
        resources["memory"] = context.memory if memory is None else memory
        bags = Bags.open(context.run.path, set_name, verify=True, transform=transform, visit=norms, **resources)
    scale = block_scales(norms.means, blocks)
    return bags.scaled(scale), scale


class _NormsWithBar(BlockNorms):
    """Norms of blocks, and a bar that shows how many windows are read."""

    def __init__(self, blocks: Sequence[int], bar: Bar) -> None:
        super().__init__(blocks)
        self._bar = bar

    def add(self, features: Array) -> None:
        """Add the features of one shard."""
        super().add(features)
        self._bar.step(len(features))


def window_boxes(shards: ShardSet) -> Float64:
    """Return the boxes (n_windows, 4) of the pictures of shards, one after another; features are not read."""
    return np.concatenate([shard.boxes for shard in shards]).astype(np.float64)


def window_objectness_of(shards: ShardSet) -> Float32 | None:
    """Return how much the windows (n_windows,) of shards stand out, from 0 to 1; None if no picture was measured.

    Pictures that were not measured have NaN. Raises SettingsError if two sources measured the shards.
    """
    if shards.objectness is None:
        return None
    columns = (_window_objectness(shard) for shard in shards)
    return np.concatenate(list(columns))


def _window_objectness(shard: Shard) -> Float32:
    return np.full(len(shard.boxes), np.nan, np.float32) if shard.objectness is None else shard.objectness
