"""How this process and the workers turn shards into windows of bags."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from lapsvm._ext import bags as _kernel
from lapsvm.arrays import Array
from lapsvm.bags.scoring import as_stored
from lapsvm.bags.stores.parts import FilePart, FileState, Transform, transformed
from lapsvm.bfloat16 import named_type
from lapsvm.errors import NotFiniteError
from lapsvm.features import ShardHeader


class Visitor(Protocol):
    """Receives the features of every shard once, such as `lapsvm.features.BlockNorms`."""

    def add(self, features: Array) -> object:
        """Process the features (m, d) of one shard."""
        ...

    def join(self, other: Self) -> object:
        """Merge the state of a copy of this visitor's first state, to which the next shard was added."""
        ...


@dataclass(frozen=True)
class ReadOptions:
    """What is done with a shard's features when the whole shard is read.

    Attributes
    ----------
    verify : bool
        Compare the checksum.
    transform : callable, optional
        Maps stored features to those that bags see.
    visit : Visitor, optional
        Receives every shard's features, transformed, in order.
    """

    verify: bool = False
    transform: Transform | None = None
    visit: Visitor | None = None

    def transformed(self, features: Array) -> Array:
        """Return the features that bags see."""
        return transformed(self.transform, features)


def file_part(header: ShardHeader, transform: Transform | None) -> FilePart:
    """Return the part that reads a shard's features from its file, whose present state it records."""
    shape = (header.n_windows, header.dim)
    try:
        state = FileState.of(header.path.stat())
    except OSError:  # the reader of the file raises
        state = None
    return FilePart(header.path, header.offset, shape, named_type(header.dtype), transform, state)


def check_finite(features: Array, path: Path) -> None:
    """Raise NotFiniteError if a shard holds NaN or infinity."""
    row = _kernel.first_broken_row(as_stored(features)) if len(features) else -1
    if row >= 0:
        raise NotFiniteError(f"features must be finite, got NaN or infinity in window {row} of shard {path}.")
