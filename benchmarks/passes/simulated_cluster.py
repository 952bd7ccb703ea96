"""Training on a cluster of many workers, with a clock that is simulated and a driver that is ours.

    python benchmarks/passes/simulated_cluster.py FOLDER --workers 64

The driver is the program's own: `lapsvm.bags` assigns shards to workers, sends them requests, and gives lost shards to
others; `fit_many` trains. The workers' side answers in this process, from small shards that are drawn into FOLDER, so
that every answer is exact and weights can be compared with those of training here. What is simulated is time: each call
costs a latency, its bytes over the network, and the passes over the windows that its shards stand for. Latencies and
speeds vary by worker and call, calls straggle, and workers are lost and replaced; see `Machine`.

The defaults are a million pictures of 2,000 windows of 512 halves: 2 TB. Prints Markdown.
"""

import argparse
import pickle
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from lapsvm.bags import Bags
from lapsvm.bags.requests import Copies
from lapsvm.bags.stores import remote
from lapsvm.bags.stores.worker import Request, StaleRequest, WorkerStore, serve
from lapsvm.features import PictureWindows, assemble_shard, open_shards, shard_name, write_shard
from lapsvm.latent import LatentProblem, PassCounts, fit_many
from lapsvm.ranking import most_violated_ranking

SET = "trainval"
DIM, WINDOWS, PER_SHARD, CLASSES, SHIFT = 64, 20, 4, 20, 4.0
"""Of the pictures that are drawn."""
REAL_DIM, REAL_WINDOWS, BYTES = 512, 2000, 2
"""Of those that they stand for."""
WINDOW = DIM * BYTES
TOL, C = 0.01, 1.0  # of recipe best


@dataclass(frozen=True)
class Machine:
    """What calls cost.

    Attributes
    ----------
    latency : float
        Seconds of a call.
    network, storage, memory : float
        Bytes per second: of the driver's connection, which all answers share, from object storage, and of a pass over
        windows in memory for one weight vector.
    per_vector : float
        What each further weight vector adds to a pass, as a share of the first (20 cost 2.1 passes).
    spread : float
        Standard deviation of the log of a call's duration.
    straggling : float
        Share of the calls that take ten times as long.
    lost : float
        Share of the calls during which the worker is lost.
    boot : float
        Seconds until another worker takes its place.
    price, stored : float
        Dollars for a worker's hour, and for a terabyte's month in object storage.
    """

    latency: float = 0.005
    network: float = 1e9
    storage: float = 0.5e9
    memory: float = 20e9
    per_vector: float = 1.1 / 19
    spread: float = 0.0
    straggling: float = 0.0
    lost: float = 0.0
    boot: float = 120.0
    price: float = 0.27
    stored: float = 23.0


SCENARIOS: Mapping[str, Machine] = {
    "nothing goes wrong": Machine(),
    "calls vary by a fifth": Machine(spread=0.2),
    "and one in 1,000 takes ten times as long": Machine(spread=0.2, straggling=0.001),
    "and one in 2,000 loses its worker": Machine(spread=0.2, straggling=0.001, lost=0.0005),
    "a network of a tenth": Machine(network=1e8),
}


@dataclass
class SimulatedCall:
    """A call whose answer and end are known when it is made; to wait for it moves the clock."""

    cluster: "SimulatedCluster"
    answer: Any
    end: float

    def result(self) -> Any:
        """Return the answer, at the call's end."""
        self.cluster.now = max(self.cluster.now, self.end)
        return self.answer


@dataclass
class SimulatedCluster:
    """Stands for `lapsvm.cluster.Cluster`: workers that answer here, and a clock.

    Attributes
    ----------
    n_workers : int
    machine : Machine
    factor : float
        Bytes of windows that a byte of the drawn ones stands for.
    pictures : float
        Pictures that a drawn one stands for: their rows of answers are sent, too.
    """

    n_workers: int
    machine: Machine
    factor: float
    pictures: float
    address: str = "simulation"
    now: float = 0.0
    sent: float = 0.0
    received: float = 0.0
    read: float = 0.0
    link: float = 0.0
    losses: int = 0
    stores: dict[str, WorkerStore] = field(default_factory=dict)
    free: dict[str, float] = field(default_factory=dict)
    joining: list[tuple[float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._numbers, self._rng = count(), np.random.default_rng(0)
        for _ in range(self.n_workers):
            self._join(self._name(), 0.0)

    def notify(self, sentence: str) -> None:
        """Say nothing of lost workers; they are counted."""

    def workers(self) -> dict[str, int]:
        """Return the threads of the workers that are there by now."""
        for at, name in [one for one in self.joining if one[0] <= self.now]:
            self.joining.remove((at, name))
            self._join(name, at)
        return dict.fromkeys(sorted(self.stores), 1)

    def wait_for_workers(self) -> dict[str, int]:
        """Return `workers`, of which there always are some."""
        return self.workers()

    def submit(self, function: Callable[..., Any], *arguments: Any, worker: str) -> SimulatedCall:
        """Answer a call of a worker's, and charge its time."""
        content = pickle.dumps(arguments, protocol=5)
        if function is not serve:
            return SimulatedCall(self, None, self.now + self.machine.latency)
        (request,) = arguments
        if self._rng.random() < self.machine.lost:
            self._lose(worker)
            return SimulatedCall(self, StaleRequest(), self.now + 1.0)  # another worker refuses the request
        store, start = self.stores[worker], max(self.now, self.free[worker])
        held = set(store.parts)
        reply = store.reply(request, 1)
        loaded = sum(part.n_rows for number, part in store.parts.items() if number not in held)
        seconds, received = self._cost(store, request, reply, loaded * WINDOW * self.factor)
        self.free[worker] = start + seconds
        sent = len(content) * REAL_DIM / DIM  # mostly weight vectors
        self.sent, self.received = self.sent + sent, self.received + received
        self.link = max(self.link, self.free[worker]) + (sent + received) / self.machine.network
        return SimulatedCall(self, reply, self.link)

    def _cost(self, store: WorkerStore, request: Request, reply: Any, loaded: float) -> tuple[float, float]:
        """Return how long a worker takes for a call, for which it reads so many bytes first, and the bytes it sends."""
        machine, seconds = self.machine, self.machine.latency + loaded / self.machine.storage
        received = 0.0
        if request.work is not None and isinstance(reply, tuple):
            received = sum(array.nbytes for array in reply) * self.pictures
            selection = request.selection or store.selections[request.key]
            rows = float((selection.stops - selection.starts).sum())
            if isinstance(request.work, Copies):  # of windows of as many pictures as each drawn one stands for
                received = rows * self.pictures * REAL_DIM * BYTES
                seconds += received / machine.memory
            else:
                vectors = max(1.0, request.work.products(DIM) / DIM)
                seconds += rows * WINDOW * self.factor / machine.memory * (1 + (vectors - 1) * machine.per_vector)
        self.read += loaded
        slow = 10.0 if self._rng.random() < machine.straggling else 1.0
        varied = float(np.exp(machine.spread * self._rng.normal()))
        return seconds * slow * varied, received

    def _name(self) -> str:
        return f"sim://worker{next(self._numbers):05d}:1"

    def _join(self, name: str, at: float) -> None:
        self.stores[name], self.free[name] = WorkerStore(), at

    def _lose(self, worker: str) -> None:
        del self.stores[worker], self.free[worker]
        self.losses += 1
        self.joining.append((self.now + self.machine.boot, self._name()))


def draw(folder: Path, n_shards: int) -> np.ndarray:
    """Write shards of small pictures with planted classes, if they are not there; return the labels."""
    n_pictures, rng = n_shards * PER_SHARD, np.random.default_rng(0)
    labels = np.where(rng.random((CLASSES, n_pictures)) < 0.05, 1, -1)
    labels[:, :2] = [1, -1]
    directions = rng.standard_normal((CLASSES, DIM))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    shards = folder / "shards" / SET
    shards.mkdir(parents=True, exist_ok=True)
    boxes = np.tile(np.float32([0, 0, 9, 9]), (WINDOWS, 1))
    for first in range(0, n_pictures, PER_SHARD):
        path = shards / shard_name(first // PER_SHARD)
        pictures = []
        for number in range(first, first + PER_SHARD):
            features = rng.standard_normal((WINDOWS, DIM))
            shown = np.flatnonzero(labels[:, number] > 0)
            features[rng.integers(1, WINDOWS, len(shown))] += SHIFT * directions[shown]
            pictures.append(
                PictureWindows(f"{number:06d}", boxes, features.astype(np.float16), f"{number:064x}", (9, 9))
            )
        if not path.exists():
            write_shard(path, assemble_shard(pictures, {"pictures": n_pictures}))
    if open_shards(shards).n_images != n_pictures:
        raise SystemExit(f"{folder} holds other pictures; give another folder.")
    return labels


def train(bags: Bags, labels: np.ndarray) -> tuple[np.ndarray, PassCounts]:
    """Return the weights (d, classes) of latent AP-SVM with the constants of recipe best, and the passes."""
    counts, problems = PassCounts(), [LatentProblem(y, C=C, tol=TOL, top=2) for y in labels]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        solutions = fit_many(problems, bags, candidates=0, pass_counts=counts)
    return np.stack([one.coef for one in solutions], axis=1), counts


def ranking_seconds(n_pictures: int) -> float:
    """Return how long the driver takes for the most violated ranking of one class."""
    rng = np.random.default_rng(0)
    scores, labels = rng.standard_normal(n_pictures), np.where(rng.random(n_pictures) < 0.05, 1, -1)
    start = time.process_time()
    most_violated_ranking(scores, labels, loss="ap")
    return time.process_time() - start


def main() -> None:
    """Print a row for each scenario."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--shards", type=int, default=640, help="shards that are drawn")
    parser.add_argument("--pictures", type=int, default=1_000_000, help="pictures that they stand for")
    given = parser.parse_args()
    labels = draw(given.folder, given.shards)
    pictures = given.pictures / labels.shape[1]
    factor = pictures * REAL_WINDOWS * REAL_DIM / (WINDOWS * DIM)
    here, _ = train(Bags.open(given.folder, SET), labels)
    ranking = ranking_seconds(given.pictures)
    size = given.pictures * REAL_WINDOWS * REAL_DIM * BYTES
    # the driver's copies of single windows are as few of the drawn ones as they are of those that these stand for
    remote.CACHE_BYTES = max(1, int(remote.CACHE_BYTES / pictures * WINDOW / (REAL_DIM * BYTES)))
    print(f"{given.pictures:,} pictures, {size / 1e12:.1f} TB, {given.workers} workers")
    print(f"the most violated ranking of a class takes the driver {ranking:.2f} s\n")
    print(
        "| | passes, vectors | hours | of which the driver | read TB | sent, received GB | lost | dollars | weights |"
    )
    print("|---" * 9 + "|")
    for name, machine in SCENARIOS.items():
        cluster = SimulatedCluster(given.workers, machine, factor, pictures)
        bags = Bags.open(given.folder, SET, memory=1 << 40, cluster=cluster)  # type: ignore[arg-type]
        weights, counts = train(bags, labels)
        driver = counts.vectors * ranking / 3600
        hours = cluster.now / 3600 + driver
        cells = (
            name,
            f"{counts.passes}, {counts.vectors:,}",
            f"{hours:.2f}",
            f"{driver:.2f}",
            f"{cluster.read / 1e12:.1f}",
            f"{cluster.sent / 1e9:.2f}, {cluster.received / 1e9:.0f}",
            cluster.losses,
            f"{hours * given.workers * machine.price + size / 1e12 * machine.stored:.0f}",
            "the same" if np.array_equal(weights, here) else "others",
        )
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    main()
