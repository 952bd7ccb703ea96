"""How often intervals hold the truth: of every figure that the program prints with an interval.

Shares (CorLoc, pointing), AUROC and average precision of pictures and of boxes, means over classes, differences of two
runs, figures of pictures in groups, and right boxes by verdicts; of made pictures whose figures are known, from chance
to perfect, from 5 pictures on (`made_figures.py`). With RUNS, finished ones whose training pictures have annotated
boxes, right boxes also of their classes.

    python benchmarks/learning/interval_coverage.py --repetitions 300
    python benchmarks/learning/interval_coverage.py RUN ... --repetitions 1000
    python benchmarks/learning/interval_coverage.py --quick

A row is a figure and what its pictures are, a column the number of pictures or groups. A cell has the mean coverage
over truths and kinds of pictures, in brackets the least of one, and the mean width. All intervals are at 95 %.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple

import made_figures as made
import numpy as np
import right_boxes
from lapsvm.pipelines.cli.study import Given, Into, print_table, study_command
from scipy.stats import binom

from lapsvm.evaluation import Figure, mean_figure
from lapsvm.evaluation.intervals import share_interval

TRUE_SHARES = (0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95, 0.98)
DISTANCES = (0.0, 1.0, 2.0, 3.0, 4.5)
PICTURES, GROUPS = (5, 10, 20, 40, 100), (5, 10, 20, 40)
DRAWS = 200
CLASSES = 3


class Cell(NamedTuple):
    """Coverage and mean width of one kind of pictures."""

    coverage: float
    width: float


Limits = Callable[[np.random.Generator], Iterator[tuple[str, tuple[float, float], float]]]
"""A sample: measure, interval and truth of each of its figures."""


@study_command
def main(
    runs: Annotated[list[Path] | None, Given(metavar="RUN", is_argument=True)] = None,
    repetitions: int = 300, seed: int = 0, quick: bool = False, into: Into = None,
) -> None:  # fmt: skip
    """Measure the coverage of all intervals; --quick takes 5 repetitions and few kinds of pictures."""
    repetitions, kinds = (5, made.KINDS[:1]) if quick else (repetitions, made.KINDS)
    print_table(["figure", *(f"{n}{'' if row else ' pictures'}" for row, n in enumerate(PICTURES))],
                alone(kinds, repetitions, seed), into)  # fmt: skip
    print()
    print_table(["in groups", *(f"{n}{'' if row else ' groups'}" for row, n in enumerate(GROUPS))],
                grouped(kinds, repetitions, seed))  # fmt: skip
    print()
    right_boxes.print_coverage(runs or [], repetitions, seed, quick=quick)


def alone(kinds: Iterable[str], repetitions: int, seed: int) -> Iterator[list[str]]:
    """Yield a row for each figure of pictures on their own."""
    yield ["a share", *(text([exact(n, share) for share in TRUE_SHARES]) for n in PICTURES)]
    hits = {n: [made.Hits(share, n) for share in TRUE_SHARES[2:]] for n in PICTURES}
    mean_share, difference = (
        {n: [maker(one) for one in of] for n, of in hits.items()} for maker in (mean_of_shares, difference_of_shares)
    )
    yield from rows("{}", mean_share, repetitions, seed)
    yield from rows("{}", difference, repetitions, seed)
    for positives in (0.2, 0.5):
        cells = {n: list(rankings(kinds, positives, n)) for n in PICTURES}
        name = f"{{}}, {positives:.0%} positive"
        for maker in (single, mean_of_classes, difference_of_runs):
            made_cells = {n: [maker(one) for one in of] for n, of in cells.items()}
            yield from rows(name, made_cells, repetitions, seed)
    boxes = {n: [of_boxes(made.Boxes(found, distance, n)) for found in (0.25, 0.55, 0.85, 1.0)
                 for distance in (0.0, 1.5, 4.0)] for n in PICTURES}  # fmt: skip
    yield from rows("{}", boxes, repetitions, seed)


def grouped(kinds: Iterable[str], repetitions: int, seed: int) -> Iterator[list[str]]:
    """Yield a row for each figure of pictures in groups of five, and of unequal sizes."""
    for are_unequal in (False, True):
        name = f"{{}}, {'unequal' if are_unequal else 'equal'} groups"
        of_number = {number: made.Groups(number, are_unequal) for number in GROUPS}
        hits = {number: [share_in_groups(made.Hits(share, 0, groups)) for share in TRUE_SHARES[2:]]
                for number, groups in of_number.items()}  # fmt: skip
        yield from rows(name, hits, repetitions, seed)
        cells = {number: [single(replace(one, groups=groups)) for one in rankings(kinds, 0.5, number)]
                 for number, groups in of_number.items()}  # fmt: skip
        yield from rows(name, cells, repetitions, seed)


def rankings(kinds: Iterable[str], positives: float, n: int) -> Iterator[made.Ranking]:
    """Yield rankings of n pictures from chance to almost perfect; none of fewer than two positives."""
    if positives * n >= 2:
        yield from (made.Ranking(kind, distance, positives, n) for kind in kinds for distance in DISTANCES)


def exact(n: int, share: float) -> Cell:
    """Return the coverage of the interval of a share by the probabilities of all numbers of hits."""
    limits = np.array([share_interval(np.arange(n) < count) for count in range(n + 1)])
    chances = binom.pmf(np.arange(n + 1), n, share)
    held = (limits[:, 0] <= share) & (share <= limits[:, 1])
    return Cell(float(chances @ held), float(chances @ np.ptp(limits, axis=1)))


def single(ranking: made.Ranking) -> Limits:
    """Return the sampler of both figures of a ranking."""

    def sample(rng: np.random.Generator) -> Iterator[tuple[str, tuple[float, float], float]]:
        (figures,) = ranking.figures(rng, DRAWS)
        yield from known(figures, ranking.truth())

    return sample


def mean_of_classes(ranking: made.Ranking) -> Limits:
    """Return the sampler of the means over classes that share their pictures; a class differs in its distance."""
    classes = [replace(ranking, distance=distance) for distance in (ranking.distance, 1.0, 3.0)]

    def sample(rng: np.random.Generator) -> Iterator[tuple[str, tuple[float, float], float]]:
        state = rng.bit_generator.state
        found = []
        for one in classes:
            rng.bit_generator.state = state  # the same pictures and draws
            found += one.figures(rng, DRAWS)
        truths = [one.truth() for one in classes]
        means = {name: mean_figure([of[name] for of in found]) for name in truths[0]}
        truth = {name: float(np.mean([of[name] for of in truths])) for name in means}
        yield from known({f"mean {name}": one for name, one in means.items()},
                         {f"mean {name}": one for name, one in truth.items()})  # fmt: skip

    return sample


def difference_of_runs(ranking: made.Ranking) -> Limits:
    """Return the sampler of differences of two equally good learners, whose scores have noise in common."""

    def sample(rng: np.random.Generator) -> Iterator[tuple[str, tuple[float, float], float]]:
        first, second = ranking.figures(rng, DRAWS, learners=2)
        for name in first:
            yield from difference(f"difference of {name}", second[name], first[name])

    return sample


def mean_of_shares(hits: made.Hits) -> Limits:
    """Return the sampler of the mean share over classes with pictures of their own."""

    def sample(rng: np.random.Generator) -> Iterator[tuple[str, tuple[float, float], float]]:
        found = mean_figure([hits.figure(rng, DRAWS) for _ in range(CLASSES)])
        yield from known({"mean share": found}, {"mean share": hits.share})

    return sample


def difference_of_shares(hits: made.Hits) -> Limits:
    """Return the sampler of the difference of two runs' shares on the same pictures."""

    def sample(rng: np.random.Generator) -> Iterator[tuple[str, tuple[float, float], float]]:
        yield from difference("difference of shares", *hits.pair(rng, DRAWS))

    return sample


def share_in_groups(hits: made.Hits) -> Limits:
    """Return the sampler of a share of pictures in groups."""

    def sample(rng: np.random.Generator) -> Iterator[tuple[str, tuple[float, float], float]]:
        yield from known({"a share": hits.figure(rng, DRAWS)}, {"a share": hits.share})

    return sample


def of_boxes(boxes: made.Boxes) -> Limits:
    """Return the sampler of both APs of boxes."""

    def sample(rng: np.random.Generator) -> Iterator[tuple[str, tuple[float, float], float]]:
        yield from known(boxes.figures(rng, DRAWS), boxes.truth())

    return sample


def known(
    figures: Mapping[str, Figure], truth: Mapping[str, float]
) -> Iterator[tuple[str, tuple[float, float], float]]:
    """Yield the figures that are defined."""
    for name, figure in figures.items():
        if (limits := figure.interval) is not None:
            yield name, limits, truth[name]


def difference(name: str, second: Figure, first: Figure) -> Iterator[tuple[str, tuple[float, float], float]]:
    """Yield the interval of a difference that is 0 in truth."""
    if (found := second.minus(first)) is not None:
        yield name, (found[1].low, found[1].high), 0.0


def rows(form: str, cells: Mapping[int, list[Limits]], repetitions: int, seed: int) -> Iterator[list[str]]:
    """Yield a row for each measure of the samples, a column for each size."""
    found = {size: [coverage(one, repetitions, seed) for one in of] for size, of in cells.items()}
    for measure in dict.fromkeys(name for of in found.values() for one in of for name in one):
        columns = (text([one[measure] for one in of if measure in one]) for of in found.values())
        yield [form.format(measure.replace("_", " ")), *columns]


def coverage(sample: Limits, repetitions: int, seed: int) -> dict[str, Cell]:
    """Return measure -> coverage and width over repetitions."""
    rng, held = np.random.default_rng(seed), dict[str, list[tuple[bool, float]]]()
    for _ in range(repetitions):
        for name, (low, high), truth in sample(rng):
            held.setdefault(name, []).append((low - 1e-12 <= truth <= high + 1e-12, high - low))
    return {name: Cell(*np.mean(of, axis=0).tolist()) for name, of in held.items()}


def text(cells: list[Cell]) -> str:
    """Return the mean coverage, the least, and the mean width; "" without a kind of pictures."""
    if not cells:
        return ""
    coverages, widths = np.array(cells).T
    return f"{coverages.mean():.3f} ({coverages.min():.2f}), {widths.mean():.2f}"


if __name__ == "__main__":
    main()
