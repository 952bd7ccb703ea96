"""How shards become windows of bags, whoever reads them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

import numpy as np

from lapsvm._ext import bags as _kernel
from lapsvm.arrays import Array
from lapsvm.bags.scoring import as_stored
from lapsvm.bags.stores.parts import FilePart, FileState, Transform
from lapsvm.bfloat16 import named_type
from lapsvm.errors import NotFiniteError
from lapsvm.features import ShardHeader


class Visitor(Protocol):
    """What sees the features of every shard once, such as `lapsvm.features.BlockNorms`."""

    def add(self, features: Array) -> object:
        """See the features (m, d) of one shard."""
        ...

    def join(self, other: Self) -> object:
        """Take over what a copy of this one, as it was at the start, saw of the next shard."""
        ...


@dataclass(frozen=True)
class Reading:
    """What is done with a shard's features on the one occasion that the whole shard is read.

    Attributes
    ----------
    verify : bool
        Compare the checksum.
    transform : callable, optional
        What features (m, d as stored) become.
    visit : Visitor, optional
        Sees every shard's features, transformed, in order.
    """

    verify: bool = False
    transform: Transform | None = None
    visit: Visitor | None = None

    def given(self, features: Array) -> Array:
        """Return features as bags hold them."""
        return features if self.transform is None else np.ascontiguousarray(self.transform(features))


def file_part(header: ShardHeader, transform: Transform | None) -> FilePart:
    """Return a shard's features where they lie, in the file as it is now."""
    shape = (header.n_windows, header.dim)
    try:
        state = FileState.of(header.path.stat())
    except OSError:  # what reads the file says so
        state = None
    return FilePart(header.path, header.place, shape, named_type(header.dtype), transform, state)


def check_finite(features: Array, path: Path) -> None:
    """Raise NotFiniteError if a shard holds NaN or infinity."""
    row = _kernel.first_broken_row(as_stored(features)) if len(features) else -1
    if row >= 0:
        raise NotFiniteError(f"features must be finite, got NaN or infinity in window {row} of shard {path}.")
