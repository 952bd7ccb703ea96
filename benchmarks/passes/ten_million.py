"""Ten million windows: passes and training over a store of 10 GB, in memory and with less memory than it takes.

    python benchmarks/passes/ten_million.py FOLDER
    python benchmarks/passes/ten_million.py FOLDER --windows 1000000 --memory 500M

FOLDER gets 10 million windows of 512 float16 features in 5,000 pictures, in shards of lapsvm; they are drawn
once (about 10 GB, some minutes) and kept. 20 classes are planted, each in 5 % of the pictures: in such a picture
three windows are shifted along the class's direction. All windows of a picture share half of their features.

Every measurement runs in a separate process and reports its peak memory: passes, training, and both again with
`--memory`, by default 0.6 of the store. Prints Markdown. Floors are bytes over bandwidth: for windows in memory the
rate of summing them as 64-bit integers on as many threads, for windows in files the read rate of one thread.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from timing import minimum_times, timed

from lapsvm.bags import Bags
from lapsvm.bags.stores.memory import as_bytes
from lapsvm.features import PictureWindows, assemble_shard, open_shards, shard_name, write_shard
from lapsvm.latent import LatentProblem, fit_many

DIM, PER_PICTURE, PER_SHARD, CLASSES, SHARE = 512, 2000, 50, 20, 0.05
SHIFT, SHIFTED, SHARED = 9.0, 3, 0.5
SET, LABELS = "trainval", "labels.npy"
ROUNDS, C, GAP = 5, 100.0, 1e-3


class CountedBags(Bags):
    """Bags, and their views, that count the windows that they score and for how many weight vectors."""

    counted: ClassVar = {"windows": 0, "calls": 0, "vectors": 0}

    def best(self, weights: Any) -> Any:
        """Count, and return the best windows."""
        self._count(1 if np.ndim(weights) == 1 else np.shape(weights)[1])
        return super().best(weights)

    def score_windows(self, weights: Any) -> Any:
        """Count, and return all scores."""
        self._count(1)
        return super().score_windows(weights)

    def _count(self, vectors: int) -> None:
        self.counted["windows"] += self.n_windows
        self.counted["calls"] += self.n_windows > PER_PICTURE * PER_SHARD
        self.counted["vectors"] += vectors


# the store ------------------------------------------------------------------------------------------------------------


def planted(n_pictures: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels (classes, pictures) and the classes' directions (classes, d), unit vectors."""
    rng = np.random.default_rng(0)
    labels = np.where(rng.random((CLASSES, n_pictures)) < SHARE, 1, -1)
    labels[:, :2] = [1, -1]
    directions = rng.standard_normal((CLASSES, DIM))
    return labels, directions / np.linalg.norm(directions, axis=1, keepdims=True)


def picture(number: int, labels: np.ndarray, directions: np.ndarray) -> PictureWindows:
    """Draw the windows of one picture."""
    rng = np.random.default_rng([1, number])
    features = rng.standard_normal((PER_PICTURE, DIM), dtype=np.float32)
    features += SHARED * rng.standard_normal(DIM, dtype=np.float32)
    for name in np.flatnonzero(labels[:, number] > 0):
        features[rng.integers(1, PER_PICTURE, SHIFTED)] += np.float32(SHIFT) * directions[name].astype(np.float32)
    boxes = np.tile(np.float32([0, 0, 9, 9]), (PER_PICTURE, 1))
    return PictureWindows(f"{number:06d}", boxes, features.astype(np.float16), f"{number:064x}", (9, 9))


def write_store(folder: Path, n_pictures: int) -> str:
    """Write the shards that are not there yet; return a line about it."""
    shards, (labels, directions) = folder / "shards" / SET, planted(n_pictures)
    shards.mkdir(parents=True, exist_ok=True)
    np.save(folder / LABELS, labels)
    firsts = range(0, n_pictures, PER_SHARD)
    start = time.perf_counter()

    def write(first: int) -> int:
        path = shards / shard_name(first // PER_SHARD)
        if path.exists():
            return 0
        chosen = range(first, min(first + PER_SHARD, n_pictures))
        pictures = [picture(number, labels, directions) for number in chosen]
        write_shard(path, assemble_shard(pictures, {"pictures": n_pictures, "planted": [SHIFT, SHIFTED, SHARED]}))
        return 1

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        written = sum(pool.map(write, firsts))
    n_stored = open_shards(shards).n_images
    if n_stored != n_pictures:
        raise SystemExit(f"{folder} holds {n_stored} pictures; give another folder for {n_pictures}.")
    return f"{written} of {len(firsts)} shards written in {time.perf_counter() - start:.0f} s"


# measurements --------------------------------------------------------------------------------------------------------


def on_threads(work: Callable[[Any], object], parts: Sequence[Any]) -> Callable[[], object]:
    """Return a function that does the work on all parts, one thread per part."""

    def all_parts() -> None:
        with ThreadPoolExecutor(len(parts)) as pool:
            list(pool.map(work, parts))

    return all_parts


def opened(folder: Path, memory: str | None) -> tuple[CountedBags, float]:
    """Return the bags, scaled to a mean norm of 1, and the seconds to open them."""
    start = time.perf_counter()
    bags = CountedBags.open(folder, SET, memory=memory)
    return bags.scaled(1 / bags.mean_norm()), time.perf_counter() - start  # type: ignore[return-value]


def read_rate(folder: Path) -> float:
    """Return the bytes per second at which one thread reads some shards, as the pass does."""
    buffer, paths = bytearray(8 << 20), sorted((folder / "shards" / SET).glob("*.safetensors"))[-10:]

    def read() -> None:
        for path in paths:
            with path.open("rb", buffering=0) as file:
                while file.readinto(buffer):
                    pass

    return sum(path.stat().st_size for path in paths) / min(timed(read)[0] for _ in range(2))


def passes(folder: Path, memory: str | None) -> dict[str, Any]:
    """Measure one pass for one class, for 20, and 20 passes for one."""
    bags, seconds = opened(folder, memory)
    weights = np.random.default_rng(2).standard_normal((DIM, CLASSES))
    works: dict[str, Callable[[], object]] = {
        "one class": lambda: bags.best(weights[:, 0]),
        "20 classes": lambda: bags.best(weights),
    }
    stored = bags._store.array
    if stored is not None:
        bits = stored.reshape(-1).view(np.uint64)
        some = bits[: len(bits) // 8]  # copying an eighth tells as much
        room = np.zeros_like(some)
        works["sum of the bytes"] = on_threads(np.sum, np.array_split(bits, bags.threads))
        pairs = zip(np.array_split(room, bags.threads), np.array_split(some, bags.threads), strict=True)
        works["copy"] = on_threads(lambda pair: np.copyto(*pair), list(pairs))
    minima = minimum_times(works, ROUNDS if stored is not None else 2)
    singles = timed(lambda: [bags.best(column) for column in weights.T]) if stored is not None else None
    resident = sum(part.n_rows for part in bags._store.parts if part.resident) / bags.n_windows
    size = bags.n_windows * DIM * 2
    return {
        "threads": bags.threads,
        "bytes": size,
        "open": seconds,
        "least": minima,
        "20 passes": singles,
        "resident": resident,
        "read rate": read_rate(folder) if resident < 1 else None,
        "peak": peak(),
    }


def training(folder: Path, memory: str | None) -> dict[str, Any]:
    """Train all classes together."""
    bags, seconds = opened(folder, memory)
    labels = np.load(folder / LABELS)
    problems = [LatentProblem(y, C=C, tol=GAP) for y in labels]
    before, read = dict(CountedBags.counted), bytes_read()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        wall, cpu = time.perf_counter(), time.process_time()
        solutions = fit_many(problems, bags)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    counted = {name: CountedBags.counted[name] - before[name] for name in before}
    return {
        "open": seconds,
        "wall": wall,
        "cpu": cpu,
        "counted": counted,
        "passes": counted["windows"] / bags.n_windows,
        "file bytes": bytes_read() - read,
        "gap": max(solution.gap for solution in solutions),
        "objective": float(np.mean([solution.objective for solution in solutions])),
        "outer": max(len(solution.history) for solution in solutions),
        "warnings": len(caught),
        "peak": peak(),
        "checksum": float(sum(np.abs(solution.coef).sum() for solution in solutions)),
    }


def peak() -> float:
    """Return the most memory of this process, bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage includes the peak of the parent
        return 1024.0 * int(status.read_text().split("VmHWM:")[1].split()[0])
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * (1 if sys.platform == "darwin" else 1024)


def bytes_read() -> int:
    """Return what this process has read from files, from the disk or the system's cache; 0 where nobody counts."""
    counts = Path("/proc/self/io")
    return int(counts.read_text().split()[1]) if counts.exists() else 0


# the page -------------------------------------------------------------------------------------------------------------


def in_own_process(folder: Path, part: str, memory: str | None) -> dict[str, Any]:
    """Run one measurement in a separate process."""
    command = [sys.executable, __file__, str(folder), "--part", part, *(["--memory", memory] if memory else [])]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def pass_rows(result: dict[str, Any], title: str) -> None:
    """Print the table of passes."""
    size, minima = result["bytes"], result["least"]
    print(f"\nPasses, {title}; opening took {result['open']:.1f} s, peak memory {result['peak'] / 1e9:.1f} GB.\n")
    print("| work | wall s | CPU s | GB/s | floor s | times the floor |\n|---|---|---|---|---|---|")
    rate = size / minima["sum of the bytes"][0] if "sum of the bytes" in minima else result["read rate"]
    left = size if "sum of the bytes" in minima else size * (1 - result["resident"])
    rows = {name: minima[name] for name in ("sum of the bytes", "one class", "20 classes") if name in minima}
    if result["20 passes"] is not None:
        rows["20 passes for one class"] = result["20 passes"]
    for name, (wall, cpu) in rows.items():
        floor = left / rate * (20 if "passes" in name else 1)
        print(f"| {name} | {wall:.3f} | {cpu:.3f} | {size / wall / 1e9:.1f} | {floor:.3f} | {wall / floor:.2f} |")
    if "copy" in minima:
        print(
            f"\nCopying runs at {size / 8 / minima['copy'][0] / 1e9:.1f} GB/s, each byte read once and written once.",
            end=" ",
        )
        share = minima["sum of the bytes"][0] / minima["one class"][0]
        print(f"A pass for one class runs at {share:.0%} of the sum's bandwidth.", end=" ")
    else:
        print(
            f"\nFiles are read at {rate / 1e9:.2f} GB/s; the floor is that of the {left / size:.0%} in files.", end=" "
        )
    print(f"20 classes take {minima['20 classes'][0] / minima['one class'][0]:.1f} times one.")


def training_row(result: dict[str, Any], title: str, single: float) -> str:
    """Return a row of the table of training; the floor is that of the passes."""
    floor = result["passes"] * single
    return (
        f"| {title} | {result['wall']:.1f} | {result['cpu']:.1f} | {result['passes']:.1f} "
        f"| {result['counted']['calls']} | {result['counted']['vectors']} | {result['file bytes'] / 1e9:.1f} "
        f"| {floor:.1f} | {result['peak'] / 1e9:.1f} | "
        f"{result['outer']} | {result['gap']:.1e} | {result['objective']:.6g} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--windows", type=int, default=10_000_000)
    parser.add_argument("--memory", help="the budget of the second half; default: 6/10 of the store")
    parser.add_argument("--part", choices=("passes", "training"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part:
        print(json.dumps((passes if given.part == "passes" else training)(given.folder, given.memory)))
        return
    n_pictures = given.windows // PER_PICTURE
    written = write_store(given.folder, n_pictures)
    size = n_pictures * PER_PICTURE * DIM * 2
    budget = given.memory or f"{int(0.6 * size)}"
    print(
        f"{n_pictures * PER_PICTURE:,} x {DIM} float16, {size / 1e9:.2f} GB, {n_pictures:,} pictures, "
        f"{CLASSES} classes; {written}."
    )
    all_in, less = in_own_process(given.folder, "passes", None), in_own_process(given.folder, "passes", budget)
    limit = f"{as_bytes(budget) / 1e9:.2f} GB"
    pass_rows(all_in, f"all in memory, {all_in['threads']} threads")
    pass_rows(less, f"a budget of {limit} ({less['resident']:.0%} stay in memory)")
    print(f"\nTraining of {CLASSES} classes together, C = {C:g}, to a gap of {GAP:g}.\n")
    head = (
        "wall s|CPU s|passes' worth|calls|vectors|GB from files|floor s|peak GB|CCCP steps|largest gap|mean objective"
    )
    print("| memory | " + " | ".join(head.split("|")) + " |\n|" + 12 * "---|")
    floors = all_in["least"]["sum of the bytes"][0], size * (1 - less["resident"]) / less["read rate"]
    rows = [in_own_process(given.folder, "training", memory) for memory in (None, budget)]
    for result, title, floor in zip(rows, ("all", limit), floors, strict=True):
        print(training_row(result, title, floor), flush=True)
    same = "the same" if rows[0]["checksum"] == rows[1]["checksum"] else "DIFFERENT"
    print(f"\nThe weights are {same}, bit for bit. {sum(row['warnings'] for row in rows)} warnings.")


if __name__ == "__main__":
    main()
