"""A simulated person reviews finished runs, which then use the verdicts: right boxes held out, in whole runs.

The person answers from true boxes: takes the first candidate with an IoU of at least .6 with an object, draws the
largest object where there is none, and is wrong once in twenty (takes the first box, or none if that is right). Each
class has so many verdicts on random pictures. A copy of the run is then refined and detected again as a user's would
be; CorLoc is that of held-out boxes, in all pictures that show the class and in those without a verdict.

    python benchmarks/recipes/simulated_review.py OUT RUN ... --verdicts 5,20 --seeds 0,1,2

RUNS are finished, with shards and boxes of their training pictures, and are only read; OUT is a folder on the same
disk. Every class, number and seed is a line of OUT/results.jsonl, which a rerun keeps and the table is made of.
"""

import argparse
import json
import os
import shutil
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from lapsvm.pipelines.results.boxes.known import known_boxes
from lapsvm.pipelines.results.held_out import read_held_out
from lapsvm.pipelines.review.order import random_order
from lapsvm.pipelines.review.session import ReviewSession
from lapsvm.pipelines.run.context import RunContext
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.run.progress import Reporter
from lapsvm.pipelines.run.verdicts import Verdict, append_verdicts
from lapsvm.pipelines.stages.registry import run_stage

from lapsvm.boxes import areas, iou
from lapsvm.detection import Detector

ACCEPTED, MISTAKES = 0.6, 0.05
STAGES = ("refine", "detect", "evaluate")


def main() -> None:
    """Review and refine what is missing, then print the table."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    parser.add_argument("--verdicts", type=_numbers, default=[20])
    parser.add_argument("--seeds", type=_numbers, default=[0])
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    results = given.out / "results.jsonl"
    wanted = [(run, 0, 0) for run in given.runs]
    wanted += [(run, count, seed) for run in given.runs for count in given.verdicts for seed in given.seeds]
    done = {(line["run"], line["verdicts"], line["seed"]) for line in _lines(results)}
    for run, count, seed in wanted:
        if (str(run), count, seed) not in done:
            lines = reviewed_run(run, given.out / "run", count, seed, given.threads)
            with results.open("a") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)
    print_table(_lines(results))


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def _lines(results: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in results.read_text().splitlines()] if results.is_file() else []


def reviewed_run(source: Path, target: Path, count: int, seed: int, threads: int) -> list[dict[str, Any]]:
    """Return a line for each class of a copy of a run with so many verdicts a class; 0 is the run as it is."""
    path = copied(source, target) if count else source
    session = ReviewSession.open(path, None, None, quiet=True)
    truth = known_boxes(session.context, session.context.settings.data.train_set).truth
    verdicts = {one.name: review(session, one, truth[one.name], count, seed) for one in session.classes}
    if count:
        use(RunFolder(path), verdicts, threads)
    run = RunFolder(path)
    common = {"run": str(source), "verdicts": count, "seed": seed}
    return [
        common | {"class": name} | figures(run, name, truth[name], {one.picture for one in said})
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


def review(session, one, truth, count, seed) -> list[Verdict]:
    """Return the verdicts of a person on `count` random pictures of a class."""
    rng, verdicts = np.random.default_rng(seed), []
    for place in random_order([session.ids[row] for row in one.rows], one.name, seed)[:count]:
        row = one.rows[place]
        name, candidates = session.ids[row], session.candidates(one, row)[0]
        kind, boxes = answer(np.array(candidates), truth[name].boxes, rng)
        shown = tuple(map(tuple, candidates))
        verdicts.append(Verdict(name, one.name, kind, boxes, shown, session.hashes[row], "random"))
    return verdicts


def answer(candidates, truth, rng):
    """Return the verdict of the person on a picture with these objects (n, 4), and its boxes."""
    overlaps = iou(candidates, truth).max(axis=1)
    right = np.flatnonzero(overlaps >= ACCEPTED)
    if rng.random() < MISTAKES:
        return ("none", ()) if 0 in right else ("boxes", (tuple(candidates[0]),))
    box = candidates[right[0]] if len(right) else truth[np.argmax(areas(truth))]
    return "boxes", (tuple(float(value) for value in box),)


def figures(run: RunFolder, name: str, truth, reviewed: set[str]) -> dict[str, Any]:
    """Return the CorLoc of held-out boxes, of the final model's, and the model that verdicts chose."""
    own = read_held_out(run, name)
    hits = {
        picture: bool(iou(box[None], truth[picture].boxes).max() > 0.5)
        for picture, box, y in zip(own.ids, own.boxes, own.y, strict=True)
        if y > 0 and len(truth[picture].boxes)
    }
    evaluation = json.loads(run.evaluation_file.read_text())["sets"][run.settings().data.train_set]["classes"]
    result = Detector.load(run.model(name)).provenance["result"]
    return {
        "held_out": fmean(hits.values()),
        "others": fmean(hit for picture, hit in hits.items() if picture not in reviewed),
        "final": evaluation[name]["corloc"],
        "taken": result.get("chosen_by_verdicts", {}).get("taken", "the settings"),
    }


def print_table(lines: list[dict[str, Any]]) -> None:
    """Print means over classes and seeds, with the least and the greatest mean of a seed in brackets."""
    print("| run | verdicts a class | seeds | held out | without verdict | final | another model than the settings' |")
    print("|---|---|---|---|---|---|---|")
    for run, count in dict.fromkeys((line["run"], line["verdicts"]) for line in lines):
        own = [line for line in lines if (line["run"], line["verdicts"]) == (run, count)]
        cells = " | ".join(_spread(own, name) for name in ("held_out", "others", "final"))
        other = fmean(line["taken"] != "the settings" for line in own)
        print(f"| {run} | {count} | {len({line['seed'] for line in own})} | {cells} | {other:.2f} |")


def _spread(lines: list[dict[str, Any]], figure: str) -> str:
    means = [fmean(line[figure] for line in lines if line["seed"] == seed) for seed in {line["seed"] for line in lines}]
    ends = f" [{min(means):.3f}, {max(means):.3f}]" if len(means) > 1 else ""
    return f"{fmean(means):.3f}{ends}"


if __name__ == "__main__":
    main()
