"""Windows that the stores' tests share: drawn arrays, their run folders, and the results of all queries."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

from lapsvm.arrays import Array
from lapsvm.bags import Bags
from lapsvm.bfloat16 import narrowed, type_name
from lapsvm.features import PictureWindows, assemble_shard, write_shard


def write_run(folder: Path, arrays: Sequence[Array], dtype: DTypeLike, per_shard: int) -> Path:
    """Write the shards of a run folder's set "trainval", one picture per array (n_i, d), `per_shard` per shard."""
    shards = folder / "shards" / "trainval"
    shards.mkdir(parents=True)
    pictures = [
        PictureWindows(f"p{i}", np.tile([0.0, 0, 9, 9], (len(array), 1)), array, f"{i:064x}", (9, 9))
        for i, array in enumerate(arrays)
    ]
    for first in range(0, len(arrays), per_shard):
        shard = assemble_shard(pictures[first : first + per_shard], {"made": "here"}, type_name(np.dtype(dtype)))
        write_shard(shards / f"{first:07d}.safetensors", shard)
    return folder


def drawn(dtype: DTypeLike = np.float16, n_bags: int = 30) -> list[Array]:
    """Return normally distributed windows, 1 to 89 per bag, of dimension 21."""
    rng = np.random.default_rng(0)
    return [narrowed(rng.normal(size=(rng.integers(1, 90), 21)), np.dtype(dtype)) for _ in range(n_bags)]


def answers(bags: Bags) -> list[Array]:
    """Return the results of all queries to bags of 30 `drawn` arrays."""
    rng = np.random.default_rng(1)
    weights, owners = rng.normal(size=(21, 6)), rng.integers(0, 30, 50)
    index = rng.integers(0, 90, 50) % np.diff(bags.offsets)[owners]
    mask = rng.random(bags.n_windows) < 0.5
    mask[bags.offsets[:-1]] = False
    return [
        *bags.best(weights),
        *bags.excluding(mask).best(weights[:, 0]),
        *bags.subset([7, 3, 29, 3]).best(weights),
        *bags.subdivided(4).best(weights),
        bags.score_windows(weights[:, 1]),
        bags.excluding(mask).score_windows(weights),
        bags.rows(owners, index),
        bags.stored_rows(owners, index),
        bags.sum_rows(rng.normal(size=50), owners, index),
        bags.score_rows(weights[:, 2], owners, index),
        bags.means(),
        bags.means([4, 4, 1]),
        np.asarray(bags.mean_norm()),
        bags.copied(~mask).means(),
        bags.kept(3, weights[:, 0]).means(),
        bags[4],
    ]
