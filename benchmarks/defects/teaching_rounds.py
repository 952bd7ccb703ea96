"""Rounds of misses and false alarms that teach: `python benchmarks/defects/teaching_rounds.py OUT VOC --kind NAME`.

The pictures of a VOC folder are divided at random: a part trains, a part comes later, and a part is never taught. Of
one kind of defect few pictures train, or none. In each round a simulated person, who knows the labels of the pictures
that come later, names the first misses and false alarms among them (`lapsvm review --pictures`), and the run and its
threshold are made again. The table has the pictures that were never taught.

    python benchmarks/defects/teaching_rounds.py TAUGHT tiles --kind crack --few 4
    python benchmarks/recipes/drawn_defects.py drawn --pictures 300
    python benchmarks/defects/teaching_rounds.py TAUGHT-DRAWN drawn --kind chip
"""

import shlex
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import numpy as np
from lapsvm.pipelines.cli.study import Cell, Given, print_table, study_command
from lapsvm.pipelines.review.new_pictures import NewPictures
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.verdicts.taught import FALSE_ALARM, MISSED

from lapsvm.catalog import open_dataset
from lapsvm.detection import Predictor
from lapsvm.evaluation import image_auroc

GOOD = "good"
SHARES = {"train": 0.4, "later": 0.3, "never": 0.3}


def teaching_rounds(
    out: Path,
    voc: Path,
    kind: Annotated[str, Given(help="The kind of which few pictures train.")] = "crack",
    few: Annotated[int, Given(help="Their number.")] = 0,
    rounds: int = 2,
    each: Annotated[int, Given(help="Misses, and false alarms, that a round teaches.")] = 10,
    share: Annotated[float, Given(help="Of false alarms.")] = 0.1,
    options: Annotated[str, Given(help="Of the run.")] = "--max-windows 500",
    seed: int = 0,
) -> None:
    """Teach a run what it missed, and measure it on pictures that are never taught."""
    divide(voc, out, kind, few, seed)
    run = out / "RUN"
    lapsvm("run", "--data", "folder", "--root", str(out / "train"), "--out", str(run), *shlex.split(options))
    rows = list[list[Cell]]()
    for number in range(rounds + 1):
        if number:
            taught = teach(run, out / "later", each, kind)
            lapsvm("run", "--out", str(run))
        lapsvm("threshold", "--out", str(run), "--max-false-alarms", str(share))
        told = "nothing" if not number else " and ".join(f"{count} {said}" for said, count in taught.items())
        rows.append([f"{number}: {told}", *measured(run, out / "never", kind)])
        print_table(["round", f"{kind} not ok", "other kinds", "good ones that alarm", "AUROC"], rows)


def divide(voc: Path, out: Path, kind: str, few: int, seed: int) -> None:
    """Link the pictures of each part into folders of kinds."""
    dataset, rng = open_dataset("voc", voc), np.random.default_rng(seed)
    by_kind = defaultdict[str, list[Path]](list)
    for name in ("trainval", "test"):
        for record in dataset.records(name):
            shown = [one for one, label in record.labels.items() if label > 0]
            if len(shown) < 2:
                by_kind[shown[0] if shown else GOOD].append(record.path)
    for name, paths in by_kind.items():
        order = [paths[row] for row in rng.permutation(len(paths))]
        first, second = (round(len(order) * end) for end in np.cumsum(list(SHARES.values()))[:2])
        first = few if name == kind else first
        for part, chosen in zip(SHARES, (order[:first], order[first:second], order[second:]), strict=True):
            for path in chosen:
                link = out / part / name / path.name
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(path.resolve())


def lapsvm(*words: str) -> None:
    """Run the command line without its tables."""
    subprocess.run([sys.executable, "-m", "lapsvm.pipelines", *words, "--quiet"], check=True, stdout=subprocess.DEVNULL)


def opened(run: Path, folder: Path, new_class: str | None = None) -> NewPictures:
    """Return the decisions of a run on the pictures of a folder."""
    known = Predictor.open(run)
    new = None if new_class in [one.class_name for one in known.detectors] else new_class
    files = sorted(folder.glob("*/*"), key=lambda path: path.name[::-1])  # of all kinds in turn
    return NewPictures(RunFolder(run), known, files, copies=False, new_class=new)


def teach(run: Path, folder: Path, each: int, kind: str) -> Mapping[str, int]:
    """Say the first misses of the kind and the first false alarms that were not said yet; return how many were said."""
    new, counts = opened(run, folder, kind), dict.fromkeys((MISSED, FALSE_ALARM), 0)
    is_open = [one["verdict"] is None for one in new.queue(0)]
    for row in np.flatnonzero(is_open).tolist():
        said = word(new, row, kind)
        if said and counts[said] < each:
            new.say(row, said, kind if said == MISSED else "")
            counts[said] += 1
    return counts


def word(new: NewPictures, row: int, kind: str) -> str:
    """Return the word of a person on a decision; "" for a right one, and for misses of other kinds."""
    name = new.files[row].parent.name
    if name not in (GOOD, kind):
        return ""
    is_ok = new.seen(row).decision.is_ok
    if name == GOOD:
        return "" if is_ok else FALSE_ALARM
    return MISSED if is_ok else ""


def measured(run: Path, folder: Path, kind: str) -> Iterator[Cell]:
    """Yield how many pictures of the kind, of other kinds, and good ones are not ok, and the AUROC of the decision."""
    new = opened(run, folder, kind)
    names = np.array([path.parent.name for path in new.files])
    decisions = [new.seen(row).decision for row in range(len(new.files))]
    alarms = np.array([not one.is_ok for one in decisions])
    for rows in (names == kind, (names != kind) & (names != GOOD), names == GOOD):
        yield f"{alarms[rows].sum()} of {rows.sum()}"
    scores = [one.probability for one in decisions]
    yield f"{image_auroc(scores, np.where(names == GOOD, -1, 1)):.3f}"


main = study_command(teaching_rounds)

if __name__ == "__main__":
    main()
