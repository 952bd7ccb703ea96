"""The parts of a store of windows: an array in memory, or a shard whose features are read from its file in pieces.

This process and the workers of a cluster turn shards into windows in the same way, by `ReadOptions`.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from io import FileIO
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from lapsvm._ext import bags as _kernel
from lapsvm.arrays import Array, Float32, Index
from lapsvm.bags.scoring import Block, aligned_empty, as_stored
from lapsvm.bags.selection import rows_of, runs_of
from lapsvm.bfloat16 import named_type
from lapsvm.errors import NotFiniteError, ShardError
from lapsvm.features import ShardHeader

Transform = Callable[[Array], Array]


def transformed(transform: Transform | None, features: Array) -> Array:
    """Return the features that bags see."""
    return features if transform is None else np.ascontiguousarray(transform(features))


class Visitor(Protocol):
    """Receives the features of shards, a copy for each, such as `lapsvm.features.BlockNorms`."""

    def add(self, features: Array) -> object:
        """Process the features (m, d) of one shard."""

    def join(self, other: Self) -> object:
        """Merge the state of a copy of this visitor's first state, to which the next shard was added."""


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
        A copy of it receives every shard's features, transformed; the copies are merged in order.
    """

    verify: bool = False
    transform: Transform | None = None
    visit: Visitor | None = None


class FileState(NamedTuple):
    """A file's identity and time of writing, which show without reading it whether it was replaced."""

    inode: int
    size: int
    changed: int

    @classmethod
    def of(cls, status: os.stat_result) -> Self:
        """Return the state of a file."""
        return cls(status.st_ino, status.st_size, status.st_mtime_ns)


@dataclass(frozen=True, eq=False)
class MemoryPart:
    """Windows (n, d) in memory."""

    features: Array
    resident = True

    @property
    def n_rows(self) -> int:
        """Number of windows."""
        return len(self.features)

    @cached_property
    def lengths(self) -> Float32:
        """Upper bounds of the windows' norms (n,), NaN until a pass computes them."""
        return np.full(self.n_rows, np.nan, dtype=np.float32)

    @property
    def dim(self) -> int:
        """Number of features of a window."""
        return int(self.features.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type in which features are stored."""
        return self.features.dtype

    def block(self, starts: Index, stops: Index, buffer: "Buffer | None" = None) -> Block:  # noqa: ARG002
        """Return these bags without a copy."""
        return Block(self.features, starts, stops, self.lengths)

    def take(self, rows: Index) -> Array:
        """Return copies of these rows; consecutive ones are copied at once, several times faster."""
        if len(rows) and (np.diff(rows) == 1).all():
            return self.features[rows[0] : rows[-1] + 1].copy()
        return self.features[rows]


@dataclass(frozen=True, eq=False)
class FilePart:
    """Windows that stay in a file, read on demand; the file is neither mapped nor left open.

    Attributes
    ----------
    path : Path
    offset : int
        First byte of the features.
    shape : tuple of int
        Number of windows, and of stored numbers in each.
    dtype : dtype
        Type in which features are stored.
    transform : callable, optional
        Maps stored features (m, shape[1]) to those that bags see, (m, d) of the same type.
    state : FileState, optional
        State of the file when it was opened first; a file that was replaced or written to since is refused.
    """

    path: Path
    offset: int
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    transform: Transform | None = None
    state: FileState | None = None
    resident = False

    @classmethod
    def of_shard(cls, header: ShardHeader, transform: Transform | None) -> Self:
        """Return the part that reads a shard's features from its file, whose present state it records."""
        shape = (header.n_windows, header.dim)
        try:
            state = FileState.of(header.path.stat())
        except OSError:  # the reader of the file raises
            state = None
        return cls(header.path, header.offset, shape, named_type(header.dtype), transform, state)

    @property
    def n_rows(self) -> int:
        """Number of windows."""
        return self.shape[0]

    @cached_property
    def lengths(self) -> Float32:
        """Upper bounds of the windows' norms (n,), NaN until a pass computes them."""
        return np.full(self.n_rows, np.nan, dtype=np.float32)

    @cached_property
    def dim(self) -> int:
        """Number of features of a window."""
        return int(transformed(self.transform, np.zeros((1, self.shape[1]), dtype=self.dtype)).shape[1])

    def block(self, starts: Index, stops: Index, buffer: "Buffer | None" = None) -> Block:
        """Return these bags, read into `buffer`, bag after bag."""
        ends = np.cumsum(stops - starts)
        features = (buffer or Buffer()).array((int(ends[-1]), self.shape[1]), self.dtype)
        runs = runs_of(starts, stops)
        self._read(*runs, features)
        # a view, so that bounds computed by a pass stay, unless the bags are a subset with gaps
        lengths = self.lengths[runs[0][0] : runs[1][0]] if len(runs[0]) == 1 else self.lengths[rows_of(starts, stops)]
        return Block(transformed(self.transform, features), ends - (stops - starts), ends, lengths)

    def take(self, rows: Index) -> Array:
        """Return copies of these rows; consecutive ones are read together."""
        distinct, inverse = np.unique(rows, return_inverse=True)
        features = np.empty((len(distinct), self.shape[1]), dtype=self.dtype)
        self._read(*runs_of(distinct, distinct + 1), features)
        return transformed(self.transform, features)[inverse]

    def _read(self, starts: Index, stops: Index, out: Array) -> None:
        """Fill `out` with these runs of rows."""
        size = out.strides[0]
        content = out.reshape(-1).view(np.uint8).data
        try:
            with self.path.open("rb", buffering=0) as file:
                self._check_state(os.fstat(file.fileno()))
                for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
                    length = (stop - start) * size
                    file.seek(self.offset + start * size)
                    self._fill(file, content[:length])
                    content = content[length:]
        except OSError as error:
            raise ShardError(f"shard {self.path} could not be read again: {error.strerror or error}.") from None

    def _check_state(self, status: os.stat_result) -> None:
        """Raise ShardError if the file was replaced; `_fill` reports one that became shorter."""
        if self.state is not None and status.st_size >= self.state.size and FileState.of(status) != self.state:
            raise ShardError(f"shard {self.path} was replaced or changed while it was in use; start again.")

    def _fill(self, file: FileIO, content: memoryview) -> None:
        """Fill `content` from the file; the system may return fewer bytes at a time."""
        while content:
            count = file.readinto(content)
            if not count:
                raise ShardError(f"shard {self.path} was cut short while it was in use.")
            content = content[count:]


Part = MemoryPart | FilePart


def check_finite(features: Array, path: Path) -> None:
    """Raise NotFiniteError if a shard holds NaN or infinity."""
    row = _kernel.first_broken_row(as_stored(features)) if len(features) else -1
    if row >= 0:
        raise NotFiniteError(f"features must be finite, got NaN or infinity in window {row} of shard {path}.")


class Buffer:
    """Memory for arrays of which one lives at a time; it grows to the size of the largest.

    It asks for more than that, because the system clears every page of new memory when it is first written to, and none
    that is not: arrays that grow a little use the pages of the former ones.

    Parameters
    ----------
    memory : array, optional
        The first memory, as long as arrays fit into it.
    """

    _SPARE = 4  # one part in 4 of an array that does not fit

    def __init__(self, memory: Array | None = None) -> None:
        self._bytes: Array = np.empty(0, dtype=np.uint8) if memory is None else memory.reshape(-1).view(np.uint8)

    def array(self, shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
        """Return an array in this memory; it overwrites the previous one."""
        size = shape[0] * shape[1] * dtype.itemsize
        if len(self._bytes) < size:
            self._bytes = aligned_empty((size + size // self._SPARE,), np.uint8)
        return self._bytes[:size].view(dtype).reshape(shape)


class PrefetchMemory:
    """The memory into which passes read blocks of files, in turns: one pass at a time.

    Parameters
    ----------
    most : int, optional
        Most blocks at once, at least 1.
    """

    def __init__(self, most: int | None = None):
        self.turn = Lock()
        self._most, self._buffers = most, list[Buffer]()

    def buffers(self, wanted: int) -> list[Buffer]:
        """Reserve up to `n` block buffers for the pass whose turn it is."""
        count = wanted if self._most is None else min(wanted, self._most)
        self._buffers += [Buffer() for _ in range(count - len(self._buffers))]
        return self._buffers[:count]
