"""How often the interval of right boxes holds the truth, and how much narrower held-out scores make it.

Pictures are drawn at random from made classes, in which right boxes and the ranks of scores have a known correlation:
30, 80 and 300 pictures, 5 to 95 % of them right. With RUNS, finished ones whose training pictures have annotated boxes,
also from their classes.

A row is a correlation, or the runs, a column a number of verdicts: the mean and in brackets the least coverage over
classes of Wilson's interval and of the one with scores, and the mean width of the second, divided by that of the first.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np
from lapsvm.pipelines.annotations.known_boxes import BoxSource, known_boxes
from lapsvm.pipelines.cli.study import print_table
from lapsvm.pipelines.context import RunContext
from lapsvm.pipelines.products.held_out import read_held_out
from lapsvm.pipelines.verdicts.right_boxes import score_evidence, share_interval
from numpy.typing import NDArray

from lapsvm.arrays import Float64
from lapsvm.boxes import iou
from lapsvm.errors import StageError

SIZES, VERDICTS = (30, 80, 300), (5, 10, 20)
SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
CORRELATIONS = (-0.3, 0.0, 0.2, 0.4, 0.5, 0.6, 0.8)
CLOSE = 0.05  # of a made class's correlation to the wanted one
ROUNDING = 1e-9


class Pictures(NamedTuple):
    """The pictures of a class: whether their boxes are right (n,), and their scores (n,)."""

    right: NDArray[np.bool_]
    score: Float64


class Measured(NamedTuple):
    """Coverage and mean width of the interval without and with scores."""

    plain: float
    scored: float
    plain_width: float
    scored_width: float


def print_coverage(runs: Sequence[Path], draws: int, seed: int, *, quick: bool) -> None:
    """Print the table of right boxes."""
    rng = np.random.default_rng(seed)
    sizes, correlations = (SIZES[:1], CORRELATIONS[1:2]) if quick else (SIZES, CORRELATIONS)
    kinds = {f"{wanted:g}": list(made_classes(wanted, sizes, rng)) for wanted in correlations}
    if runs:
        kinds["development sets"] = [pictures for run in runs for pictures in classes_of(run)]
    titles = [f"{number}{'' if place else ' verdicts'}" for place, number in enumerate(VERDICTS)]
    print_table(["correlation", *titles], rows(kinds, draws, rng))


def rows(kinds: Mapping[str, list[Pictures]], draws: int, rng: np.random.Generator) -> Iterator[list[str]]:
    """Yield a row for each kind of classes."""
    for kind, classes in kinds.items():
        yield [kind, *(cell(classes, number, draws, rng) for number in VERDICTS)]


def cell(classes: list[Pictures], number: int, draws: int, rng: np.random.Generator) -> str:
    """Return coverages and the ratio of the widths for a number of verdicts; "" where no class has more pictures."""
    figures = [measured(pictures, number, draws, rng) for pictures in classes if len(pictures.right) > number]
    if not figures:
        return ""
    plain, scored, *_ = map(np.array, zip(*figures, strict=True))
    coverage = (f"{values.mean():.3f} ({values.min():.2f})" for values in (plain, scored))
    return ", ".join([*coverage, f"{fmean(row.scored_width / row.plain_width for row in figures):.3f}"])


def made_classes(correlation: float, sizes: Sequence[int], rng: np.random.Generator) -> Iterator[Pictures]:
    """Yield a class of every size and share that can have the correlation."""
    for size in sizes:
        for number in sorted({round(share * size) for share in SHARES}):
            one = made_class(size, number, correlation, rng)
            if abs(np.corrcoef(one.score, one.right)[0, 1] - correlation) < CLOSE:
                yield one


def made_class(size: int, number: int, correlation: float, rng: np.random.Generator) -> Pictures:
    """Return the class whose correlation is closest: right boxes are the first by rank and noise, in some mixture."""
    score, noise = np.linspace(-1, 1, size), rng.standard_normal(size)
    orders = [np.argsort(weight * score + noise) for weight in np.linspace(-8, 8, 65)]
    found = [np.isin(np.arange(size), order[size - number :]) for order in orders]
    return Pictures(min(found, key=lambda right: abs(np.corrcoef(score, right)[0, 1] - correlation)), score)


def classes_of(run: Path) -> Iterator[Pictures]:
    """Yield the classes of a finished run: held-out boxes of positive pictures, compared with annotated ones."""
    stored = RunContext.opened(run, "evaluate", quiet=True).stored
    known = known_boxes(BoxSource.of(stored), stored.train_set)
    if known is None:
        raise StageError(f"run {run} must have annotated boxes of its training pictures.")
    for name, truth in known.truth.items():
        held_out = read_held_out(stored.folder, name)
        if held_out is None:
            continue
        rows = [row for row in np.flatnonzero(held_out.y > 0) if len(truth[held_out.ids[row]].boxes)]
        overlaps = [iou(held_out.boxes[row][None], truth[held_out.ids[row]].boxes).max() for row in rows]
        if rows:
            yield Pictures(np.array(overlaps) > 0.5, held_out.score[rows])


def measured(pictures: Pictures, number: int, draws: int, rng: np.random.Generator) -> Measured:
    """Return coverage and widths in random draws of a number of pictures."""
    right, score = pictures
    truth, among = right.mean(), len(right)
    limits = np.empty((draws, 2, 2))
    for draw in range(draws):
        drawn = rng.choice(among, number, replace=False)
        counts = int(right[drawn].sum()), number, among
        limits[draw] = share_interval(*counts), share_interval(*counts, score_evidence(right[drawn], drawn, score))
    holds = (limits[..., 0] - ROUNDING <= truth) & (truth <= limits[..., 1] + ROUNDING)
    return Measured(*holds.mean(axis=0), *(limits[..., 1] - limits[..., 0]).mean(axis=0))
