"""Processes on this machine or others that do what they are given, held together by Dask; the one file that imports it.

What travels is counted: work and its arguments are pickled here, as Dask would, and so are the answers. Whoever can
reach a scheduler can have its workers run anything; ``docs/howto/machines.md`` says what follows from that.
"""

import logging
import pickle
import re
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import count
from multiprocessing import resource_tracker
from threading import Event, Lock
from typing import Any, Generic, TypeVar

from lapsvm.errors import ClusterError, DependencyError, OptionError

T = TypeVar("T")

CONNECT_SECONDS = 10.0
"""How long a scheduler may take to answer, and to have its first worker."""

PATIENCE_SECONDS = 60.0
"""How long work waits, without a single worker, for one to come back."""

_LOOK_SECONDS = 0.5  # between looks at whether there still is anyone to work
_ADDRESS = re.compile(r"((tcp|tls)://)?([^\s/:\[\]]+|\[[0-9a-fA-F:]+\]):\d{1,5}")
_SETTINGS = {
    "distributed.admin.large-graph-warning-threshold": "1TB",  # what a worker is told once may be some megabytes
    "distributed.scheduler.work-stealing": False,  # work goes where its windows are
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.worker.memory.spill": False,  # windows have a budget of their own, and copies of them are of no use
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
}


def check_executor(executor: str) -> str | None:
    """Return the scheduler's address in "dask:ADDRESS", "" for "dask", None for "local"; OptionError for others."""
    name, colon, address = executor.partition(":")
    if executor == "local":
        return None
    if name == "dask" and (not colon or _ADDRESS.fullmatch(address)):
        return address
    raise OptionError(f"executor must be local, dask or dask:ADDRESS such as dask:tcp://host:8786, got {executor!r}.")


@contextmanager
def open_cluster(
    executor: str, jobs: int, timeout: float = CONNECT_SECONDS, notify: Callable[[str], object] | None = None
) -> "Iterator[Cluster | None]":
    """Hold the processes of an executor while the block runs; None for "local", which has none but this one.

    Parameters
    ----------
    executor : str
        "local"; "dask", which starts `jobs` processes of one thread each, that listen on the loopback alone; or
        "dask:ADDRESS", which connects to the scheduler there.
    jobs : int
    timeout : float, default 10
        Seconds until a scheduler that does not answer, or has no worker, is given up.
    notify : callable, optional
        Is given a sentence whenever a worker is lost, or cannot do what another one then does.

    Raises
    ------
    OptionError
        If the executor is another one.
    DependencyError
        If Dask is not installed.
    ClusterError
        If there is no scheduler at the address, it has no worker, or a worker has not this version of lapsvm.
    """
    address = check_executor(executor)
    if address is None:
        yield None
        return
    dask, distributed = _load()
    with ExitStack() as stack:
        stack.enter_context(dask.config.set(_SETTINGS))
        local = stack.enter_context(_local(distributed, jobs)) if not address else None
        where = local.scheduler_address if local is not None else address
        cluster = Cluster(stack.enter_context(_client(distributed, where, timeout)), where, notify)
        cluster.check(timeout)
        yield cluster


def _load() -> tuple[Any, Any]:
    try:
        import dask
        import distributed
    except ImportError:
        raise DependencyError(
            'executor dask needs dask and distributed, which are not installed; pip install "lapsvm[dask]".'
        ) from None
    return dask, distributed


def _local(distributed: Any, jobs: int) -> Any:
    """Return processes of this machine that listen on the loopback alone, without a page to look at."""

    def start() -> Any:
        resource_tracker.ensure_running()  # it would let the signal through again when processes first need it
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # and so in all that is started here, now and later
        return distributed.LocalCluster(
            n_workers=jobs,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=None,
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # not at a fixed port, which may be taken
            memory_limit=0,
            silence_logs="CRITICAL",  # what goes wrong is raised
        )

    with ThreadPoolExecutor(1) as pool:  # Ctrl-C is for this process alone, and does not catch Dask half begun
        starting = pool.submit(start)
        try:
            return starting.result()
        except BaseException:
            if starting.exception() is None:
                starting.result().close()
            raise


def _client(distributed: Any, address: str, timeout: float) -> Any:
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # what goes wrong is raised
    try:
        return distributed.Client(address, timeout=timeout, set_as_default=False)
    except (OSError, TimeoutError):
        raise ClusterError(
            f"no scheduler answers at {address} within {timeout:g} s; start one with dask scheduler, or look at the "
            "address."
        ) from None


class Call(Generic[T]):
    """Work that was given away."""

    def __init__(self, cluster: "Cluster", future: Any):
        self._cluster, self._future, self._done = cluster, future, Event()
        future.add_done_callback(lambda _: self._done.set())

    def result(self) -> T:
        """Return what the work gave, or raise what it raised.

        Raises
        ------
        ClusterError
            If every process that took the work was lost, or none is left to take it, or the scheduler is lost.
        """
        while not self._done.wait(_LOOK_SECONDS):
            self._cluster.wait_for_workers()
        found: T = self._cluster._received(self._future)
        return found

    def cancel(self) -> None:
        """Have it not done, if nobody has begun."""
        self._future.cancel()


class Cluster:
    """The processes of a scheduler.

    Parameters
    ----------
    client : distributed.Client
    address : str
        Of the scheduler.
    notify : callable, optional
        Is given a sentence about what was overcome.

    Attributes
    ----------
    sent, received : int
        Bytes of work and of answers that have travelled, without Dask's own words, about a kilobyte for each call.
    """

    def __init__(self, client: Any, address: str, notify: Callable[[str], object] | None = None):
        self.address, self.sent, self.received = address, 0, 0
        self.notify = notify or (lambda _: None)
        self._client, self._numbers, self._lock = client, count(), Lock()

    def workers(self) -> dict[str, int]:
        """Return the number of threads of every worker that is there, by its address; ClusterError without scheduler.

        The order is that of the addresses.
        """
        try:
            there: dict[str, int] = dict(self._client.nthreads()) if self._client.status == "running" else {}
        except (OSError, RuntimeError, TimeoutError):
            raise self._lost() from None
        if self._client.status != "running":
            raise self._lost()
        return dict(sorted(there.items()))

    def wait_for_workers(self) -> dict[str, int]:
        """Return `workers` once there is one; ClusterError if none comes for `PATIENCE_SECONDS`."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not (there := self.workers()):
            if time.monotonic() > end:
                raise ClusterError(f"the scheduler at {self.address} has had no worker for {PATIENCE_SECONDS:g} s.")
            time.sleep(_LOOK_SECONDS)
        return there

    def submit(self, work: Callable[..., T], *arguments: Any, worker: str | None = None) -> Call[T]:
        """Have work done, by `worker` if it is there when the work begins, or else by any.

        The work is a function of a module, which every worker has; what a worker takes with it when it is lost, another
        one does again.
        """
        content = pickle.dumps((work, arguments), protocol=5)
        with self._lock:
            self.sent += len(content)
            key = f"{getattr(work, '__name__', 'work')}-{id(self):x}-{next(self._numbers)}"
        pinned: dict[str, Any] = {} if worker is None else {"workers": [worker], "allow_other_workers": True}
        try:
            return Call(self, self._client.submit(_do, content, key=key, pure=False, **pinned))
        except (OSError, RuntimeError):
            raise self._lost() from None

    def check(self, timeout: float) -> None:
        """Wait for the first worker and have each tell its version; ClusterError if there is none, or another one."""
        try:
            self._client.wait_for_workers(1, timeout=timeout)
        except TimeoutError:
            raise ClusterError(
                f"the scheduler at {self.address} has no worker after {timeout:g} s; start some with "
                f"dask worker {self.address}."
            ) from None
        here = _version()
        for worker, call in [(worker, self.submit(_version, worker=worker)) for worker in self.workers()]:
            try:
                there = call.result()
            except (ImportError, AttributeError, RuntimeError):  # Dask raises the last where the scheduler has none
                raise ClusterError(
                    f"the scheduler at {self.address} and worker {worker} must have lapsvm {here} as this process has, "
                    "and one of them has not."
                ) from None
            if there != here:
                raise ClusterError(f"worker {worker} must have lapsvm {here} as this process has, got {there}.")

    def _received(self, future: Any) -> Any:
        """Return the answer of a call that is over."""
        from concurrent.futures import CancelledError

        from distributed import KilledWorker

        try:
            content: bytes = future.result()
        except KilledWorker:
            raise ClusterError(
                f"the workers at {self.address} are lost again and again in the same piece of work, as when memory "
                "runs out; give them less to hold with --memory, or look at their logs."
            ) from None
        except (CancelledError, OSError) as error:
            if isinstance(error, CancelledError) or self._client.status != "running":
                raise self._lost() from None
            raise
        with self._lock:
            self.received += len(content)
        return pickle.loads(content)  # noqa: S301 - from our own workers, and Dask has unpickled their words before

    def _lost(self) -> ClusterError:
        return ClusterError(
            f"the scheduler at {self.address} is lost; what is done is kept, the same command continues."
        )


def own_address() -> str:
    """Return the address of the worker that this is called in."""
    from distributed import get_worker

    return str(get_worker().address)


def own_threads() -> int:
    """Return the number of threads of the worker that this is called in."""
    from distributed import get_worker

    return int(get_worker().state.nthreads)


def _do(content: bytes) -> bytes:
    """Do some work in a worker."""
    work, arguments = pickle.loads(content)  # noqa: S301 - what a worker is for
    return pickle.dumps(work(*arguments), protocol=5)


def _version() -> str:
    import lapsvm

    return lapsvm.__version__
