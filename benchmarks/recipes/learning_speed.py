"""How long a person who looks waits for new boxes: from every fifth verdict of a class to what it has learned.

    python benchmarks/recipes/learning_speed.py OUT RUN ... --verdicts 20

A person answers from true boxes as in `simulated_review`, without a pause, for copies in OUT of finished runs with
refinement, which are only read; OUT is on the same disk. The first time of a run includes reading its windows, which
the page begins with the first verdict. A mean in brackets is that of all later times of the class.
"""

import argparse
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

import numpy as np
from lapsvm.pipelines.results.known_boxes import known_boxes
from lapsvm.pipelines.review.learning import EVERY
from lapsvm.pipelines.review.session import ReviewSession
from lapsvm.pipelines.run.context import RunContext
from simulated_review import answer, copied

STEP = 0.01  # seconds between looks at whether the class has learned


def main() -> None:
    """Print a row for each class."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    parser.add_argument("--verdicts", type=int, default=20)
    parser.add_argument("--classes", type=lambda text: text.split(","), default=[])
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    print(
        "| run | class | pictures, windows | seconds from the fifth verdict | says at the end |\n|---|---|---|---|---|"
    )
    for run in given.runs:
        session = opened(copied(run, given.out / "run"), given.threads)
        for index in chosen(session, given.classes):
            seconds = list(learning_seconds(session, index, given.verdicts))
            later = f" [{fmean(seconds[1:]):.1f}]" if seconds[1:] else ""
            size = f"{len(session.ids)}, {session.shards.n_windows}"
            said = session.learning.state(index)
            times = f"{', '.join(f'{one:.1f}' for one in seconds)}{later}"
            ends = f"{session.figure(index)}; {said['learning']}; {said['advice']}"
            print(f"| {run} | {session.classes[index].name} | {size} | {times} | {ends} |", flush=True)
        session.learning.stop(60)


def opened(run: Path, threads: int) -> ReviewSession:
    """Return the review of a run, as the command opens it."""
    session = ReviewSession(RunContext.opened(run, "review", quiet=True, threads=threads))
    session.context.run.files.claim([session.context.run.verdicts_file])
    session.learn()
    return session


def chosen(session: ReviewSession, names: list[str]) -> list[int]:
    """Return the classes of some names; all without names."""
    return [index for index, one in enumerate(session.classes) if not names or one.name in names]


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


if __name__ == "__main__":
    main()
