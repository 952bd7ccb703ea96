"""The parts of a store of windows: an array in memory, or a shard whose features are read from its file in pieces."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from lapsvm.arrays import Array, Float32, Index
from lapsvm.bags.scoring import Block, aligned_empty
from lapsvm.bags.selection import rows_of, runs_of
from lapsvm.errors import ShardError

Transform = Callable[[Array], Array]


class FileState(NamedTuple):
    """Which file it is, and when it was last written: what tells a replaced file without reading it."""

    inode: int
    size: int
    changed: int

    @classmethod
    def of(cls, found: os.stat_result) -> Self:
        """Return the state of a file."""
        return cls(found.st_ino, found.st_size, found.st_mtime_ns)


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
        """Upper bounds of the windows' norms (n,), NaN until a pass has needed them."""
        return np.full(self.n_rows, np.nan, dtype=np.float32)

    @property
    def dim(self) -> int:
        """Number of features of a window."""
        return int(self.features.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """How features are stored."""
        return self.features.dtype

    def block(self, starts: Index, stops: Index, room: "Room | None" = None) -> Block:  # noqa: ARG002
        """Return these bags where they are."""
        return Block(self.features, starts, stops, self.lengths)

    def take(self, rows: Index) -> Array:
        """Return copies of these rows."""
        return self.features[rows]


@dataclass(frozen=True, eq=False)
class FilePart:
    """Windows that stay in a file, from which only what is asked for is read; nothing is mapped, nothing stays open.

    Attributes
    ----------
    path : Path
    place : int
        Where the features begin, bytes.
    shape : tuple of int
        Windows, and numbers of each as stored.
    stored : dtype
    transform : callable, optional
        What stored features (m, shape[1]) become when they are read, (m, d) of the same type.
    state : FileState, optional
        What the file was when it was opened first; a file that was replaced or written to since is refused.
    """

    path: Path
    place: int
    shape: tuple[int, int]
    stored: np.dtype[Any]
    transform: Transform | None = None
    state: "FileState | None" = None
    resident = False

    @property
    def n_rows(self) -> int:
        """Number of windows."""
        return self.shape[0]

    @cached_property
    def lengths(self) -> Float32:
        """Upper bounds of the windows' norms (n,), NaN until a pass has needed them."""
        return np.full(self.n_rows, np.nan, dtype=np.float32)

    @cached_property
    def dim(self) -> int:
        """Number of features of a window."""
        return int(self._given(np.zeros((1, self.shape[1]), dtype=self.stored)).shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """How features are stored."""
        return self.stored

    def block(self, starts: Index, stops: Index, room: "Room | None" = None) -> Block:
        """Return these bags, read into `room`, one behind the other."""
        ends = np.cumsum(stops - starts)
        features = (room or Room()).array((int(ends[-1]), self.shape[1]), self.stored)
        runs = runs_of(starts, stops)
        self._read(*runs, features)
        # what a pass fills in stays where the bags lie one behind the other, as they do but for subsets
        lengths = self.lengths[runs[0][0] : runs[1][0]] if len(runs[0]) == 1 else self.lengths[rows_of(starts, stops)]
        return Block(self._given(features), ends - (stops - starts), ends, lengths)

    def take(self, rows: Index) -> Array:
        """Return copies of these rows, neighbours read together."""
        once, again = np.unique(rows, return_inverse=True)
        found = np.empty((len(once), self.shape[1]), dtype=self.stored)
        self._read(*runs_of(once, once + 1), found)
        return self._given(found)[again]

    def _given(self, features: Array) -> Array:
        return features if self.transform is None else np.ascontiguousarray(self.transform(features))

    def _read(self, starts: Index, stops: Index, out: Array) -> None:
        """Fill `out` with these runs of rows."""
        size = out.strides[0]
        content = out.reshape(-1).view(np.uint8).data
        try:
            with self.path.open("rb", buffering=0) as file:
                self._check_state(os.fstat(file.fileno()))
                for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
                    length = (stop - start) * size
                    file.seek(self.place + start * size)
                    self._fill(file, content[:length])
                    content = content[length:]
        except OSError as error:
            raise ShardError(f"shard {self.path} could not be read again: {error.strerror or error}.") from None

    def _check_state(self, found: os.stat_result) -> None:
        """Raise ShardError if the file is another one than at first; one that is shorter is found where it ends."""
        if self.state is not None and found.st_size >= self.state.size and FileState.of(found) != self.state:
            raise ShardError(f"shard {self.path} was replaced or changed while it was in use; start again.")

    def _fill(self, file: FileIO, content: memoryview) -> None:
        """Read so many bytes; the system may give less at a time."""
        while content:
            got = file.readinto(content)
            if not got:
                raise ShardError(f"shard {self.path} was cut short while it was in use.")
            content = content[got:]


Part = MemoryPart | FilePart


class Room:
    """Memory that blocks are read into, one after the other; it grows to the largest."""

    def __init__(self) -> None:
        self._bytes: Array = np.empty(0, dtype=np.uint8)

    def array(self, shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
        """Return an array in this memory; the one before is gone."""
        size = shape[0] * shape[1] * dtype.itemsize
        if len(self._bytes) < size:
            self._bytes = aligned_empty((size,), np.uint8)
        return self._bytes[:size].view(dtype).reshape(shape)
