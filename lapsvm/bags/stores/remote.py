"""A store whose windows the workers of a cluster hold: which worker has which part, and the requests to them.

Parts stay assigned to the same worker, so that it reads them once. The client sends work, which for a pass is the
weight vectors, and receives the answer for the worker's bags, which for a pass is the best window of each and its
score. The bounds of bags are sent once. When a worker is lost, or cannot read a shard, its parts are assigned to others
and the missing answers requested from these. An answer has the same bits on every worker.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from hashlib import blake2b
from secrets import token_hex
from threading import Lock
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import numpy as np

from lapsvm.arrays import Array, Index
from lapsvm.bags.requests import Answer, Copies, PassQuery
from lapsvm.bags.selection import Selection, rows_of
from lapsvm.bags.stores.local import Store
from lapsvm.bags.stores.parts import FilePart, ReadOptions
from lapsvm.bags.stores.worker import Reply, Request, StaleRequest, Unreadable, release, serve
from lapsvm.cluster import Cluster
from lapsvm.errors import ClusterError, ShardError
from lapsvm.features import ShardSet

Parts = tuple[int, ...]
CACHE_BYTES = 1 << 30
"""Most bytes of single windows that this process keeps; with few, the same best windows travel after every pass."""

_ROUNDS = 50  # attempts with changing workers before a pass fails


def open_remote_store(
    shards: ShardSet, memory: int | None, reading: ReadOptions, cluster: Cluster
) -> tuple[Store, Index]:
    """Return a store of shards that a cluster holds, and the number of each picture's windows.

    `memory` limits the windows in memory of all workers of one machine together, by default to 80 % of its free memory.

    Raises
    ------
    ShardError
        If no worker can read a shard with the content that it has here.
    NotFiniteError
        If a feature is NaN or infinite.
    ClusterError
        If no worker is left.
    """
    remote = RemoteStore(shards, memory, reading, cluster)
    remote.load()
    sizes = np.concatenate([np.diff(shard.offsets) for shard in shards])
    first = remote.parts[0]
    row = first.dim * first.dtype.itemsize
    return Store(remote.parts, max(1, CACHE_BYTES // row), sizes=sizes, remote=remote), sizes


class RemoteStore:
    """The workers of a cluster and the parts of a store that are assigned to them.

    Parameters
    ----------
    shards : ShardSet
    memory : int or None
    reading : ReadOptions
    cluster : Cluster
    """

    def __init__(self, shards: ShardSet, memory: int | None, reading: ReadOptions, cluster: Cluster):
        self.parts: list[FilePart] = [FilePart.of_shard(header, reading.transform) for header in shards.headers]
        self._shards, self._reading, self._cluster, self._memory = shards, reading, cluster, memory
        self._bounds = np.cumsum([0, *(part.n_rows for part in self.parts)])
        self._store = token_hex(8)
        self._owner: dict[int, str] = {}
        self._limits: dict[str, int | None] = {}
        self._failures: dict[int, dict[str, str]] = defaultdict(dict)  # part -> worker -> reason
        self._sent: dict[str, set[Any]] = defaultdict(set)  # worker -> parts and selections that it has
        self._local_selections: WeakKeyDictionary[Selection, dict[Any, tuple[bytes, Selection]]] = WeakKeyDictionary()
        self._lock = Lock()

    @property
    def assignment(self) -> dict[str, Parts]:
        """The parts that each worker holds, by its address."""
        assignment = defaultdict(list)
        for part, worker in sorted(self._owner.items()):
            assignment[worker].append(part)
        return {worker: tuple(parts) for worker, parts in assignment.items()}

    def load(self) -> None:
        """Have the workers read and check every part; merge the states of the visitor's copies, if there is one."""
        visitors: dict[int, Any] = {}
        visits = self._reading.visit is not None

        def request(worker: str, assigned: Parts, parts: Parts) -> Request:
            return self._request(worker, assigned, visited=parts if visits else ())

        def receive(parts: Parts, reply: Any) -> None:
            visitors.update(zip(parts, reply, strict=visits))

        self._exchange(range(len(self.parts)), request, receive)
        if self._reading.visit is not None:
            for part in range(len(self.parts)):
                self._reading.visit.join(visitors[part])

    def run(self, selection: Selection, work: PassQuery, *, reused: bool = True) -> Answer:
        """Return the answer to `work`; workers cache the selection if it will be `reused`."""
        owners, offsets = self._parts_of(selection.starts), work.offsets(selection)
        answer = work.allocate(int(offsets[-1]), self.parts[0].dim, self.parts[0].dtype)

        def request(worker: str, assigned: Parts, parts: Parts) -> Request:
            key, local = self._local_selection(selection, assigned, parts)
            cached = reused and key in self._sent[worker]
            if reused:
                self._sent[worker].add(key)
            sent = None if cached else local
            return self._request(worker, assigned, key=key if reused else b"", selection=sent, work=work)

        def receive(parts: Parts, reply: Any) -> None:
            bags = np.isin(owners, parts)
            rows = rows_of(offsets[:-1][bags], offsets[1:][bags])
            for array, values in zip(answer, reply, strict=True):
                array[rows] = values

        self._exchange(np.unique(owners).tolist(), request, receive)
        return answer

    def take(self, rows: Index) -> Array:
        """Return copies of rows (m, d), in their order."""
        distinct, inverse = np.unique(rows, return_inverse=True)
        (copies,) = self.run(Selection(distinct, distinct + 1), Copies(), reused=False)
        return np.asarray(copies[inverse])

    def _parts_of(self, rows: Index) -> Index:
        return np.searchsorted(self._bounds, rows, side="right") - 1

    def _request(self, worker: str, assigned: Parts, visited: Parts = (), **wanted: Any) -> Request:
        """Return a request for what is `wanted`, with the headers that this worker has not received yet."""
        sent = self._sent[worker]
        new = {part: self._shards.headers[part] for part in assigned if part not in sent}
        sent.update(new)
        reading = self._reading if visited else ReadOptions(transform=self._reading.transform)
        limit = self._limits[worker]
        return Request(worker, self._store, assigned, limit, new or None, reading, visited=visited, **wanted)

    def _local_selection(self, selection: Selection, assigned: Parts, parts: Parts) -> tuple[bytes, Selection]:
        """Return the bags of some parts in rows of the parts assigned to a worker, and the key of that selection."""
        cache = self._local_selections.setdefault(selection, {})
        if (assigned, parts) not in cache:
            owners = self._parts_of(selection.starts)
            chosen = selection.subset(np.flatnonzero(np.isin(owners, parts)))
            sizes = np.array([self.parts[part].n_rows for part in assigned])
            begin = np.zeros(len(self.parts), dtype=np.intp)
            begin[list(assigned)] = np.cumsum(sizes) - sizes
            owner = self._parts_of(chosen.starts)
            move = begin[owner] - self._bounds[owner]
            moved = Selection(chosen.starts + move, chosen.stops + move, chosen.excluded)
            digest = blake2b(repr(assigned).encode(), digest_size=16)
            for array in (moved.starts, moved.stops, b"" if moved.excluded is None else moved.excluded):
                digest.update(np.ascontiguousarray(array).data if isinstance(array, np.ndarray) else array)
            cache[assigned, parts] = digest.digest(), moved
        return cache[assigned, parts]

    def _exchange(
        self,
        parts: Iterable[int],
        request: Callable[[str, Parts, Parts], Request],
        receive: Callable[[Parts, Reply], None],
    ) -> None:
        """Send requests to the owners of `parts` until all are answered."""
        left = set(parts)
        with self._lock:
            for _ in range(_ROUNDS):
                if not left:
                    return
                self._assign()
                calls = []
                for worker, assigned in self.assignment.items():
                    asked = tuple(part for part in assigned if part in left)
                    if asked:
                        call = self._cluster.submit(serve, request(worker, assigned, asked), worker=worker)
                        calls.append((worker, asked, call))
                for worker, asked, call in calls:
                    reply = call.result()
                    if isinstance(reply, StaleRequest):
                        self._sent.pop(worker, None)  # it was restarted, or another worker received the request
                    elif isinstance(reply, Unreadable):
                        self._unassign(worker, reply)
                    else:
                        receive(asked, reply)
                        left.difference_update(asked)
        raise ClusterError(f"workers at {self._cluster.address} come and go too fast to answer; look at their logs.")

    def _assign(self) -> None:
        """Assign every part without an owner to the worker with the lowest load per thread."""
        threads = self._cluster.wait_for_workers()
        if threads.keys() != self._limits.keys():
            self._update_workers(threads)
        load = dict.fromkeys(threads, 0.0)
        for part, worker in self._owner.items():
            load[worker] += self.parts[part].n_rows / threads[worker]
        for part in range(len(self.parts)):
            if part in self._owner:
                continue
            able = [worker for worker in threads if worker not in self._failures[part]]
            if not able:
                raise self._unreadable(part)
            worker = min(able, key=lambda name: (load[name] + self.parts[part].n_rows / threads[name], name))
            self._owner[part] = worker
            load[worker] += self.parts[part].n_rows / threads[worker]

    def _update_workers(self, threads: dict[str, int]) -> None:
        """Remove lost workers, connect new ones and query their memory, and rebalance if any are new."""
        lost, new = self._limits.keys() - threads.keys(), threads.keys() - self._limits.keys()
        for worker in sorted(lost):
            parts = self.assignment.get(worker, ())
            self._cluster.notify(f"worker {worker} is lost; others take over its {len(parts)} shards")
            del self._limits[worker]
            self._sent.pop(worker, None)
        self._owner = {part: worker for part, worker in self._owner.items() if worker not in lost}
        hosts = Counter(map(_host, threads))
        calls = [(worker, self._cluster.submit(release, worker=worker)) for worker in sorted(new)]
        for worker, call in calls:
            available = call.result()
            memory = available if self._memory is None else self._memory
            self._limits[worker] = None if memory is None else memory // hosts[_host(worker)]
        if new:
            self._rebalance(threads)

    def _rebalance(self, threads: dict[str, int]) -> None:
        """Move parts from the workers with the highest load per thread to idle ones."""
        for idle in [worker for worker in threads if worker not in self.assignment]:
            while self._owner:
                rows = {name: sum(self.parts[part].n_rows for part in held) for name, held in self.assignment.items()}
                busiest = max(rows, key=lambda name: (rows[name] / threads[name], name))
                part = self.assignment[busiest][-1]
                after = (rows.get(idle, 0) + self.parts[part].n_rows) / threads[idle]
                if idle in self._failures[part] or after >= rows[busiest] / threads[busiest]:
                    break
                self._owner[part] = idle

    def _unassign(self, worker: str, reply: Unreadable) -> None:
        """Remove a part from a worker that cannot read it."""
        self._failures[reply.part][worker] = reply.reason
        self._owner.pop(reply.part, None)
        self._cluster.notify(f"worker {worker} cannot read a shard, another one takes over: {reply.reason.rstrip('.')}")

    def _unreadable(self, part: int) -> ShardError:
        worker, reason = next(iter(self._failures[part].items()))
        self._failures[part] = {}
        path = self._shards.headers[part].path
        return ShardError(f"shard {path} must be readable on a worker, got on {worker}: {reason.rstrip('.')}.")


def _host(address: str) -> str:
    """Return the machine of a worker's address."""
    return urlsplit(address).hostname or address
