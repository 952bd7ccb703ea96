"""What a worker holds of a store, and how it answers; `lapsvm.bags.stores.remote` is the other end.

A worker process holds windows of one store at a time, those of the shards that it was last asked for. It reads a shard
once, compares its checksum, and keeps it while there is room; what there is no room for is read for every pass.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from threading import Lock

import numpy as np

from lapsvm.bags.passes import Pass, plan
from lapsvm.bags.requests import Answer, Work
from lapsvm.bags.scoring import aligned_empty
from lapsvm.bags.selection import Selection
from lapsvm.bags.stores.local import Store
from lapsvm.bags.stores.memory import as_bytes
from lapsvm.bags.stores.parts import FilePart, MemoryPart, Part
from lapsvm.bags.stores.reading import Reading, Visitor, check_finite, file_part
from lapsvm.cluster import own_address, own_threads
from lapsvm.errors import MissingError, ShardError
from lapsvm.features import ShardHeader, read_header, read_shard

_SELECTIONS = 16  # that a worker remembers; several groups of classes may have one each


@dataclass(frozen=True)
class Request:
    """What a worker is asked.

    Attributes
    ----------
    worker : str
        Its address; another one that the request came to declines.
    store : str
        The store's name, different for every store that was opened.
    share : tuple of int
        The parts that it is to hold, and no others.
    limit : int or None
        Bytes that they may take.
    shards : mapping of part to ShardHeader, or None if the worker should know
    reading : Reading
        How shards are read.
    key : bytes
        Which selection is meant.
    selection : Selection or None
        Bags in rows of the share, one part after the other; None if the worker should know.
    work : Work or None
    visited : tuple of int
        Parts whose features are to be seen by copies of the visitor.
    """

    worker: str
    store: str
    share: tuple[int, ...]
    limit: int | None
    shards: Mapping[int, ShardHeader] | None
    reading: Reading
    key: bytes = b""
    selection: Selection | None = None
    work: Work | None = None
    visited: tuple[int, ...] = ()


@dataclass(frozen=True)
class StaleRequest:
    """A worker was asked what another one should be, or does not know what a request takes for known."""


@dataclass(frozen=True)
class Unreadable:
    """A worker cannot read the shard of a part."""

    part: int
    reason: str


Reply = Answer | tuple[Visitor, ...] | StaleRequest | Unreadable


@dataclass
class _Holding:
    """The windows of one store that this process holds."""

    store: str = ""
    shards: dict[int, ShardHeader] = field(default_factory=dict)
    parts: dict[int, Part] = field(default_factory=dict)
    selections: OrderedDict[bytes, Selection] = field(default_factory=OrderedDict)

    def reply(self, request: Request) -> Reply:
        """Answer a request."""
        self.shards |= request.shards or {}
        if request.selection is not None and request.key:
            self.selections[request.key] = request.selection
            while len(self.selections) > _SELECTIONS:
                self.selections.popitem(last=False)
        selection = request.selection or self.selections.get(request.key)
        if request.key in self.selections:
            self.selections.move_to_end(request.key)
        if not self.shards.keys() >= set(request.share) or (request.work is not None and selection is None):
            return StaleRequest()
        unreadable = self._hold(request)
        if unreadable is not None:
            return unreadable
        if request.work is None or selection is None:
            return tuple(self._seen(part, request.reading) for part in request.visited)
        return self._answer(request.share, selection, request.work)

    def _hold(self, request: Request) -> Unreadable | None:
        """Hold the parts of the share, and no others."""
        self.parts = {part: held for part, held in self.parts.items() if part in request.share}
        for part in request.share:
            if part in self.parts:
                continue
            try:
                self.parts[part] = self._read(self.shards[part], request)
            except (ShardError, MissingError) as error:
                return Unreadable(part, str(error))
        return None

    def _read(self, wanted: ShardHeader, request: Request) -> Part:
        """Return the windows of a shard that was read and compared, in memory if there is room."""
        found, part = read_header(wanted.path), file_part(wanted, request.reading.transform)
        if found.checksum != wanted.checksum:
            raise ShardError(f"shard {wanted.path} has another content than on the machine that asks.")
        shard = read_shard(wanted.path, mapped=True)
        features = request.reading.given(shard.features)
        check_finite(features, wanted.path)
        held = sum(own.features.nbytes for own in self.parts.values() if isinstance(own, MemoryPart))
        if request.limit is not None and held + features.nbytes > request.limit:
            return part
        copy = aligned_empty((part.n_rows, part.dim), part.dtype)
        copy[:] = features
        return MemoryPart(copy)

    def _seen(self, part: int, reading: Reading) -> Visitor:
        """Return a copy of the visitor that has seen the windows of one part."""
        held, visitor = self.parts[part], deepcopy(reading.visit)
        if visitor is None:
            raise TypeError("nobody is to see the windows")  # our own mistake, not the user's
        visitor.add(held.block(np.array([0]), np.array([held.n_rows])).features)
        return visitor

    def _answer(self, share: Iterable[int], selection: Selection, work: Work) -> Reply:
        """Return the answers of bags; a shard that is gone since it was read first is told."""
        store = Store([self.parts[part] for part in share])
        try:
            return Pass(store, selection, plan(store, selection), own_threads()).ask(work)
        except ShardError:
            for part in share:
                if isinstance(self.parts[part], FilePart):
                    try:
                        read_shard(self.shards[part].path, mapped=True, verify=False)
                    except (ShardError, MissingError) as error:
                        del self.parts[part]
                        return Unreadable(part, str(error))
            raise


_HELD = _Holding()  # by this process, if it is a worker
_ONE_AT_A_TIME = Lock()


def serve(request: Request) -> Reply:
    """Answer a request, in a worker."""
    global _HELD  # noqa: PLW0603 - what is held outlives the call, which is what it is held for
    if own_address() != request.worker:
        return StaleRequest()
    with _ONE_AT_A_TIME:
        if _HELD.store != request.store:
            _HELD = _Holding(request.store)
        return _HELD.reply(request)


def make_room() -> int | None:
    """Hold nothing any more; return the bytes that windows may take on this machine by default."""
    global _HELD  # noqa: PLW0603
    with _ONE_AT_A_TIME:
        _HELD = _Holding()
    return as_bytes(None)
