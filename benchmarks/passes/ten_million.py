"""Training over ten million windows of a store on disk, in memory and with less memory than it takes.

    python benchmarks/passes/ten_million.py FOLDER [--windows 10000000] [--memory 500M]

FOLDER gets shards of 512 float16 features in pictures of 2,000 windows, drawn once (10 GB, some minutes) and kept. 20
classes are planted, each in 5 % of the pictures. Each row trains all classes together in a process of its own, and
reports its peak of memory; the second one has --memory, by default 6 tenths of the store. How one pass grows beside the
bytes that it reads is measured by `growth.py`.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from lapsvm.pipelines.cli.study import Cell, Given, print_table, study_command

from lapsvm.arrays import Array, Float64
from lapsvm.bags import Bags
from lapsvm.features import PictureWindows, assemble_shard, open_shards, shard_name, write_shard
from lapsvm.latent import LatentProblem, PassCounts, fit_many

DIM, PER_PICTURE, PER_SHARD, CLASSES, SHARE = 512, 2000, 50, 20, 0.05
SHIFT, SHIFTED, SHARED = 9.0, 3, 0.5  # of a class's windows, their number in a picture, what all its windows share
SET, C, GAP = "trainval", 100.0, 1e-3
TITLES = "memory|wall s|CPU s|passes|GB read by passes|calls on candidates|peak GB|largest gap|same weights"


def planted(n_pictures: int) -> tuple[Array, Float64]:
    """Return the labels (classes, pictures) and the classes' directions (classes, d), unit vectors."""
    rng = np.random.default_rng(0)
    labels = np.where(rng.random((CLASSES, n_pictures)) < SHARE, 1, -1)
    labels[:, :2] = [1, -1]
    directions = rng.standard_normal((CLASSES, DIM))
    return labels, directions / np.linalg.norm(directions, axis=1, keepdims=True)


def picture(number: int, labels: Array, directions: Float64) -> PictureWindows:
    """Draw the windows of one picture."""
    rng = np.random.default_rng([1, number])
    features = rng.standard_normal((PER_PICTURE, DIM), dtype=np.float32)
    features += SHARED * rng.standard_normal(DIM, dtype=np.float32)
    for name in np.flatnonzero(labels[:, number] > 0):
        features[rng.integers(1, PER_PICTURE, SHIFTED)] += np.float32(SHIFT) * directions[name].astype(np.float32)
    boxes = np.tile(np.float32([0, 0, 9, 9]), (PER_PICTURE, 1))
    return PictureWindows(f"{number:06d}", boxes, features.astype(np.float16), f"{number:064x}", (9, 9))


def write_store(folder: Path, n_pictures: int) -> None:
    """Write the shards that are not there yet."""
    shards, drawn = folder / "shards" / SET, planted(n_pictures)
    shards.mkdir(parents=True, exist_ok=True)

    def write(first: int) -> None:
        path = shards / shard_name(first // PER_SHARD)
        if not path.exists():
            pictures = [picture(number, *drawn) for number in range(first, min(first + PER_SHARD, n_pictures))]
            write_shard(path, assemble_shard(pictures, {"pictures": n_pictures, "planted": [SHIFT, SHIFTED, SHARED]}))

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(pool.map(write, range(0, n_pictures, PER_SHARD)))
    if (stored := open_shards(shards).n_images) != n_pictures:
        raise SystemExit(f"{folder} holds {stored} pictures; give another folder for {n_pictures}.")


def trained(folder: Path, n_pictures: int, memory: str | None) -> dict[str, Any]:
    """Train all classes together; return what it took."""
    bags, counts = Bags.open(folder, SET, memory=memory), PassCounts()
    scaled = bags.scaled(1 / bags.mean_norm())
    problems = [LatentProblem(y, C=C, tol=GAP) for y in planted(n_pictures)[0]]
    wall, cpu = time.perf_counter(), time.process_time()
    solutions = fit_many(problems, scaled, pass_counts=counts)
    return {
        "cells": [f"{time.perf_counter() - wall:.1f}", f"{time.process_time() - cpu:.1f}", counts.passes,
                  f"{counts.bytes_read / 1e9:.2f}", counts.candidate_calls, f"{peak() / 1e9:.2f}",
                  f"{max(solution.gap for solution in solutions):.1e}"],
        "weights": [float(np.abs(solution.coef).sum()) for solution in solutions],
    }  # fmt: skip


def peak() -> float:
    """Return the most bytes of memory of this process; getrusage would include its parent's."""
    return 1024.0 * int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])


def rows(folder: Path, n_pictures: int, limits: dict[str, str | None]) -> Iterator[list[Cell]]:
    """Yield the row of each limit of memory, trained in a process of its own."""
    first: list[float] = []
    for title, memory in limits.items():
        words = [str(folder), "--windows", str(n_pictures * PER_PICTURE), "--part"]
        words += ["--memory", memory] if memory else []
        done = subprocess.run([sys.executable, __file__, *words], check=True, stdout=subprocess.PIPE, text=True)
        found = json.loads(done.stdout)
        first = first or found["weights"]
        yield [title, *found["cells"], "yes" if found["weights"] == first else "no"]


@study_command
def main(
    folder: Annotated[Path | None, Given(help="The store; by default temporary.", is_argument=True)] = None,
    windows: int = 10_000_000,
    memory: Annotated[str | None, Given(help="The budget of the second row.")] = None,
    part: Annotated[bool, Given("--part", help="Train once, and print JSON.")] = False,
    quick: Annotated[bool, Given("--quick", help="10 pictures.")] = False,
) -> None:
    """Train over a store on disk."""
    n_pictures = 10 if quick else windows // PER_PICTURE
    with tempfile.TemporaryDirectory() as temporary:
        place = folder or Path(temporary)
        if part:
            print(json.dumps(trained(place, n_pictures, memory)))
            return
        write_store(place, n_pictures)
        size = n_pictures * PER_PICTURE * DIM * 2
        limits = {"all": None, f"of {size / 1e9:.2f} GB, less": memory or str(int(0.6 * size))}
        print_table(TITLES.split("|"), rows(place, n_pictures, limits))


if __name__ == "__main__":
    main()
