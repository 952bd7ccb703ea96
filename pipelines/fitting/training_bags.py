"""The training pictures as bags, every block of the features scaled to the same mean norm."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Array, Float32, Float64
from lapsvm.bags import Bags
from lapsvm.bags.stores.memory import as_bytes
from lapsvm.bfloat16 import as_float32, named_type, narrowed
from lapsvm.features import Block, BlockNorms, ShardSet, block_scales, recorded_blocks
from lapsvm.features.extractors.blocks import sizes_of, split_blocks
from lapsvm.latent.scheduling.pool import MOST_BYTES

from ..context import Workspace
from ..run.progress import Bar
from ..settings.settings import Settings

_ROWS = 256
"""How many windows are combined at once, so that intermediate arrays stay in the processor's cache."""


@dataclass(frozen=True)
class ContextPairs:
    """Blocks of features as stored; `contrast` times the context of those that have it is subtracted in training."""

    blocks: tuple[Block, ...]
    contrast: float

    @classmethod
    def of(cls, provenance: Mapping[str, Any], contrast: float) -> Self:
        """Return the context pairs in the features of shards of this provenance."""
        return cls(stored_blocks(provenance), contrast)

    @property
    def inside(self) -> NDArray[np.bool_]:
        """Which stored features are a window's own (d,)."""
        return np.concatenate([np.arange(block.size) < block.inside for block in self.blocks])

    @property
    def has_context(self) -> bool:
        """Whether `combine` changes any block."""
        return any(block.has_context for block in self.blocks)

    @property
    def combined_sizes(self) -> list[int]:
        """Dimensions of the blocks after `combine`."""
        return [block.inside for block in self.blocks]

    def combine(self, features: Array) -> Array:
        """Return features (n, d) without a share of those of their context, in the same type."""
        combined = np.empty((len(features), sum(self.combined_sizes)), features.dtype)
        for start in range(0, len(features), _ROWS):
            part = as_float32(features[start : start + _ROWS])
            columns = zip(split_blocks(part, self.blocks, axis=1), self.blocks, strict=True)
            numbers = np.concatenate([self._combined(own, block) for own, block in columns], axis=1)
            combined[start : start + _ROWS] = narrowed(numbers, features.dtype)
        return combined

    def _combined(self, features: Array, block: Block) -> Array:
        if not block.has_context:
            return features
        inside, around = np.split(features, 2, axis=1)
        return np.asarray(inside - np.float32(self.contrast) * around)

    def unfold(self, weights: Float64) -> Float64:
        """Return the weights of stored features that score as `weights` does after `combine`."""
        return self._doubled(weights, -self.contrast)

    def unfold_scale(self, scale: Float64) -> Float64:
        """Return the scale of stored features that belongs to `unfold`."""
        return self._doubled(scale, 1.0)

    def _doubled(self, numbers: Float64, factor: float) -> Float64:
        parts = zip(np.split(numbers, np.cumsum(self.combined_sizes)[:-1]), self.blocks, strict=True)
        return np.concatenate([np.append(own, factor * own) if block.has_context else own for own, block in parts])


def stored_blocks(provenance: Mapping[str, Any]) -> tuple[Block, ...]:
    """Return the blocks of the features of shards of this provenance; SettingsError if it records none."""
    return recorded_blocks(provenance["features"]["extractor"])


def stored_bags(workspace: Workspace, train_set: str, shards: ShardSet) -> tuple[Bags, Float64]:
    """Return the training pictures with their features as stored, all parts scaled to one mean norm, and the scale."""
    return _opened(workspace, train_set, shards, sizes_of(stored_blocks(shards.provenance)))


def training_bags(workspace: Workspace, settings: Settings, shards: ShardSet) -> tuple[Bags, Float64, ContextPairs]:
    """Return the training pictures with combined context pairs, the scale, and the pairs.

    Of the memory a part is left for candidates, which training copies between passes.
    """
    pairs = ContextPairs.of(shards.provenance, settings.features.contrast)
    transform = pairs.combine if pairs.has_context else None
    sizes = pairs.combined_sizes
    if settings.train.candidates and workspace.cluster is None:
        windows = shards.n_windows * sum(sizes) * named_type(shards.headers[0].dtype).itemsize
        workspace = replace(workspace, memory=beside_candidates(as_bytes(workspace.memory), windows))
    return *_opened(workspace, settings.data.train_set, shards, sizes, transform), pairs


def beside_candidates(memory: int | None, windows: int) -> int | None:
    """Return the bytes of memory left for windows after the candidates': three quarters of it at least."""
    return None if memory is None else memory - min(memory // 4, windows // 2, MOST_BYTES)


def _opened(
    workspace: Workspace,
    set_name: str,
    shards: ShardSet,
    sizes: Sequence[int],
    transform: Callable[[Array], Array] | None = None,
) -> tuple[Bags, Float64]:
    """Return the scaled training pictures and the scale, reading each shard once and checking it."""
    total = None if workspace.cluster else shards.n_windows  # workers report only at the end
    with workspace.reporter.bar(f"read {set_name}", total, "windows") as bar:
        norms = BlockNorms(sizes) if workspace.cluster else _NormsWithBar(sizes, bar)
        resources = {name: getattr(workspace, name) for name in ("threads", "memory", "device", "cluster")}
        bags = Bags.open(workspace.folder.path, set_name, verify=True, transform=transform, visit=norms, **resources)
    scale = block_scales(norms.means, sizes)
    return bags.scaled(scale), scale


class _NormsWithBar(BlockNorms):
    """Norms of blocks, and a bar that shows how many windows are read; its copies have no bar."""

    def __init__(self, sizes: Sequence[int], bar: Bar) -> None:
        super().__init__(sizes)
        self._bar = bar

    def __deepcopy__(self, _: dict[int, Any]) -> BlockNorms:
        return BlockNorms(self._sizes)

    def join(self, other: BlockNorms) -> None:
        """Add the windows of one shard."""
        super().join(other)
        self._bar.step(other.n_windows)


def window_boxes(shards: ShardSet) -> Float64:
    """Return the boxes (n_windows, 4) of the pictures of shards, one after another; features are not read."""
    return np.concatenate([shard.boxes for shard in shards]).astype(np.float64)


def window_objectness_of(shards: ShardSet) -> Float32 | None:
    """Return how much the windows (n_windows,) of shards stand out, from 0 to 1; None if no picture was measured.

    Pictures that were not measured have NaN. Raises SettingsError if two sources measured the shards.
    """
    if shards.objectness is None:
        return None
    columns = ((shard.objectness, len(shard.boxes)) for shard in shards)
    return np.concatenate([np.full(n, np.nan, np.float32) if column is None else column for column, n in columns])
