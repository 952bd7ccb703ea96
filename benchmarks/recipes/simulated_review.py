"""A simulated person reviews finished runs, which then use the verdicts: right boxes held out, in whole runs.

The person answers from true boxes: takes the first candidate with an IoU of at least .6 with an object, draws the
largest object where there is none, and is wrong once in twenty (takes the first box, or none if that is right). Each
class has so many verdicts on random pictures. A copy of the run is then refined and detected again as a user's would
be; CorLoc is that of held-out boxes, in all pictures that show the class and in those without a verdict.

    python benchmarks/recipes/simulated_review.py OUT RUN ... --verdicts 5,20,all --seeds 0,1,2
    python benchmarks/recipes/simulated_review.py OUT RUN ... --verdicts 10% --orders random,agreement

RUNS are finished, with shards and boxes of their training pictures, and are only read; OUT is a folder on the same
disk. Every class, number and seed is a line of OUT/results.jsonl, which a rerun keeps and the table is made of. A
number may be a share of a class's pictures. With the order "agreement" the second half of a class's verdicts is on
those pictures where held-out and final boxes agree least.
"""

import itertools
import json
import math
import os
import shutil
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import numpy as np
from lapsvm.pipelines.annotations.known_boxes import BoxSource, known_boxes
from lapsvm.pipelines.cli.parsing import split_names
from lapsvm.pipelines.cli.study import Cell, Given, print_table, study_command
from lapsvm.pipelines.context import RunContext
from lapsvm.pipelines.products.held_out import read_held_out
from lapsvm.pipelines.review.session import ReviewSession, random_order
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.run.progress import Reporter
from lapsvm.pipelines.stages.registry import run_stage
from lapsvm.pipelines.verdicts.verdict import Verdict, append_verdicts
from variants import read_results

from lapsvm.boxes import areas, iou

ACCEPTED, MISTAKES = 0.6, 0.05
LOSS = 0.02
ALL = "all"
Count = int | str
RANDOM, AGREEMENT = "random", "agreement"
STAGES = ("refine", "detect", "evaluate")


@study_command
def main(
    out: Path,
    runs: Annotated[list[Path], Given(metavar="RUN", is_argument=True)],
    verdicts: Annotated[str, Given(help="Numbers a class, shares as 10%, all; separated by commas.")] = "20",
    seeds: Annotated[str, Given(help="Numbers, separated by commas.")] = "0",
    orders: Annotated[str, Given(help="random, agreement")] = RANDOM,
    threads: int = 1,
) -> None:
    """Review and refine what is missing, then print the table."""
    warnings.simplefilter("ignore")
    out.mkdir(parents=True, exist_ok=True)
    results = out / "results.jsonl"
    numbers = split_names("option --verdicts", verdicts)
    counts = [one if one == ALL or one.endswith("%") else int(one) for one in numbers]
    kinds = split_names("option --orders", orders, (RANDOM, AGREEMENT))
    wanted = [(run, 0, 0, RANDOM) for run in runs]
    wanted += itertools.product(runs, counts, map(int, split_names("option --seeds", seeds)), kinds)
    done = {(line["seed"], *_kind(line)) for line in read_results(results)}
    for run, count, seed, order in wanted:
        if (seed, str(run), count, order) not in done:
            lines = reviewed_run(run, out / "run", count, seed, order, threads)
            with results.open("a") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)
    print_table_of(read_results(results))


def reviewed_run(source: Path, target: Path, count: Count, seed: int, order: str, threads: int) -> list[dict[str, Any]]:
    """Return a line for each class of a copy of a run with a number of verdicts a class; 0 is the run as it is."""
    path = copied(source, target) if count else source
    session = ReviewSession(RunContext.opened(path, "review", quiet=True).stored)
    truth = known_boxes(BoxSource.of(session.stored), session.stored.train_set).truth
    verdicts = {one.name: review(session, one, truth[one.name], count, seed, order) for one in session.classes}
    run = RunFolder(path)
    if count:
        use(run, verdicts, threads)
    common = {"run": str(source), "verdicts": count, "seed": seed, "order": order}
    return [
        common | {"class": name} | figures(run, name, truth[name], {verdict.picture for verdict in said})
        for name, said in verdicts.items()
    ]


def copied(source: Path, target: Path) -> Path:
    """Return a copy of a run that shares the bytes of its shards."""

    def copy(old: str, new: str) -> None:
        (os.link if "shards" in Path(old).parts else shutil.copy2)(old, new)

    if target.exists():
        shutil.rmtree(target)
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(".lock"), copy_function=copy)
    return target


def use(run: RunFolder, verdicts: Mapping[str, Iterable[Verdict]], threads: int) -> None:
    """Give a run the verdicts, and run what follows training again."""
    run.files.claim([run.verdicts_file])
    append_verdicts(run.verdicts_file, [one for said in verdicts.values() for one in said])
    context = RunContext(run, run.settings(), threads, Reporter(True))
    with run.lock():
        for stage in STAGES:
            run_stage(stage, context)


def review(session, one, truth, count, seed, order=RANDOM) -> list[Verdict]:
    """Return the verdicts of a person on `count` pictures of a class, or on all."""
    rng, verdicts = np.random.default_rng(seed), []
    for place, kind_of_order in asked(session, one, count, seed, order):
        row = one.rows[place]
        name, candidates = session.ids[row], session.candidates(one, row)[0]
        kind, boxes = answer(np.array(candidates), truth[name].boxes, rng)
        shown = tuple(map(tuple, candidates))
        verdicts.append(Verdict(name, one.name, kind, boxes, shown, session.hashes[row], kind_of_order))
    return verdicts


def asked(session, one, count, seed, order) -> list[tuple[int, str]]:
    """Return the places of the pictures that a person is asked for, each with the order that chose it."""
    ids = [session.ids[row] for row in one.rows]
    places = random_order(ids, one.name, seed)
    number = len(places) if count == ALL else count
    if isinstance(number, str):
        number = math.ceil(float(number.removesuffix("%")) / 100 * len(places))
    n_random = number if order == RANDOM else math.ceil(number / 2)
    agreement = dict(zip(one.held_out.ids, one.held_out.agreement.tolist(), strict=True)) if n_random < number else {}
    rest = sorted(places[n_random:], key=lambda place: agreement.get(ids[place], 1.0))
    chosen = [(place, "next") for place in rest[: number - n_random]]
    return [(place, "random") for place in places[:n_random]] + chosen


def answer(candidates, truth, rng):
    """Return the verdict of the person on a picture with these objects (n, 4), and its boxes."""
    overlaps = iou(candidates, truth).max(axis=1)
    right = np.flatnonzero(overlaps >= ACCEPTED)
    if rng.random() < MISTAKES:
        return ("none", ()) if 0 in right else ("boxes", (tuple(candidates[0]),))
    box = candidates[right[0]] if len(right) else truth[np.argmax(areas(truth))]
    return "boxes", (tuple(float(value) for value in box),)


def figures(run: RunFolder, name: str, truth, reviewed: set[str]) -> dict[str, Any]:
    """Return the CorLoc of held-out boxes and of the final model's."""
    own = read_held_out(run, name)
    hits = {
        picture: bool(iou(box[None], truth[picture].boxes).max() > 0.5)
        for picture, box, y in zip(own.ids, own.boxes, own.y, strict=True)
        if y > 0 and len(truth[picture].boxes)
    }
    others = [hit for picture, hit in hits.items() if picture not in reviewed]
    evaluation = json.loads(run.evaluation_file.read_text())["sets"][run.settings().data.train_set]["classes"]
    final = evaluation[name]["corloc"]
    return {"held_out": fmean(hits.values()), "others": fmean(others) if others else None, "final": final}


def print_table_of(lines: list[dict[str, Any]]) -> None:
    """Print means over classes and seeds, with the least and the greatest mean of a seed in brackets."""
    titles = ["run", "verdicts a class", "order", "seeds", "held out", "without verdict", "final", "harm"]
    print_table(titles, (_row(kind, lines) for kind in dict.fromkeys(map(_kind, lines))))


def _row(kind: tuple[str, Count, str], lines: list[dict[str, Any]]) -> list[Cell]:
    own = [line for line in lines if _kind(line) == kind]
    cells = (_spread(own, name) for name in ("held_out", "others", "final"))
    return [*kind, len({line["seed"] for line in own}), *cells, f"{_harm(own, lines):.2f}"]


def _kind(line: dict[str, Any]) -> tuple[str, Count, str]:
    return line["run"], line["verdicts"], line["order"]


def _harm(own: list[dict[str, Any]], lines: list[dict[str, Any]]) -> float:
    """Return the share of classes and seeds with more than .02 fewer right boxes held out than without verdicts."""
    before = {(line["run"], line["class"]): line["held_out"] for line in lines if not line["verdicts"]}
    return fmean(line["held_out"] < before[line["run"], line["class"]] - LOSS for line in own)


def _spread(lines: list[dict[str, Any]], figure: str) -> str:
    known = [line for line in lines if line[figure] is not None]  # none without a verdict where all have one
    means = [fmean(line[figure] for line in known if line["seed"] == seed) for seed in {line["seed"] for line in known}]
    if not means:
        return ""
    ends = f" [{min(means):.3f}, {max(means):.3f}]" if len(means) > 1 else ""
    return f"{fmean(means):.3f}{ends}"


if __name__ == "__main__":
    main()
