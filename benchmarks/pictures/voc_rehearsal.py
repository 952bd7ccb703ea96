"""The whole job at the size of VOC2007, rehearsed with pictures that are mixed from those that are there.

    python benchmarks/pictures/voc_rehearsal.py DATA OUT [--share 1] [--jobs 2] [--kill] [-- OPTIONS OF lapsvm run]
    python benchmarks/pictures/voc_rehearsal.py DATA OUT --lose-workers --again --jobs 2 -- --executor dask

DATA holds ``voc2007_text`` (the official lists and boxes) and ``voc2007_vehicles_cat`` (some of the pictures). Pictures
that are not there become mixtures of mirrored crops of those that are, under the official ids, with the official
labels and boxes. AP of such pictures means nothing, and none is printed: only time, memory and disk. With --share .1
every tenth picture of each set takes part. With --kill the process is killed twice, in extraction and in refinement,
and goes on by the same command. With --lose-workers one worker process is killed in extraction, in training and in
refinement. With --again a copy of the run without every tenth shard, all models and all detections makes these again
in one process, and says which files differ.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Annotated

import numpy as np
import psutil
from lapsvm.datasets.voc_writer import annotation
from lapsvm.pipelines.cli.study import Given, Into, print_table, study_command
from PIL import Image

from lapsvm.annotations.voc import VocObject
from lapsvm.errors import StageError

CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow",
    "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
SETS = ("trainval", "test")
LONG, SHORT = 500, 375  # pixels of most pictures of VOC2007
SHOWN = 0.7  # of the first picture of a mixture
EVERY = 0.5  # seconds between two looks at memory and files
LATER = 10.0  # seconds from a stage's first file until something is killed
MADE = ("first", "folds", "models", "heldout", "detections")  # parts of a run that depend on all shards


@study_command
def main(
    data: Path,
    out: Path,
    options: Annotated[list[str] | None, Given(help="Those of lapsvm run, after --.", is_argument=True)] = None,
    share: Annotated[float, Given(help="Of the pictures of each set.")] = 1.0,
    jobs: int = os.cpu_count() or 1,
    kill: Annotated[bool, Given("--kill", help="Kill the run twice, and go on.")] = False,
    lose_workers: Annotated[bool, Given("--lose-workers", help="Kill a worker in stages with some.")] = False,
    repeat: Annotated[bool, Given("--again", help="Make parts again without workers, and compare.")] = False,
    into: Into = None,
) -> None:
    """Make the pictures, run the job, print the table."""
    root, run = out / "voc", out / "RUN"
    write_pictures(data, root, share)
    command = [sys.executable, "-m", "lapsvm", "run", "--data", "voc", "--root", str(root), "--out", str(run)]
    command += ["--jobs", str(jobs), *(options or ())]
    stops = [run / "shards", run / "first"] if kill else []
    losses = [run / "shards", run / "training", run / "first"] if lose_workers else []
    peak, wall = 0, 0.0
    for stop in [*stops, None]:
        used, seconds = watched(command, [] if stop is None else [stop], losses)
        peak, wall = max(peak, used), wall + seconds
    print_times(run, peak, wall, into)
    if repeat:
        print(again(run, out / "AGAIN"))


def write_pictures(data: Path, root: Path, share: float) -> None:
    """Write the data set in VOC layout, without pictures that are there already."""
    real, boxes = data / "voc2007_vehicles_cat" / "JPEGImages", dict(_boxes(data / "voc2007_text"))
    sources = sorted(real.glob("*.jpg"))
    lists = data / "voc2007_text" / "ImageSets" / "Main"
    for folder in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for name in SETS:
        ids = _thinned((lists / f"{name}.txt").read_text().split(), share)
        (root / "ImageSets/Main" / f"{name}.txt").write_text("".join(f"{one}\n" for one in ids))
        for of_class in CLASSES:
            lines = (lists / f"{of_class}_{name}.txt").read_text().splitlines()
            kept = [line for line in lines if line.split()[0] in set(ids)]
            (root / "ImageSets/Main" / f"{of_class}_{name}.txt").write_text("".join(f"{line}\n" for line in kept))
        for one in ids:
            _write_picture(root, one, real, sources, boxes.get(one, []))


def _thinned(ids: list[str], share: float) -> list[str]:
    return [ids[index] for index in np.linspace(0, len(ids) - 1, max(2, round(share * len(ids)))).astype(int)]


def _boxes(folder: Path) -> Iterator[tuple[str, list[VocObject]]]:
    """Yield the id and the objects of each picture in the text files."""
    for file in ("voc2007.txt", "voc2007test.txt"):
        for line in (folder / file).read_text().splitlines():
            name, *words = line.split()
            objects = np.array(words, dtype=int).reshape(-1, 5).tolist()
            yield name.removesuffix(".jpg"), [VocObject(CLASSES[number], box, False) for *box, number in objects]


def _write_picture(root: Path, one: str, real: Path, sources: list[Path], objects: list[VocObject]) -> None:
    target = root / "JPEGImages" / f"{one}.jpg"
    if not target.is_file() and (real / target.name).is_file():
        shutil.copyfile(real / target.name, target)
    elif not target.is_file():
        mixture(int(one), sources, _size(objects)).save(target, quality=92)
    with Image.open(target) as picture:
        width, height = picture.size
    (root / "Annotations" / f"{one}.xml").write_text(annotation(one, (height, width), objects), encoding="utf-8")


def _size(objects: list[VocObject]) -> tuple[int, int]:
    """Return the usual width and height that hold the objects."""
    right, bottom = (max((item.corners[axis] for item in objects), default=0) for axis in (2, 3))
    return (LONG if right > SHORT or bottom <= SHORT else SHORT), (LONG if bottom > SHORT else SHORT)


def mixture(seed: int, sources: list[Path], size: tuple[int, int]) -> Image.Image:
    """Return a mixture of two mirrored crops of pictures."""
    rng = np.random.default_rng(seed)
    first, second = (_crop(sources[index], size, rng) for index in rng.integers(len(sources), size=2))
    return Image.blend(second, first, SHOWN)


def _crop(file: Path, size: tuple[int, int], rng: np.random.Generator) -> Image.Image:
    with Image.open(file) as picture:
        left, top = (rng.uniform(0, 0.3) * side for side in picture.size)
        right, bottom = left + 0.7 * picture.width, top + 0.7 * picture.height
        part = picture.convert("RGB").resize(size, box=(left, top, right, bottom))
    return part.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if rng.random() < 0.5 else part


def watched(command: list[str], stops: list[Path], losses: list[Path]) -> tuple[int, float]:
    """Run a command; return the peak memory of its processes together, and its wall time.

    Some seconds after a file appears in a folder of `stops` the command is killed, in one of `losses` a worker.
    """
    start, ended = time.perf_counter(), Event()
    with subprocess.Popen(command) as process:
        own = psutil.Process(process.pid)
        killers = [Thread(target=_kill_after, args=(lambda: own, stop, ended)) for stop in stops]
        killers += [Thread(target=_kill_after, args=(lambda: _worker(own), loss, ended)) for loss in losses]
        for killer in killers:
            killer.start()
        peak = 0
        while process.poll() is None:
            peak = max(peak, _memory(own))
            time.sleep(EVERY)
        ended.set()
        for killer in killers:
            killer.join()
    if process.returncode not in (0, -signal.SIGKILL):
        raise StageError(f"the run ended with status {process.returncode}.")
    return peak, time.perf_counter() - start


def _kill_after(wanted: Callable[[], psutil.Process], sign: Path, ended: Event) -> None:
    while not ended.wait(EVERY):
        if any(file.is_file() for file in sign.rglob("*")) and not ended.wait(LATER):
            wanted().kill()
            return


def _worker(own: psutil.Process) -> psutil.Process:
    """Return the first process of a worker; Dask starts them by multiprocessing."""
    return next(child for child in own.children() if "spawn_main" in " ".join(child.cmdline()))


def _memory(own: psutil.Process) -> int:
    """Return the bytes of a process and of those that it started; pages of files in memory count."""
    total = 0
    with suppress(psutil.Error):
        for one in [own, *own.children(recursive=True)]:
            total += one.memory_info().rss
    return total


def again(run: Path, copy: Path) -> str:
    """Make a tenth of the shards, the models and the detections once more in this run's copy; return what differs."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(run, copy, copy_function=os.link, ignore=shutil.ignore_patterns(".lock"))
    shards = sorted((copy / "shards").rglob("*.safetensors"))
    made = [*shards[::10], *(file for part in MADE for file in (copy / part).rglob("*") if file.is_file())]
    for file in made:
        file.unlink()
    subprocess.run([sys.executable, "-m", "lapsvm", "run", "--out", str(copy), "--quiet"], check=True)
    names = [file.relative_to(copy) for file in made]
    different = [str(name) for name in names if (copy / name).read_bytes() != (run / name).read_bytes()]
    counts = f"{len(made)} files, {len(shards[::10])} of them shards"
    return f"{counts}, were made again in one process; different: {different}"


def print_times(run: Path, peak: int, wall: float, into: Path | None) -> None:
    """Print the seconds of each stage, the peak of memory, and the bytes on disk."""
    timings = json.loads((run / "timings.json").read_text())
    rows = ([name, f"{one['seconds']:,.0f}", f"{one['cpu_seconds']:,.0f}"] for name, one in timings.items())
    print_table(["stage", "wall s", "CPU s"], rows, into)
    disk = {part: size_of(run / part) / 1e9 for part in ("shards", "models", "detections", "page")}
    places = ", ".join(f"{part} {size:.2f} GB" for part, size in disk.items())
    print(f"all: {wall:,.0f} s; peak memory {peak / 1e9:.1f} GB; {places}")


def size_of(folder: Path) -> int:
    """Return the bytes of the files of a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


if __name__ == "__main__":
    main()
