"""The whole job at the size of VOC2007, rehearsed with pictures that are mixed from those that are there.

    python benchmarks/pictures/voc_rehearsal.py DATA OUT [--share 1] [--jobs 2] [--kill] [OPTIONS OF lapsvm run]
    python benchmarks/pictures/voc_rehearsal.py DATA OUT --lose-workers --again --executor dask --jobs 2

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
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from xml.sax.saxutils import escape

import numpy as np
import psutil
from PIL import Image

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


def main() -> None:
    """Make the pictures, run the job, print the table."""
    given = _arguments()
    root, run = given.out / "voc", given.out / "RUN"
    write_pictures(given.data, root, given.share)
    command = [sys.executable, "-m", "lapsvm", "run", "--data", "voc", "--root", str(root), "--out", str(run)]
    command += ["--jobs", str(given.jobs), *given.options]
    stops = [run / "shards", run / "first"] if given.kill else []
    losses = [run / "shards", run / "training", run / "first"] if given.lose_workers else []
    peak, wall = 0, 0.0
    for stop in [*stops, None]:
        used, seconds = watched(command, [] if stop is None else [stop], losses)
        peak, wall = max(peak, used), wall + seconds
    print(table(run, peak, wall))
    if given.again:
        print(again(run, given.out / "AGAIN"))


def _arguments() -> Namespace:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--share", type=float, default=1.0, help="of the pictures of each set")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--kill", action="store_true", help="kill the run twice, and go on")
    parser.add_argument("--lose-workers", action="store_true", help="kill a worker process in each stage that has some")
    parser.add_argument("--again", action="store_true", help="make parts of the run again without workers, and compare")
    given, given.options = parser.parse_known_args()
    return given


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


def _boxes(folder: Path) -> Iterator[tuple[str, list[tuple[str, list[str]]]]]:
    """Yield id, [(class, corners)] of the text files."""
    for file in ("voc2007.txt", "voc2007test.txt"):
        for line in (folder / file).read_text().splitlines():
            name, *numbers = line.split()
            objects = [(CLASSES[int(numbers[i + 4])], numbers[i : i + 4]) for i in range(0, len(numbers), 5)]
            yield name.removesuffix(".jpg"), objects


def _write_picture(root: Path, one: str, real: Path, sources: list[Path], objects: list[tuple[str, list[str]]]) -> None:
    target = root / "JPEGImages" / f"{one}.jpg"
    if not target.is_file() and (real / target.name).is_file():
        shutil.copyfile(real / target.name, target)
    elif not target.is_file():
        mixture(int(one), sources, _size(objects)).save(target, quality=92)
    with Image.open(target) as picture:
        width, height = picture.size
    parts = "".join(
        f"<object><name>{escape(name)}</name><difficult>0</difficult><bndbox>"
        + "".join(f"<{key}>{value}</{key}>" for key, value in zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True))
        + "</bndbox></object>"
        for name, box in objects
    )
    size = f"<size><width>{width}</width><height>{height}</height><depth>3</depth></size>"
    (root / "Annotations" / f"{one}.xml").write_text(f"<annotation>{size}{parts}</annotation>\n")


def _size(objects: list[tuple[str, list[str]]]) -> tuple[int, int]:
    """Return the usual width and height that hold the objects."""
    right, bottom = (max((int(box[axis]) for _, box in objects), default=0) for axis in (2, 3))
    return (LONG if right > SHORT or bottom <= SHORT else SHORT), (LONG if bottom > SHORT else SHORT)


def mixture(seed: int, sources: list[Path], size: tuple[int, int]) -> Image.Image:
    """Return a mixture of two mirrored crops of pictures."""
    rng = np.random.default_rng(seed)
    first, second = (_crop(sources[index], size, rng) for index in rng.integers(len(sources), size=2))
    return Image.blend(second, first, SHOWN)


def _crop(file: Path, size: tuple[int, int], rng: np.random.Generator) -> Image.Image:
    with Image.open(file) as picture:
        left, top = (rng.uniform(0, 0.3) * side for side in picture.size)
        part = picture.convert("RGB").resize(
            size, box=(left, top, left + 0.7 * picture.width, top + 0.7 * picture.height)
        )
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
        raise SystemExit(f"the run ended with status {process.returncode}")
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
    return (
        f"{len(made)} files, {len(shards[::10])} of them shards, were made again in one process; different: {different}"
    )


def table(run: Path, peak: int, wall: float) -> str:
    """Return the seconds of each stage, the peak of memory, and the bytes on disk."""
    timings = json.loads((run / "timings.json").read_text())
    lines = ["| stage | wall s | CPU s |", "|---|---|---|"]
    lines += [f"| {name} | {one['seconds']:,.0f} | {one['cpu_seconds']:,.0f} |" for name, one in timings.items()]
    disk = {part: size_of(run / part) / 1e9 for part in ("shards", "models", "detections", "page")}
    places = ", ".join(f"{part} {size:.2f} GB" for part, size in disk.items())
    return "\n".join([*lines, f"all: {wall:,.0f} s; peak memory {peak / 1e9:.1f} GB; {places}"])


def size_of(folder: Path) -> int:
    """Return the bytes of the files of a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


if __name__ == "__main__":
    main()
