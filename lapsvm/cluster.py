"""Worker processes on this machine or others, connected by Dask; the only file that imports Dask.

Calls and results are pickled here, as Dask would do, so that their bytes can be counted. Anyone who can reach a
scheduler can run any code on its workers; see ``docs/howto/machines.md``.
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

from lapsvm.errors import ClusterError, OptionError, import_optional

T = TypeVar("T")

CONNECT_SECONDS = 10.0
"""Timeout for the connection to a scheduler, and for its first worker."""

PATIENCE_SECONDS = 60.0
"""How long calls wait for a worker when there is none."""

_POLL_SECONDS = 0.5  # between checks that workers exist
_ADDRESS = re.compile(r"((tcp|tls)://)?([^\s/:\[\]]+|\[[0-9a-fA-F:]+\]):\d{1,5}")
_SETTINGS = {
    "distributed.admin.large-graph-warning-threshold": "1TB",  # the first request to a worker may have some megabytes
    "distributed.scheduler.work-stealing": False,  # a call runs where its windows are
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.worker.memory.spill": False,  # the store limits its own memory
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
}


def check_executor(executor: str) -> str | None:
    """Return the scheduler's address in "dask:ADDRESS", "" for "dask", None for "local"; else raise OptionError."""
    name, colon, address = executor.partition(":")
    if executor == "local":
        return None
    if name == "dask" and (not colon or _ADDRESS.fullmatch(address)):
        return address
    raise OptionError(f"executor must be local, dask or dask:ADDRESS such as dask:tcp://host:8786, got {executor!r}.")


def load_dask() -> tuple[Any, Any]:
    """Return the packages dask and distributed. Raises DependencyError if one is not installed."""
    dask, distributed = (
        import_optional(name, f"executor dask needs {name}", "dask") for name in ("dask", "distributed")
    )
    return dask, distributed


@contextmanager
def open_cluster(
    executor: str, jobs: int, timeout: float = CONNECT_SECONDS, notify: Callable[[str], object] | None = None
) -> "Iterator[Cluster | None]":
    """Connect to the processes of an executor while the block runs; yield None for "local", which uses this one.

    Parameters
    ----------
    executor : str
        "local"; "dask", which starts `jobs` processes of one thread each, listening on the loopback interface; or
        "dask:ADDRESS", which connects to the scheduler there.
    jobs : int
    timeout : float, default 10
        Seconds to wait for an answer of the scheduler, and for its first worker.
    notify : callable, optional
        Called with a sentence when a worker is lost, or another one takes over its work.

    Raises
    ------
    OptionError
        If there is no such executor.
    DependencyError
        If Dask is not installed.
    ClusterError
        If no scheduler answers at the address, it has no worker, or a worker has another version of lapsvm.
    """
    address = check_executor(executor)
    if address is None:
        yield None
        return
    dask, distributed = load_dask()
    with ExitStack() as stack:
        stack.enter_context(dask.config.set(_SETTINGS))
        local = stack.enter_context(_local(distributed, jobs)) if not address else None
        where = local.scheduler_address if local is not None else address
        cluster = Cluster(stack.enter_context(_client(distributed, where, timeout)), where, notify)
        cluster.check(timeout)
        yield cluster


def _local(distributed: Any, jobs: int) -> Any:
    """Return processes of this machine that listen on the loopback interface, without a dashboard."""

    def start() -> Any:
        if hasattr(signal, "pthread_sigmask"):  # not on Windows
            resource_tracker.ensure_running()  # its later start would unblock the signal
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # inherited by all processes started here
        return distributed.LocalCluster(
            n_workers=jobs,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=None,
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # any free port
            memory_limit=0,
            silence_logs="CRITICAL",  # failures are raised
        )

    with ThreadPoolExecutor(1) as pool:  # so that Ctrl-C does not interrupt the start of Dask
        starting = pool.submit(start)
        try:
            return starting.result()
        except BaseException:
            if starting.exception() is None:
                starting.result().close()
            raise


def _client(distributed: Any, address: str, timeout: float) -> Any:
    for name in ("distributed", "distributed.client"):  # the second has a level of its own; failures are raised
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        return distributed.Client(address, timeout=timeout, set_as_default=False)
    except (OSError, TimeoutError):
        raise ClusterError(
            f"no scheduler answers at {address} within {timeout:g} s; start one with dask scheduler, or check the "
            "address."
        ) from None


class Call(Generic[T]):
    """A call that a worker executes."""

    def __init__(self, cluster: "Cluster", submit: Callable[[str | None], Any], worker: str | None):
        self._cluster, self._submit = cluster, submit
        self._begin(worker)

    def _begin(self, worker: str | None) -> None:
        done = Event()
        self._worker, self._done = worker, done
        self._future = self._submit(worker)
        self._future.add_done_callback(lambda _: done.set())

    def result(self) -> T:
        """Wait for the call; return its result or raise its exception.

        Raises
        ------
        ClusterError
            If the call loses every worker that executes it, no worker is left, or the scheduler is lost.
        """
        while not self._done.wait(_POLL_SECONDS):
            if self._worker not in {None, *self._cluster.wait_for_workers()}:
                self.cancel()  # Dask never resumes it if that worker was the only one
                self._begin(None)
        result: T = self._cluster._received(self._future)
        return result

    def cancel(self) -> None:
        """Cancel the call if no worker has started it."""
        self._future.cancel()


class Cluster:
    """The processes of a scheduler.

    Parameters
    ----------
    client : distributed.Client
    address : str
        The scheduler's.
    notify : callable, optional
        Called with a sentence about each failure that the cluster recovers from.

    Attributes
    ----------
    sent, received : int
        Bytes of calls and of results, without Dask's own messages of about a kilobyte per call.
    """

    def __init__(self, client: Any, address: str, notify: Callable[[str], object] | None = None):
        self.address, self.sent, self.received = address, 0, 0
        self.notify = notify or (lambda _: None)
        self._client, self._numbers, self._lock = client, count(), Lock()

    def workers(self) -> dict[str, int]:
        """Return the number of threads of every worker, by its address and sorted; ClusterError without a scheduler."""
        try:
            threads: dict[str, int] = dict(self._client.nthreads()) if self._client.status == "running" else {}
        except (OSError, RuntimeError, TimeoutError):
            raise self._lost() from None
        if self._client.status != "running":
            raise self._lost()
        return dict(sorted(threads.items()))

    def wait_for_workers(self) -> dict[str, int]:
        """Return `workers` once there is one. Raises ClusterError if none comes for `PATIENCE_SECONDS`."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not (threads := self.workers()):
            if time.monotonic() > end:
                raise ClusterError(f"the scheduler at {self.address} has had no worker for {PATIENCE_SECONDS:g} s.")
            time.sleep(_POLL_SECONDS)
        return threads

    def submit(self, function: Callable[..., T], *arguments: Any, worker: str | None = None) -> Call[T]:
        """Call a function on `worker`, or on another one if that is lost.

        The function belongs to a module that workers can import. A call whose worker is lost runs again on another.
        """
        content = pickle.dumps((function, arguments), protocol=5)
        name = getattr(function, "__name__", "call")
        return Call(self, lambda pinned: self._submitted(name, content, pinned), worker)

    def _submitted(self, name: str, content: bytes, worker: str | None) -> Any:
        with self._lock:
            self.sent += len(content)
            key = f"{name}-{id(self):x}-{next(self._numbers)}"
        pinned: dict[str, Any] = {} if worker is None else {"workers": [worker], "allow_other_workers": True}
        try:
            return self._client.submit(_execute, content, key=key, pure=False, **pinned)
        except (OSError, RuntimeError):
            raise self._lost() from None

    def check(self, timeout: float) -> None:
        """Wait for the first worker and check every worker's version; ClusterError if none comes, or one differs."""
        try:
            self._client.wait_for_workers(1, timeout=timeout)
        except TimeoutError:
            raise ClusterError(
                f"the scheduler at {self.address} has no worker after {timeout:g} s; start some with "
                f"dask worker {self.address}."
            ) from None
        here = installed_version()
        for worker, call in [(worker, self.submit(installed_version, worker=worker)) for worker in self.workers()]:
            try:
                version = call.result()
            except (ImportError, AttributeError, RuntimeError):  # RuntimeError: the scheduler lacks the module
                raise ClusterError(
                    f"the scheduler at {self.address} and worker {worker} must have lapsvm {here} as this process has, "
                    "and one of them has not."
                ) from None
            if version != here:
                raise ClusterError(f"worker {worker} must have lapsvm {here} as this process has, got {version}.")

    def _received(self, future: Any) -> Any:
        """Return the result of a finished call."""
        from concurrent.futures import CancelledError

        from distributed import KilledWorker

        try:
            content: bytes = future.result()
        except KilledWorker:
            raise ClusterError(
                f"the same call lost several workers at {self.address}, as when memory runs out; lower the parameter "
                "memory, or look at their logs."
            ) from None
        except (CancelledError, OSError) as error:
            if isinstance(error, CancelledError) or self._client.status != "running":
                raise self._lost() from None
            raise
        with self._lock:
            self.received += len(content)
        return pickle.loads(content)  # noqa: S301 - from our own workers, whose messages Dask unpickles anyway

    def _lost(self) -> ClusterError:
        return ClusterError(
            f"the scheduler at {self.address} is lost; finished work is kept, and the same command continues."
        )


def this_worker() -> tuple[str, int]:
    """Return the address and the number of threads of the worker that this runs in."""
    from distributed import get_worker

    worker = get_worker()
    return str(worker.address), int(worker.state.nthreads)


def _execute(content: bytes) -> bytes:
    """Execute a pickled call in a worker."""
    function, arguments = pickle.loads(content)  # noqa: S301 - the purpose of a worker
    return pickle.dumps(function(*arguments), protocol=5)


def installed_version() -> str:
    """Return the version of lapsvm here, or on the worker that runs this."""
    import lapsvm

    return lapsvm.__version__
