"""What a run says of kinds of defects that it was not trained on.

    python benchmarks/defects/kinds_left_out.py OUT --data voc --root ROOT [--known blowhole,break] [--options "..."]

A run is trained on the good pictures and the kinds of --known among the training pictures of a data set with one kind a
picture. It is asked for all pictures of other kinds, and for the test pictures of known kinds and good ones. Without
--known each kind is left out in turn. A row has the share of pictures that are not ok, with an exact interval, and the
AUROC of kinds against good test pictures by the distance to good ones, which knows no defect. The last column has the
CPU seconds of a prediction over those without the memory of good pictures. OUT keeps the runs.
"""

import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from lapsvm.pipelines.cli.study import Given, print_table, study_command

from lapsvm.catalog import ImageRecord, open_dataset
from lapsvm.detection import Predictor
from lapsvm.evaluation import image_auroc
from lapsvm.inspection.alarm_rate import AlarmRate
from lapsvm.inspection.decision import UNKNOWN, Decision

GOOD, TIMED = "good", 20
Asked = list[tuple[Decision, float]]  # the decision on each picture, and its distance to good ones


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
        rows += list(answers(folder / "RUN", asked, kinds))
    print_table(["known", "asked", "not ok", "unknown", "AUROC by good pictures", "cost"], rows)


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


def answers(run: Path, asked: dict[str, list[Path]], known: Sequence[str]) -> Iterator[list[str | float]]:
    """Yield a row for each kind of picture."""
    predictor = Predictor.open(run)
    found = {kind: [ask(predictor, path) for path in paths] for kind, paths in asked.items()}
    left = [one for kind, of_kind in found.items() if kind not in (*known, GOOD) for one in of_kind]
    time_ratio = cost(predictor, asked[GOOD][:TIMED])
    for kind, of_kind in [*found.items(), ("all left out", left)]:
        alarms = sum(not one.is_ok for one, _ in of_kind)
        unknown = sum(one.name == UNKNOWN for one, _ in of_kind)
        distances = [value for _, value in [*of_kind, *found[GOOD]]]
        labels = [1] * len(of_kind) + [-1] * len(found[GOOD])
        auroc = "" if kind == GOOD else f"{image_auroc(distances, labels):.3f}"
        yield [", ".join(known), kind, str(AlarmRate(alarms, len(of_kind))), unknown, auroc, f"{time_ratio:.2f}"]


def ask(predictor: Predictor, path: Path) -> tuple[Decision, float]:
    """Return the decision on a picture, and its distance to good ones."""
    scored = predictor.scored(path)
    decision, unlike = scored.decision(), scored.unlike
    if decision is None or unlike is None:
        raise SystemExit(f"the threshold of {predictor!r} knows no good pictures.")
    return decision, unlike.distance


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
