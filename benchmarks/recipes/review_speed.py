"""How long a review takes to open a large set, and to show a large picture.

    python benchmarks/recipes/review_speed.py OUT --pictures 10000

Makes a set of small drawn pictures and one JPEG picture of 20 megapixels in OUT, and a run on it; what is there stays.
Opening is all that a browser waits for before the first picture: the session, the classes, the queue, the boxes. The
minimum of wall seconds over the rounds counts, and CPU seconds beside it.
"""

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
from lapsvm.pipelines.commands.verbs import main as lapsvm
from lapsvm.pipelines.review.session import ReviewSession
from lapsvm.pipelines.run.context import RunContext
from PIL import Image

LARGE = (5168, 3880)
WINDOWS = ["--windows", "grid", "--max-windows", "20", "--extractor", "hog"]
RUN = [*WINDOWS, "--recipe", "plain", "--C", "1", "--folds", "2", "--set", "train.tol=0.3"]


def write_pictures(root: Path, count: int) -> None:
    """Write `count` small pictures of two classes, and a large one of the first."""
    rng = np.random.default_rng(0)
    for name in ("bright", "dark"):
        (root / name).mkdir(parents=True)
    for number in range(count):
        name = ("bright", "dark")[number % 2]
        pixels = rng.integers(0, 255, (6, 8, 3)) // (1 + number % 2)
        picture = Image.fromarray(pixels.astype(np.uint8)).resize((80, 60))
        picture.save(root / name / f"{number:06d}.jpg")
    scene = Image.fromarray(rng.integers(0, 255, (485, 646, 3)).astype(np.uint8)).resize(LARGE)
    grain = rng.normal(0, 8, (LARGE[1], LARGE[0], 1))
    Image.fromarray(np.clip(np.asarray(scene) + grain, 0, 255).astype(np.uint8)).save(root / "bright" / "large.jpg")


def opened(run: Path) -> ReviewSession:
    """Return a session after what a browser asks before the first picture."""
    session = ReviewSession(RunContext.opened(run, "review", quiet=True))
    session.overview()
    session.item(0, session.queue(0)[0]["n"])
    return session


def report(name: str, work: Callable[[], object], rounds: int) -> None:
    """Print the minimum times of some work."""
    times = []
    for _ in range(rounds):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        times.append((time.perf_counter() - wall, time.process_time() - cpu))
    print(f"{name}: {min(wall for wall, _ in times):.3f} s, CPU {min(cpu for _, cpu in times):.3f} s", flush=True)


def main() -> None:
    """Make the run where it is missing, and print the times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--pictures", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    root, run = given.out / "pictures", given.out / "run"
    if not root.exists():
        write_pictures(root, given.pictures)
    if not (run / "evaluation.json").exists():
        with suppress(SystemExit):
            lapsvm(["run", "--data", "folder", "--root", str(root), "--out", str(run), "--quiet", *RUN])
    session = opened(run)
    large = next(row for row, name in enumerate(session.ids) if name.endswith("large"))
    report(f"open {len(session.ids):,} pictures", lambda: opened(run), given.rounds)
    report(f"show {LARGE[0]} x {LARGE[1]}", lambda: session.image.__wrapped__(large), given.rounds)


if __name__ == "__main__":
    sys.exit(main())
