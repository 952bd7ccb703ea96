"""The worker's side of a remote store; `lapsvm.bags.stores.remote` is the client's.

A worker process holds windows of one store at a time, those of the shards that were assigned to it last. It reads a
shard once, compares its checksum, and keeps it in memory up to a limit; other shards are read for every pass.
"""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from threading import Lock

import numpy as np

from lapsvm.bags.passes import Pass, split_into_chunks
from lapsvm.bags.requests import Answer, PassQuery
from lapsvm.bags.scoring import aligned_empty
from lapsvm.bags.selection import Selection
from lapsvm.bags.stores.local import Store
from lapsvm.bags.stores.memory import as_bytes
from lapsvm.bags.stores.parts import FilePart, MemoryPart, Part, ReadOptions, Visitor, check_finite, transformed
from lapsvm.cluster import this_worker
from lapsvm.errors import MissingError, ShardError
from lapsvm.features import ShardHeader, read_header, read_shard

_SELECTIONS = 16  # cached by a worker; each group of classes may use one


@dataclass(frozen=True)
class Request:
    """A client's request to a worker.

    Attributes
    ----------
    worker : str
        Its address; any other worker that receives the request rejects it.
    store : str
        Name of the store, unique to each time that one is opened.
    assigned : tuple of int
        The parts that the worker holds from now on, and no others.
    limit : int or None
        Most bytes of these in memory.
    shards : mapping of part to ShardHeader, or None
        Headers that the worker has not received yet.
    reading : ReadOptions
        How shards are read.
    key : bytes
        Identifies the selection.
    selection : Selection or None
        Bags in rows of the assigned parts, part after part; None if the worker has it under `key`.
    work : PassQuery or None
    visited : tuple of int
        Parts whose features the worker gives to copies of the visitor.
    """

    worker: str
    store: str
    assigned: tuple[int, ...]
    limit: int | None
    shards: Mapping[int, ShardHeader] | None
    reading: ReadOptions
    key: bytes = b""
    selection: Selection | None = None
    work: PassQuery | None = None
    visited: tuple[int, ...] = ()


@dataclass(frozen=True)
class StaleRequest:
    """The request was for another worker, or relies on headers or a selection that this one does not have."""


@dataclass(frozen=True)
class Unreadable:
    """The worker cannot read the shard of a part."""

    part: int
    reason: str


Reply = Answer | tuple[Visitor, ...] | StaleRequest | Unreadable


@dataclass
class WorkerStore:
    """The windows of one store that a worker holds."""

    store: str = ""
    shards: dict[int, ShardHeader] = field(default_factory=dict)
    parts: dict[int, Part] = field(default_factory=dict)
    selections: dict[bytes, Selection] = field(default_factory=dict)

    def reply(self, request: Request, threads: int) -> Reply:
        """Return the reply to a request, computed by `threads` threads."""
        self.shards |= request.shards or {}
        selection = request.selection or self.selections.pop(request.key, None)
        if selection is not None and request.key:
            self.selections[request.key] = selection  # the last one used is the last
            while len(self.selections) > _SELECTIONS:
                del self.selections[next(iter(self.selections))]
        if not self.shards.keys() >= set(request.assigned) or (request.work is not None and selection is None):
            return StaleRequest()
        unreadable = self._load(request)
        if unreadable is not None:
            return unreadable
        if request.work is None or selection is None:
            return tuple(self._visited(part, request.reading) for part in request.visited)
        return self._answer(request.assigned, selection, request.work, threads)

    def _load(self, request: Request) -> Unreadable | None:
        """Hold the assigned parts, and no others."""
        self.parts = {part: held for part, held in self.parts.items() if part in request.assigned}
        for part in request.assigned:
            if part in self.parts:
                continue
            try:
                self.parts[part] = self._read(self.shards[part], request)
            except (ShardError, MissingError) as error:
                return Unreadable(part, str(error))
        return None

    def _read(self, header: ShardHeader, request: Request) -> Part:
        """Return the windows of a shard, read and compared with its checksum, in memory up to the limit."""
        part = FilePart.of_shard(header, request.reading.transform)
        if read_header(header.path).checksum != header.checksum:
            raise ShardError(f"shard {header.path} has another content than on the client's machine.")
        shard = read_shard(header.path, mapped=True)
        features = transformed(request.reading.transform, shard.features)
        check_finite(features, header.path)
        used = sum(held.features.nbytes for held in self.parts.values() if isinstance(held, MemoryPart))
        if request.limit is not None and used + features.nbytes > request.limit:
            return part
        copy = aligned_empty((part.n_rows, part.dim), part.dtype)
        copy[:] = features
        return MemoryPart(copy)

    def _visited(self, part: int, reading: ReadOptions) -> Visitor:
        """Return a copy of the visitor to which the windows of one part were added."""
        held, visitor = self.parts[part], deepcopy(reading.visit)
        if visitor is None:
            raise TypeError("a request with visited parts needs a visitor")  # a mistake of ours, not the user's
        visitor.add(held.block(np.array([0]), np.array([held.n_rows])).features)
        return visitor

    def _answer(self, assigned: Iterable[int], selection: Selection, work: PassQuery, threads: int) -> Reply:
        """Return the answer to work; Unreadable for a shard that was removed after it was read first."""
        store = Store([self.parts[part] for part in assigned])
        try:
            return Pass(store, selection, split_into_chunks(store, selection), threads).run(work)
        except ShardError:
            for part in assigned:
                if isinstance(self.parts[part], FilePart):
                    try:
                        read_shard(self.shards[part].path, mapped=True, verify=False)
                    except (ShardError, MissingError) as error:
                        del self.parts[part]
                        return Unreadable(part, str(error))
            raise


_STORE = WorkerStore()  # of this process, if it is a worker
_LOCK = Lock()


def serve(request: Request) -> Reply:
    """Return the reply to a request; runs in a worker."""
    global _STORE  # noqa: PLW0603 - the windows stay in memory between calls
    address, threads = this_worker()
    if address != request.worker:
        return StaleRequest()
    with _LOCK:
        if _STORE.store != request.store:
            _STORE = WorkerStore(request.store)
        return _STORE.reply(request, threads)


def release() -> int | None:
    """Drop all windows; return the default limit of memory for windows on this machine, in bytes."""
    global _STORE  # noqa: PLW0603
    with _LOCK:
        _STORE = WorkerStore()
    return as_bytes(None)
