"""How long a review takes to open a large set, to show a large picture, and to learn.

    python benchmarks/recipes/review_speed.py OUT --pictures 10000
    python benchmarks/recipes/review_speed.py OUT --learn RUN ... --verdicts 20

Makes a set of small drawn pictures and one JPEG picture of 20 megapixels in OUT, and a run on it; what is there stays.
Opening is all that a browser waits for before the first picture: the session, the classes, the queue, the boxes. The
minimum of wall seconds over the rounds counts, and CPU seconds beside it.

With --learn it is the seconds from every fifth verdict of a class to its new boxes, for copies in OUT of finished runs
with refinement, which are only read; OUT is on the same disk. A person answers from true boxes as in
`simulated_review`, without a pause, so the first time of a run includes reading its windows. The mean of the later
times of a class is in brackets.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import fmean

import numpy as np
from lapsvm.pipelines.commands.verbs import main as lapsvm
from lapsvm.pipelines.results.known_boxes import known_boxes
from lapsvm.pipelines.review.learning import EVERY
from lapsvm.pipelines.review.session import ReviewSession
from lapsvm.pipelines.run.context import RunContext
from PIL import Image
from simulated_review import answer, copied

LARGE = (5168, 3880)
STEP = 0.01  # seconds between looks at whether a class has learned
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


def learning_session(run: Path, threads: int) -> ReviewSession:
    """Return the review of a run, as the command opens it."""
    session = ReviewSession(RunContext.opened(run, "review", quiet=True, threads=threads))
    session.context.run.files.claim([session.context.run.verdicts_file])
    session.learn()
    return session


def learning_seconds(session: ReviewSession, index: int, count: int) -> Iterator[float]:
    """Say of `count` pictures of a class what is there, and yield the seconds after each that makes it learn."""
    one, rng = session.classes[index], np.random.default_rng(0)
    truth = known_boxes(session.context, session.context.settings.data.train_set).truth[one.name]
    for number, row in enumerate(one.rows[:count], start=1):
        item = session.item(index, row)
        kind, boxes = answer(np.array(item["candidates"]), truth[session.ids[row]].boxes, rng)
        began = time.perf_counter()
        session.record({"class": index, "n": row, "verdict": kind, "boxes": [list(box) for box in boxes]})
        if number % EVERY == 0:
            while session.learning.state(index)["busy"]:
                time.sleep(STEP)
            yield time.perf_counter() - began


def report_learning(out: Path, runs: Sequence[Path], count: int, threads: int) -> None:
    """Print a row for each class of some runs."""
    warnings.simplefilter("ignore")
    print(
        "| run | class | pictures, windows | seconds from the fifth verdict | says at the end |\n|---|---|---|---|---|"
    )
    for run in runs:
        session = learning_session(copied(run, out / "learning"), threads)
        for index, one in enumerate(session.classes):
            seconds = list(learning_seconds(session, index, count))
            later = f" [{fmean(seconds[1:]):.1f}]" if seconds[1:] else ""
            times = f"{', '.join(f'{one:.1f}' for one in seconds)}{later}"
            size, said = f"{len(session.ids)}, {session.shards.n_windows}", session.learning.state(index)
            ends = f"{session.figure(index)}; {said['learning']}; {said['advice']}"
            print(f"| {run} | {one.name} | {size} | {times} | {ends} |", flush=True)
        session.learning.stop(60)


def main() -> None:
    """Make the run where it is missing, and print the times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--pictures", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--learn", type=Path, nargs="+", metavar="RUN")
    parser.add_argument("--verdicts", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.learn:
        report_learning(given.out, given.learn, given.verdicts, given.threads)
        return
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
