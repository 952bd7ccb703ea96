"""False alarms wanted and got: `python benchmarks/recipes/false_alarms.py RUN PICTURES...`.

For several shares of false alarms the threshold of `lapsvm threshold` is chosen on RUN's held-out pictures of no class.
RUN has a threshold: its decisions, of best windows or of whole pictures too, are what is compared. Its good pictures
are in no groups.
PICTURES are new pictures that show no class either, files or folders at any depth, searched as `lapsvm predict` does.
Where k - 1 of n held-out pictures lie above the threshold, the number of m new ones like them that do is beta-binomial
with (m, k, n + 1 - k): V. Vovk, "Conditional validity of inductive conformal predictors", 2012, section 3. The table
says in which interval it lies with 95 %.

    python benchmarks/recipes/drawn_defects.py NEW --seed 1 --pictures 800
    lapsvm threshold --out RUN
    python benchmarks/recipes/false_alarms.py RUN --without-objects NEW
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from lapsvm.pipelines.cli.study import Cell, Given, print_table, study_command
from lapsvm.pipelines.commands.drawing.files import picture_files
from lapsvm.pipelines.context import RunContext
from lapsvm.pipelines.inspection.decisions import calibrated_detectors, known_held_out
from lapsvm.pipelines.inspection.whole_pictures import HELD_OUT, PictureRules, learn_whole_pictures
from lapsvm.pipelines.run.groups import n_groups
from lapsvm.pipelines.run.progress import Reporter
from scipy.stats import betabinom

from lapsvm.catalog import open_dataset
from lapsvm.detection import Predictor
from lapsvm.errors import InputError, MissingError
from lapsvm.evaluation.intervals import LEVEL
from lapsvm.inspection.threshold import choose_threshold

SHARES = 0.02, 0.05, 0.1, 0.2


@study_command
def main(
    run: Path,
    pictures: Annotated[list[Path] | None, Given(is_argument=True)] = None,
    without_objects: Annotated[Path | None, Given(help="A VOC folder: its test pictures of no class.")] = None,
) -> None:
    """Print the number of new good pictures that raise an alarm, beside the wanted one."""
    files = [one.path for one in picture_files(pictures or [], print)]
    if without_objects is not None:
        records = open_dataset("voc", without_objects).records("test")
        files += [one.path for one in records if all(label == -1 for label in one.labels.values())]
    known, new = held_out(run), new_probabilities(run, files)
    print(f"{len(known)} held-out and {len(new)} new pictures of no class\n")
    print_table(("wanted", "alarms of held out", "alarms of new", "with 95 %", "within"), rows(known, new))


def held_out(folder: Path) -> np.ndarray:
    """Return the highest probability of each held-out good picture of a run."""
    stored = RunContext.opened(folder, "this table", threads=2, quiet=True).stored
    detectors = calibrated_detectors(stored)
    best = PictureRules(detectors, known_held_out(stored.folder, detectors))
    found = learn_whole_pictures(stored, best, Reporter(True)).sets(None, ())[HELD_OUT]
    groups = stored.groups(stored.train_set, found.ids, stored.shards_if_any(stored.train_set))
    if n_groups(groups, found.is_ok) < found.is_ok.sum():
        raise InputError(f"run {folder} has pictures in groups, whose alarms are not beta-binomial.")
    return np.asarray(found.best[found.is_ok])


def new_probabilities(folder: Path, files: Sequence[Path]) -> np.ndarray:
    """Return the highest probability of each picture."""
    predictor = Predictor.open(folder)
    if predictor.shown.alarm is None:
        raise MissingError(f"run {folder} has no threshold of its present models; run lapsvm threshold first.")
    return np.array([predictor.decision(file).probability for file in files])


def rows(known: np.ndarray, new: np.ndarray) -> Iterator[tuple[Cell, ...]]:
    """Yield the rows of the table, for the probabilities of held-out and of new good pictures."""
    for share in SHARES:
        try:
            threshold = choose_threshold(known, share)
        except InputError:
            yield f"{share:.0%}", "too few pictures", None, None, None
            continue
        got, k = int((new >= threshold).sum()), int((known >= threshold).sum()) + 1
        low, high = betabinom(len(new), k, len(known) + 1 - k).interval(LEVEL)
        interval = f"{low / len(new):.1%} to {high / len(new):.1%}"
        yield f"{share:.0%}", k - 1, f"{got} ({got / len(new):.1%})", interval, "yes" if low <= got <= high else "no"


if __name__ == "__main__":
    main()
