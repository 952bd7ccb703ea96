"""Where the time of a run goes: pictures to page with the recipe ``best``, stage by stage and part by part.

    python benchmarks/pictures/whole_run.py [--pictures 300] [--jobs 2] [--out DIR] [--extractor TEXT]

Photograph-like pictures of 640 x 480 are generated: clouds with structure at every scale, and one or two striped shapes
whose kind is the label. Three classes, two thirds of the pictures in trainval and one in test.

Printed are wall and CPU seconds of each stage, the seconds in which at most one thread of the process ran, which more
cores do not shorten (sampled, on Linux), and the CPU seconds of each part of extraction: those of the thread that
runs it, so other programs hardly change them. The floor is the parts of extraction that other libraries do (forward
passes, decoding), and for the stages after it the time in which the bytes that they read can be summed: all passes of
training, the windows once for each class and round in refinement, and once in detection.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Lock, Thread, get_ident, get_native_id
from time import perf_counter, process_time, thread_time
from typing import Any

import cv2
import numpy as np
from lapsvm.pipelines.cli.study import Into, print_table, study_command
from PIL import Image

HEIGHT, WIDTH = 480, 640
CLASSES = ("disc", "box", "wedge")
STAGES = ("extract", "train", "refine", "detect", "evaluate", "report")
EXTRACTOR = "efficientnet_lite0"
ROUNDS = 2  # of refinement in recipe best
TITLES = ("stage", "wall s", "one thread, s", "CPU s", "CPU s a picture", "times the floor")
SAMPLED = 0.01  # s between two looks at the threads


def clouds(rng: np.random.Generator) -> np.ndarray:
    """Return noise with the spectrum of photographs, (h, w, 3) in 0..1."""
    total = np.zeros((HEIGHT, WIDTH, 3), np.float32)
    for octave in range(8):
        coarse = rng.normal(0, 1, (max(2, 480 >> (7 - octave)), max(2, 640 >> (7 - octave)), 3)).astype(np.float32)
        coarse = 0.7 * coarse.mean(axis=2, keepdims=True) + 0.3 * coarse
        total += cv2.resize(coarse, (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC) * 0.6**octave
    return np.clip(0.5 + 0.22 * total, 0, 1)


def shape_mask(kind: str, rng: np.random.Generator) -> np.ndarray:
    """Return the mask (h, w) of a shape at a random place."""
    mask, side = np.zeros((HEIGHT, WIDTH), np.uint8), int(rng.integers(80, 220))
    x, y = int(rng.integers(0, WIDTH - side)), int(rng.integers(0, HEIGHT - side))
    if kind == "disc":
        cv2.circle(mask, (x + side // 2, y + side // 2), side // 2, 1, -1)
    elif kind == "box":
        cv2.rectangle(mask, (x, y), (x + side, y + side), 1, -1)
    else:
        cv2.fillPoly(mask, [np.array([[x, y + side], [x + side, y + side], [x + side // 2, y]])], 1)
    return mask


def photograph(kind: str, rng: np.random.Generator) -> np.ndarray:
    """Return a picture with one or two shapes of a kind, uint8."""
    picture = clouds(rng)
    for _ in range(rng.integers(1, 3)):
        mask, colour = shape_mask(kind, rng)[:, :, None], rng.uniform(0, 1, 3)
        stripes = 0.5 + 0.5 * np.sin(np.arange(WIDTH) * rng.uniform(0.05, 0.5))[None, :, None]
        picture = np.where(mask, 0.3 * clouds(rng) + 0.7 * colour * stripes, picture)
    return (255 * np.clip(picture, 0, 1)).astype(np.uint8)


def write_pictures(root: Path, count: int) -> None:
    """Write the data set as a folder per set and class."""
    for number in range(count):
        kind, part = CLASSES[number % len(CLASSES)], "test" if number // len(CLASSES) % 3 == 2 else "trainval"
        folder = root / part / kind
        folder.mkdir(parents=True, exist_ok=True)
        pixels = photograph(kind, np.random.default_rng(number))
        Image.fromarray(pixels).save(folder / f"{number:04}.jpg", quality=92)


class PartTimes:
    """CPU and wall seconds of functions, summed over threads; what a timed function calls is its own part."""

    def __init__(self) -> None:
        self.cpu, self.calls, self._lock = Counter[str](), Counter[str](), Lock()
        self._inner: dict[int, list[float]] = {}

    def patch(self, owner: Any, name: str, part: str) -> None:
        """Replace a function of a module or class by one that is timed."""
        setattr(owner, name, self.timed(getattr(owner, name), part))

    def timed(self, work: Callable[..., Any], part: str) -> Callable[..., Any]:
        """Return a function whose own CPU time is added to a part."""

        def run(*arguments: Any, **options: Any) -> Any:
            stack = self._inner.setdefault(get_ident(), [])
            stack.append(0.0)
            start = thread_time()
            try:
                return work(*arguments, **options)
            finally:
                spent = thread_time() - start
                own = spent - stack.pop()
                if stack:
                    stack[-1] += spent
                with self._lock:
                    self.cpu[part] += own
                    self.calls[part] += 1

        return run


def patch_parts(times: PartTimes) -> None:
    """Time the parts of extraction."""
    from lapsvm.pipelines.products import projection as fitting
    from lapsvm.pipelines.shards import extraction, jobs

    from lapsvm.detection import prepared
    from lapsvm.features.extractors.maps.prepared import PreparedMaps
    from lapsvm.features.extractors.networks import RuntimeNetwork
    from lapsvm.features.extractors.pooled_network import PooledNetwork
    from lapsvm.windows import proposals

    times.patch(extraction, "pixels_unless_bad", "decode")
    times.patch(prepared, "reduced", "reduce")
    times.patch(proposals, "reduced", "reduce")
    times.patch(extraction, "window_boxes", "proposals")
    times.patch(extraction, "pixel_hash", "hash")
    times.patch(RuntimeNetwork, "run", "forward")
    times.patch(PooledNetwork, "_batch", "resize")
    times.patch(PooledNetwork, "feature_maps", "maps")
    times.patch(PreparedMaps, "__call__", "pooling, sample")
    times.patch(PreparedMaps, "project", "pooling")
    times.patch(jobs, "assemble_shard", "writing")
    times.patch(jobs, "write_shard", "writing")
    times.patch(fitting, "fit_projection", "components")


@contextmanager
def serial_time() -> Iterator[list[float]]:
    """Yield a list, which has the seconds in which at most one other thread ran when the block ends."""
    stop, found = Event(), [0.0]

    def sample() -> None:
        me, last = str(get_native_id()), perf_counter()
        while not stop.wait(SAMPLED):
            seconds, last = perf_counter() - last, perf_counter()
            found[0] += seconds * (running_threads(me) <= 1)

    sampler = Thread(target=sample, daemon=True)
    sampler.start()
    try:
        yield found
    finally:
        stop.set()
        sampler.join()


def running_threads(me: str) -> int:
    """Return how many threads of the process run, without one."""
    count = 0
    for file in Path("/proc/self/task").glob("*/stat"):
        with suppress(OSError):  # a thread that has ended
            count += file.parent.name != me and file.read_text().rpartition(")")[2].split()[0] == "R"
    return count


def run_stage(name: str, out: Path, root: Path, jobs: int, extractor: str) -> tuple[float, float, float]:
    """Run one stage of the command line; return its wall seconds, those of one thread, and its CPU seconds."""
    from lapsvm.pipelines.commands.entry import main as lapsvm

    words = ["lapsvm", name, "--out", str(out), "--quiet"]
    if name == "extract":
        words += ["--data", "folder", "--root", str(root), "--extractor", extractor, "--recipe", "best"]
    if name in ("extract", "train", "refine", "detect"):
        words += ["--jobs", str(jobs)]
    sys.argv = words
    wall, cpu = perf_counter(), process_time()
    with serial_time() as serial:
        try:
            lapsvm()
        except SystemExit as stop:
            if stop.code:
                raise
    return perf_counter() - wall, serial[0], process_time() - cpu


def summing_seconds() -> float:
    """Return the CPU seconds of a sum of one gigabyte in memory."""
    numbers = np.ones(2**27, np.uint64)
    start = process_time()
    for _ in range(3):
        numbers.sum()
    return (process_time() - start) / (3 * numbers.nbytes / 1e9)


def floors_of(run: Path, parts: Counter[str]) -> dict[str, float]:
    """Return the CPU seconds of each stage's floor."""
    timings = json.loads((run / "timings.json").read_text())
    shards = sum(file.stat().st_size for file in (run / "shards").rglob("*.safetensors"))
    read = {"train": timings.get("train", {}).get("bytes_read", 0), "detect": shards}
    read["refine"] = ROUNDS * len(CLASSES) * shards
    per_byte = summing_seconds() / 1e9
    return {"extract": parts["forward"] + parts["decode"]} | {name: per_byte * size for name, size in read.items()}


def stage_rows(folder: Path, n: int, jobs: int, extractor: str, parts: Counter[str]) -> Iterator[list[str]]:
    """Run all stages, then yield the row of each, and their sums."""
    spent = {name: run_stage(name, folder / "run", folder / "pictures", jobs, extractor) for name in STAGES}
    floors = floors_of(folder / "run", parts)
    for name, (wall, serial, cpu) in {**spent, "all": np.sum([*spent.values()], axis=0)}.items():
        ratio = f"{cpu / floors[name]:.1f}" if floors.get(name) else ""
        yield [name, f"{wall:.1f}", f"{serial:.1f}", f"{cpu:.1f}", f"{cpu / n:.3f}", ratio]


@study_command
def main(
    pictures: int = 300, jobs: int = os.cpu_count() or 1, out: Path | None = None, extractor: str = EXTRACTOR,
    into: Into = None,
) -> None:  # fmt: skip
    """Run all stages on generated pictures, in a temporary folder or in the new folder --out."""
    with TemporaryDirectory() as temporary:
        folder, times = out or Path(temporary), PartTimes()
        write_pictures(folder / "pictures", pictures)
        patch_parts(times)
        print(f"load {os.getloadavg()[0]:.1f}, {pictures} pictures, {jobs} jobs")
        print_table(TITLES, stage_rows(folder, pictures, jobs, extractor, times.cpu), into)
    print()
    rows = ([part, times.calls[part], f"{used:.1f}", used / pictures] for part, used in times.cpu.most_common())
    print_table(["part", "calls", "CPU s", "CPU s a picture"], rows)


if __name__ == "__main__":
    main()
