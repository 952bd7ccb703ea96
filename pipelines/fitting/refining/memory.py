"""How many classes are refined at the same time, and the memory that stored windows and their copies share.

A class has a copy of the windows that its chains are trained on, and each chain in training candidates of its own. Both
count beside the stored windows, which stay in memory first: where they do not, classes follow one another.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lapsvm.arrays import Index
from lapsvm.bags.stores.memory import as_bytes
from lapsvm.bfloat16 import named_type
from lapsvm.features import ShardSet
from lapsvm.latent.scheduling.candidates import CANDIDATES

from ...context import Workspace
from ...run.dataset import Labels
from ...settings.settings import Settings

_NUMBERS = 9  # bytes of a window for each chain: its score, and whether it takes part
_GROWTH = 2  # times as many candidates as a pass finds, because those that were best once stay


class SharedMemory(NamedTuple):
    """The shares of the memory of refinement.

    Attributes
    ----------
    stored : int or None
        Bytes for the stored windows.
    copies : int or None
        Bytes for the copied windows of a class. None where other processes hold the windows, or memory is unknown.
    at_once : int
        How many classes are refined at the same time.
    """

    stored: int | None
    copies: int | None
    at_once: int


def shared_memory(
    workspace: Workspace, settings: Settings, shards: ShardSet, labels: Sequence[Labels] = ()
) -> SharedMemory:
    """Return the shares of a workspace's memory, for classes with these labels.

    Where they follow one another, what a class needs beside its copies comes first, then copies get three quarters of
    the rest, because rounds work on them, or what half of all windows take, and at least those of a chain. Where memory
    is unknown, classes at the same time take as much as the stored windows at most.
    """
    if workspace.cluster:
        return SharedMemory(None, None, 1)
    limit = as_bytes(workspace.memory)
    row = shards.headers[0].dim * named_type(shards.headers[0].dtype).itemsize
    sizes = np.concatenate([np.diff(shard.offsets) for shard in shards])
    stored, chains, count = int(sizes.sum()) * row, 1 + settings.train.folds, settings.refine.candidates
    needs = [class_bytes(sizes, y, count, chains, row) for y in labels]
    together = max((sum(need) for need in needs), default=0)
    left = stored if limit is None else limit - stored
    at_once = max(1, min(worth_at_once(workspace.threads, chains, len(labels)), left // max(together, 1)))
    if limit is None:
        return SharedMemory(None, None, at_once)
    if at_once > 1:
        return SharedMemory(limit - at_once * together, max(need.copies for need in needs), at_once)
    beside = max((need.beside for need in needs), default=0)
    alone = max((class_bytes(sizes, y, count, 1, row).copies for y in labels), default=0)
    copies = max(min(max(limit - beside, 0) * 3 // 4, stored // 2), alone)
    return SharedMemory(max(limit - beside - copies, 0), copies, 1)


def worth_at_once(threads: int, chains: int, classes: int) -> int:
    """Return the number of classes that keep all threads at work: as many as give each thread a chain, and one."""
    return min(classes, -(-threads // chains) + 1) if threads > 1 else 1


class ClassBytes(NamedTuple):
    """The bytes that refinement of a class takes at most: copied windows, and candidates and scores beside them."""

    copies: int
    beside: int


def class_bytes(sizes: Index, y: Labels, count: int, chains: int, row: int) -> ClassBytes:
    """Return the bytes that refinement of a class takes, beside the stored windows.

    Parameters
    ----------
    sizes : (n_bags,)
        Windows of each picture.
    y : (n_bags,)
        The labels of the class.
    count : int
        Windows of a negative picture that a chain keeps; 0 for all, which are not copied.
    chains : int
        Of which all share a copy and are trained at the same time.
    row : int
        Bytes of a window.
    """
    n_windows = int(sizes.sum())
    copied = int(np.where(y > 0, sizes, np.minimum(sizes, chains * count)).sum()) if count else 0
    candidates = min((copied or n_windows) // 2, _GROWTH * CANDIDATES * len(sizes))
    return ClassBytes(copied * row, chains * (candidates * row + _NUMBERS * n_windows))
