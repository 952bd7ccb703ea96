"""A store whose windows other processes hold: who holds which part, and how they are asked.

Every worker of a cluster has a share of the parts, which stays its own, so that it reads them once. It is sent work,
which for a pass is the weight vectors, and sends back what the work says of its bags, for a pass the best window of
each and its score. Where bags begin and end is sent once. A worker that is lost, or cannot read a shard, loses its
parts to others, and what it did not answer is asked of these; an answer has the same bits whoever gives it.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from hashlib import blake2b
from itertools import pairwise
from secrets import token_hex
from threading import Lock
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import numpy as np

from lapsvm.arrays import Array, Index
from lapsvm.bags.requests import Answer, Copies, Work
from lapsvm.bags.selection import Selection
from lapsvm.bags.stores.local import Store
from lapsvm.bags.stores.parts import FilePart
from lapsvm.bags.stores.reading import Reading, file_part
from lapsvm.bags.stores.worker import Reply, Request, StaleRequest, Unreadable, make_room, serve
from lapsvm.cluster import Cluster
from lapsvm.errors import ClusterError, ShardError
from lapsvm.features import ShardSet

KEPT_BYTES = 64 << 20
"""Of single windows that were asked for lately, which the process that asks keeps."""

_ROUNDS = 50  # in which a pass may be asked of ever other workers before it is given up


def open_remote_store(shards: ShardSet, memory: int | None, reading: Reading, cluster: Cluster) -> tuple[Store, Index]:
    """Return the windows of shards, held by a cluster, and the number of each picture's windows.

    `memory` is what the workers of one machine may hold together, by default 80 % of what it has left.

    Raises
    ------
    ShardError
        If no worker can read a shard, or its content is another one there.
    NotFiniteError
        If a feature is NaN or infinite.
    ClusterError
        If no worker is left.
    """
    fleet = RemoteStore(shards, memory, reading, cluster)
    fleet.visit()
    sizes = np.concatenate([np.diff(shards.read(index).offsets) for index in range(len(shards))])
    first = fleet.parts[0]
    row = first.dim * first.dtype.itemsize
    remembering = 8 * len(sizes) * first.dtype.itemsize <= int(sizes.sum())
    return Store(fleet.parts, max(1, KEPT_BYTES // row), remembering=remembering, remote=fleet), sizes


class RemoteStore:
    """The workers of a cluster and their shares of a store.

    Parameters
    ----------
    shards : ShardSet
    memory : int or None
    reading : Reading
    cluster : Cluster
    """

    def __init__(self, shards: ShardSet, memory: int | None, reading: Reading, cluster: Cluster):
        self.parts: list[FilePart] = [file_part(header, reading.transform) for header in shards.headers]
        self._shards, self._reading, self._cluster, self._memory = shards, reading, cluster, memory
        self._bounds = np.cumsum([0, *(part.n_rows for part in self.parts)])
        self._store = token_hex(8)
        self._owner: dict[int, str] = {}
        self._limits: dict[str, int | None] = {}
        self._refused: dict[int, dict[str, str]] = defaultdict(dict)  # part -> worker -> why
        self._known: dict[str, set[Any]] = defaultdict(set)  # worker -> parts and selections that it was told
        self._cuts: WeakKeyDictionary[Selection, dict[Any, tuple[bytes, Selection]]] = WeakKeyDictionary()
        self._lock = Lock()

    @property
    def shares(self) -> dict[str, tuple[int, ...]]:
        """The parts that each worker holds, by its address."""
        shares = defaultdict(list)
        for part, worker in sorted(self._owner.items()):
            shares[worker].append(part)
        return {worker: tuple(parts) for worker, parts in shares.items()}

    def visit(self) -> None:
        """Have every part read and compared where it is held, and seen by the visitor, if there is one."""
        seen: dict[int, Any] = {}
        watched = self._reading.visit is not None

        def request(worker: str, share: tuple[int, ...], parts: tuple[int, ...]) -> Request:
            return self._request(worker, share, visited=parts if watched else ())

        def put(parts: tuple[int, ...], reply: Any) -> None:
            seen.update(zip(parts, reply, strict=watched))

        self._exchange(range(len(self.parts)), request, put)
        if self._reading.visit is not None:
            for part in range(len(self.parts)):
                self._reading.visit.join(seen[part])

    def ask(self, selection: Selection, work: Work, *, again: bool = True) -> Answer:
        """Return the answers of all bags to some work; `again` if the selection is worth remembering."""
        owners, places = self._parts_of(selection.starts), work.places(selection)
        found = work.room(int(places[-1]), self.parts[0].dim, self.parts[0].dtype)

        def request(worker: str, share: tuple[int, ...], parts: tuple[int, ...]) -> Request:
            key, cut = self._cut(selection, share, parts)
            known = again and key in self._known[worker]
            if again:
                self._known[worker].add(key)
            return self._request(worker, share, key if again else b"", None if known else cut, work)

        def put(parts: tuple[int, ...], reply: Any) -> None:
            bags, begin = np.flatnonzero(np.isin(owners, parts)), 0
            for first, last in _runs(bags):
                rows = slice(places[first], places[last])
                for whole, own in zip(found, reply, strict=True):
                    whole[rows] = own[begin : begin + rows.stop - rows.start]
                begin += rows.stop - rows.start

        self._exchange(np.unique(owners).tolist(), request, put)
        return found

    def take(self, rows: Index) -> Array:
        """Return copies of rows (m, d), in their order."""
        once, again = np.unique(rows, return_inverse=True)
        (found,) = self.ask(Selection(once, once + 1), Copies(), again=False)
        return np.asarray(found[again])

    def _parts_of(self, rows: Index) -> Index:
        return np.searchsorted(self._bounds, rows, side="right") - 1

    def _request(
        self,
        worker: str,
        share: tuple[int, ...],
        key: bytes = b"",
        selection: Selection | None = None,
        work: Work | None = None,
        visited: tuple[int, ...] = (),
    ) -> Request:
        """Return a request, with the shards that this worker was not told of."""
        told = self._known[worker]
        new = {part: self._shards.headers[part] for part in share if part not in told}
        told.update(new)
        reading = self._reading if visited else Reading(transform=self._reading.transform)
        limit = self._limits[worker]
        return Request(worker, self._store, share, limit, new or None, reading, key, selection, work, visited)

    def _cut(self, selection: Selection, share: tuple[int, ...], parts: tuple[int, ...]) -> tuple[bytes, Selection]:
        """Return the bags of some parts in rows of a share, and what they are called."""
        cuts = self._cuts.setdefault(selection, {})
        if (share, parts) not in cuts:
            owners = self._parts_of(selection.starts)
            chosen = selection.subset(np.flatnonzero(np.isin(owners, parts)))
            sizes = np.array([self.parts[part].n_rows for part in share])
            begin = np.zeros(len(self.parts), dtype=np.intp)
            begin[list(share)] = np.cumsum(sizes) - sizes
            own = self._parts_of(chosen.starts)
            move = begin[own] - self._bounds[own]
            moved = Selection(chosen.starts + move, chosen.stops + move, chosen.excluded)
            digest = blake2b(repr(share).encode(), digest_size=16)
            for array in (moved.starts, moved.stops, b"" if moved.excluded is None else moved.excluded):
                digest.update(np.ascontiguousarray(array).data if isinstance(array, np.ndarray) else array)
            cuts[share, parts] = digest.digest(), moved
        return cuts[share, parts]

    def _exchange(
        self,
        wanted: Iterable[int],
        request: Callable[[str, tuple[int, ...], tuple[int, ...]], Request],
        put: Callable[[tuple[int, ...], Reply], None],
    ) -> None:
        """Ask for every wanted part until all are answered."""
        left = set(wanted)
        with self._lock:
            for _ in range(_ROUNDS):
                if not left:
                    return
                self._assign()
                asked = []
                for worker, share in self.shares.items():
                    parts = tuple(part for part in share if part in left)
                    if parts:
                        call = self._cluster.submit(serve, request(worker, share, parts), worker=worker)
                        asked.append((worker, parts, call))
                for worker, parts, call in asked:
                    reply = call.result()
                    if isinstance(reply, StaleRequest):
                        self._known.pop(worker, None)  # it began anew, or another one stood in for it
                    elif isinstance(reply, Unreadable):
                        self._refuse(worker, reply)
                    else:
                        put(parts, reply)
                        left.difference_update(parts)
        raise ClusterError(f"workers at {self._cluster.address} come and go too fast to answer; look at their logs.")

    def _assign(self) -> None:
        """Give every part to a worker that is there; those that have it keep it."""
        there = self._cluster.wait_for_workers()
        if there.keys() != self._limits.keys():
            self._muster(there)
        load = dict.fromkeys(there, 0.0)
        for part, worker in self._owner.items():
            load[worker] += self.parts[part].n_rows / there[worker]
        for part in range(len(self.parts)):
            if part in self._owner:
                continue
            able = [worker for worker in there if worker not in self._refused[part]]
            if not able:
                raise self._unreadable(part)
            worker = min(able, key=lambda one: (load[one] + self.parts[part].n_rows / there[one], one))
            self._owner[part] = worker
            load[worker] += self.parts[part].n_rows / there[worker]

    def _muster(self, there: dict[str, int]) -> None:
        """Forget workers that are lost, learn what new ones may hold, and have parts given anew if any came."""
        lost, new = self._limits.keys() - there.keys(), there.keys() - self._limits.keys()
        for worker in sorted(lost):
            parts = self.shares.get(worker, ())
            self._cluster.notify(f"worker {worker} is lost; others take over its {len(parts)} shards")
            del self._limits[worker]
            self._known.pop(worker, None)
        self._owner = {part: worker for part, worker in self._owner.items() if worker not in lost}
        hosts = Counter(map(_host, there))
        calls = [(worker, self._cluster.submit(make_room, worker=worker)) for worker in sorted(new)]
        for worker, call in calls:
            left = call.result()
            memory = left if self._memory is None else self._memory
            self._limits[worker] = None if memory is None else memory // hosts[_host(worker)]
        if new:
            self._make_even(there)

    def _make_even(self, there: dict[str, int]) -> None:
        """Let workers that have nothing take parts of those that have most."""
        for idle in [worker for worker in there if worker not in self.shares]:
            while self._owner:
                load = {one: sum(self.parts[part].n_rows for part in own) for one, own in self.shares.items()}
                richest = max(load, key=lambda one: (load[one] / there[one], one))
                part = self.shares[richest][-1]
                after = (load.get(idle, 0) + self.parts[part].n_rows) / there[idle]
                if idle in self._refused[part] or after >= load[richest] / there[richest]:
                    break
                self._owner[part] = idle

    def _refuse(self, worker: str, reply: Unreadable) -> None:
        """Take a part from a worker that cannot read it."""
        self._refused[reply.part][worker] = reply.reason
        self._owner.pop(reply.part, None)
        self._cluster.notify(
            f"worker {worker} cannot take a shard, so another one is asked: {reply.reason.rstrip('.')}"
        )

    def _unreadable(self, part: int) -> ShardError:
        worker, reason = next(iter(self._refused[part].items()))
        self._refused[part] = {}
        path = self._shards.headers[part].path
        return ShardError(f"shard {path} must be readable on a worker, got on {worker}: {reason.rstrip('.')}.")


def _host(address: str) -> str:
    """Return the machine of a worker's address."""
    return urlsplit(address).hostname or address


def _runs(places: Index) -> Iterable[tuple[int, int]]:
    """Yield first and end of the runs of consecutive numbers."""
    ends = [0, *(np.flatnonzero(np.diff(places) != 1) + 1).tolist(), len(places)]
    return [(int(places[first]), int(places[last - 1]) + 1) for first, last in pairwise(ends)]
