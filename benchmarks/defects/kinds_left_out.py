"""What a run says of kinds of defects that it was not trained on.

    python benchmarks/defects/kinds_left_out.py OUT --data voc --root ROOT [--known blowhole,break] [--options "..."]

A run is trained on the good pictures and the kinds of --known among the training pictures of a data set with one kind a
picture. It is asked for all pictures of other kinds, and for the test pictures of known kinds and good ones. Without
--known each kind is left out in turn. A row has the share of pictures that are not ok, with an exact interval, and that
by known classes alone and by a memory of good patches (`normal_memory`) on the same map of the network, each with a
threshold of its own for the same promise. AUROCs are of kinds against good test pictures: by the distance to good ones,
which knows no defect, by known classes alone, and by the joined decision, whose order is that in which pictures alarm
as the share grows. The last column has the CPU seconds of a prediction over those without the memory of good pictures.
OUT keeps the runs.
"""

import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from lapsvm.pipelines.cli.study import Given, print_table, study_command
from lapsvm.pipelines.context import RunContext
from lapsvm.pipelines.inspection.decisions import calibrated_detectors, known_held_out, set_groups
from lapsvm.pipelines.inspection.unknown import learn_good_pictures
from lapsvm.pipelines.inspection.whole_pictures import HELD_OUT, PictureRules, learn_whole_pictures
from normal_memory import NormalMemory

from lapsvm.catalog import ImageRecord, open_dataset, read_image
from lapsvm.detection import Predictor
from lapsvm.evaluation import image_auroc
from lapsvm.inspection.alarm_rate import AlarmRate
from lapsvm.inspection.decision import UNKNOWN, Decision
from lapsvm.inspection.promises import Promise
from lapsvm.inspection.threshold import UNKNOWN_PART, choose_threshold
from lapsvm.windows.proposals import reduced

GOOD, TIMED = "good", 20
FOLDS, KEPT = 3, 2_000  # of good training pictures, whose patches have distances by the other folds; patches kept
TITLES = (
    "known", "asked", "not ok", "unknown", "known classes alone", "patches", "AUROC by good pictures",
    "AUROC by known classes", "AUROC by both", "AUROC by patches", "cost",
)  # fmt: skip


class Asked(NamedTuple):
    """The decision on a picture, its distance to good ones, and that of its least usual patch."""

    decision: Decision
    distance: float
    patch: float


@study_command
def main(
    out: Path, root: Annotated[Path, Given("--root", "The folder of the data.")],
    data: Annotated[str, Given(help="The data set.")] = "voc",
    known: Annotated[str, Given(help="Kinds to train on, with commas; without them each is left out in turn.")] = "",
    share: Annotated[float, Given(help="The share of good pictures that may alarm.")] = 0.1,
    options: Annotated[str, Given(help="Options of lapsvm run.")] = "--recipe plain --max-windows 500",
) -> None:  # fmt: skip
    """Ask runs for kinds of defects that they were not trained on."""
    dataset = open_dataset(data, root)
    classes = list(dataset.classes)
    chosen = [known.split(",")] if known else [[name for name in classes if name != left] for left in classes]
    rows = []
    for kinds in chosen:
        folder = out / "-".join(kinds)
        asked = sorted_pictures(dataset.records("trainval"), dataset.records("test"), kinds, folder / "pictures")
        learn(folder, share, shlex.split(options))
        rows += list(answers(folder, asked, kinds, share))
    print_table(TITLES, rows)


def kind_of(record: ImageRecord) -> str:
    """Return the kind that a picture shows, or "good"."""
    return next((name for name, label in record.labels.items() if label == 1), GOOD)


def sorted_pictures(
    training: Sequence[ImageRecord], test: Sequence[ImageRecord], known: Sequence[str], folder: Path
) -> dict[str, list[Path]]:
    """Copy the training pictures into folders by kind; return those to ask for by kind."""
    asked: dict[str, list[Path]] = {}
    for records, is_training in ((training, True), (test, False)):
        for record in records:
            kind = kind_of(record)
            if is_training and kind in (*known, GOOD):
                (folder / kind).mkdir(parents=True, exist_ok=True)
                shutil.copy(record.path, folder / kind)
            else:
                asked.setdefault(kind, []).append(record.path)
    return asked


def learn(folder: Path, share: float, options: Sequence[str]) -> None:
    """Train a run, unless there is one, and choose its threshold."""
    run, program = folder / "RUN", [sys.executable, "-m", "lapsvm"]
    data = ["--data", "folder", "--root", str(folder / "pictures"), "--out", str(run)]
    for command in (["run", *data, *options], ["threshold", "--out", str(run), "--max-false-alarms", str(share)]):
        subprocess.run([*program, *command, "--quiet"], check=True)


def answers(folder: Path, asked: dict[str, list[Path]], known: Sequence[str], share: float) -> Iterator[list[Any]]:
    """Yield a row for each kind of picture."""
    predictor, good = Predictor.open(folder / "RUN"), sorted((folder / "pictures" / GOOD).iterdir())
    memory, patch = patches(predictor, good, share)
    found = {kind: [ask(predictor, memory, path) for path in paths] for kind, paths in asked.items()}
    left = {kind: of_kind for kind, of_kind in found.items() if kind not in (*known, GOOD)}
    found["all known"] = [one for kind in known for one in found[kind]]
    found["all left out"] = [one for of_kind in left.values() for one in of_kind]
    held_out, time_ratio = good_held_out(folder / "RUN", share), cost(predictor, asked[GOOD][:TIMED])
    probability = choose_threshold(held_out[0], share)
    for kind, of_kind in found.items():
        shares = [
            AlarmRate(sum(alarms), len(of_kind))
            for alarms in (
                [not one.decision.is_ok for one in of_kind],
                [one.decision.probability >= probability for one in of_kind],
                [one.patch >= patch for one in of_kind],
            )
        ]
        orders = zip(*(order(one, held_out) for one in [*of_kind, *found[GOOD]]), strict=True)
        labels = [1] * len(of_kind) + [-1] * len(found[GOOD])
        aurocs = ["" if kind == GOOD else f"{image_auroc(ranked(values), labels):.3f}" for values in orders]
        unknown = sum(one.decision.name == UNKNOWN for one in of_kind)
        yield [", ".join(known), kind, str(shares[0]), unknown, *map(str, shares[1:]), *aurocs, f"{time_ratio:.2f}"]


def ask(predictor: Predictor, memory: NormalMemory, path: Path) -> Asked:
    """Return the decision on a picture and its distances."""
    scored = predictor.scored(path)
    decision, unlike = scored.decision(), scored.unlike
    if decision is None or unlike is None:
        raise SystemExit(f"the threshold of {predictor!r} knows no good pictures.")
    return Asked(decision, unlike.distance, float(memory.map(seen(predictor, path)).max()))


def seen(predictor: Predictor, path: Path) -> Any:
    """Return a picture as the memories see it."""
    return reduced(read_image(path), predictor.windows.max_side)


def patches(predictor: Predictor, good: Sequence[Path], share: float) -> tuple[NormalMemory, float]:
    """Return the memory of patches of good pictures, and its threshold by distances to those of other folds."""
    if predictor.good is None:
        raise SystemExit(f"the threshold of {predictor!r} knows no good pictures.")
    pixels, network = [seen(predictor, path) for path in good], predictor.good.network
    fold = np.random.default_rng(0).permutation(len(good)) % FOLDS
    distances = np.empty(len(good))
    for number in range(FOLDS):
        others = NormalMemory.fit(network, [pixels[row] for row in np.flatnonzero(fold != number)], kept=KEPT)
        for row in np.flatnonzero(fold == number):
            distances[row] = others.map(pixels[row]).max()
    return NormalMemory.fit(network, pixels, kept=KEPT), choose_threshold(distances, share)


def good_held_out(run: Path, share: float) -> tuple[Any, Any]:
    """Return the highest probabilities and the distances of the good training pictures, held out."""
    context = RunContext.opened(run, "threshold", quiet=True)
    stored, detectors = context.stored, calibrated_detectors(context.stored)
    best = PictureRules(detectors, known_held_out(context.run, detectors))
    sets = {HELD_OUT: learn_whole_pictures(stored, best, context.reporter).of_held_out()}
    groups, promise = set_groups(stored, sets), Promise(share)
    learned = learn_good_pictures(stored, sets, groups, promise, context.open_extractor(), context.reporter)
    if learned is None:
        raise SystemExit(f"{run} has too few good pictures.")
    good = sets[HELD_OUT].is_ok
    return sets[HELD_OUT].best[good], learned.distances[HELD_OUT][good]


def order(one: Asked, held_out: tuple[Any, Any]) -> tuple[Any, ...]:
    """Return the values by which a picture is ordered: distance, probability, both joined, and that of patches.

    Joined it is the number of good pictures above the threshold of distance from which on it alarms by one of the
    two, see `choose_two_thresholds`; then the probability.
    """
    probability, distance = one.decision.probability, one.distance
    known, unlike = ((values >= value).sum() for values, value in zip(held_out, (probability, distance), strict=True))
    joined = -min(UNKNOWN_PART * (known + 1) - 1 if known else 0, unlike), probability
    return (distance,), (probability,), joined, (one.patch,)


def ranked(values: Sequence[tuple[float, ...]]) -> list[int]:
    """Return the rank of each value among all; equal ones have the same."""
    places = {value: place for place, value in enumerate(sorted(set(values)))}
    return [places[value] for value in values]


def cost(predictor: Predictor, paths: Sequence[Path]) -> float:
    """Return the CPU seconds of predictions over those without the memory of good pictures, in turns."""
    seconds = {predictor: 0.0, (alone := replace(predictor, good=None)): 0.0}
    for path in paths:
        for one in seconds:
            start = time.process_time()
            one.decision(path)
            seconds[one] += time.process_time() - start
    return seconds[predictor] / seconds[alone]


if __name__ == "__main__":
    main()
