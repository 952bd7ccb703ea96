"""How well thresholds keep their promises, on drawn scores and features.

    python benchmarks/learning/alarm_promises.py pictures --draws 1000
    python benchmarks/learning/alarm_promises.py groups
    python benchmarks/learning/alarm_promises.py confidence

``pictures``: good pictures and those of a defect, as many of each, with features of which five show the defect by
some standard deviations, and best windows that show it by as many, at most half a one. The verdict is learned as
``lapsvm threshold`` does, and 10 % of new good pictures may alarm. A row has the share of runs in which whole pictures
count, the share of new good pictures that alarm in these and in all runs, with standard errors, and the AUROC of new
pictures by best windows alone and by verdicts.

``groups``: coverage of the intervals of good pictures that alarm, in groups of five or of very unequal sizes, whose
scores are alike by a correlation of 0, .5 or 1: mean and in brackets the least one over cells, at fixed thresholds and
at those chosen on the same pictures.

``confidence``: in which share of training sets no more than the wanted share of new good pictures alarm.

With --quick each takes seconds, and its figures say little.
"""

from collections.abc import Callable, Iterator
from statistics import fmean
from typing import NamedTuple

import numpy as np
from lapsvm.pipelines.cli.study import Into, print_table, study_command
from scipy.stats import norm
from sklearn.model_selection import StratifiedKFold

from lapsvm.arrays import Float64, Index
from lapsvm.detection import Calibration
from lapsvm.evaluation import image_auroc
from lapsvm.inspection.alarm_rate import AlarmRate
from lapsvm.inspection.promises import least_share
from lapsvm.inspection.threshold import choose_threshold
from lapsvm.inspection.whole_pictures import fit_picture_model

SETTINGS = (
    (30, 50, 0.0), (30, 100, 0.25), (30, 100, 0.3), (30, 100, 0.4), (30, 300, 0.3), (30, 300, 0.6), (60, 1000, 0.2),
    (100, 300, 0.2), (60, 100, 0.8), (60, 300, 1.2),
)  # fmt: skip
"""Pictures of a kind, features, and the deviations by which five of these show the defect; the last two are strong."""
WANTED, NEW, FOLDS, QUICK = 0.1, 600, 3, 12
SIZES, SHARES, ALIKE = (5, 10, 20, 50), (0.05, 0.1, 0.2, 0.4), (0.0, 0.5, 1.0)
CONFIDENCE = ((45, 0.05, 0.9), (60, 0.1, 0.9), (200, 0.05, 0.95))


class Pictures(NamedTuple):
    """Features (n, d), scores of best windows (n,) and labels (n,) of pictures."""

    means: Float64
    best: Float64
    y: Index


class Run(NamedTuple):
    """Whether whole pictures count, the share of new good pictures that alarm, and AUROC of new pictures."""

    counts: bool
    alarms: float
    alone: float
    verdicts: float


def pictures(draws: int = 300, seed: int = 0, quick: bool = False, into: Into = None) -> None:
    """Print how many new good pictures alarm where whole pictures count."""
    titles = ("pictures, features, signal", "runs in which they count", "alarms there", "alarms in all runs",
              "AUROC of best windows", "AUROC of decisions")  # fmt: skip
    print_table(titles, whole_picture_rows(QUICK if quick else draws, seed), into)


def whole_picture_rows(repetitions: int, seed: int) -> Iterator[list[str]]:
    """Yield a row for each of `SETTINGS`."""
    for number, (of_kind, features, signal) in enumerate(SETTINGS):
        rng = np.random.default_rng([seed, number])
        runs = [one_run(of_kind, features, signal, rng) for _ in range(repetitions)]
        there = [run.alarms for run in runs if run.counts]
        figures = f"{len(there) / len(runs):.2f}", with_error(there), with_error([run.alarms for run in runs])
        aurocs = (f"{fmean(run[place] for run in runs):.3f}" for place in (2, 3))
        yield [f"{of_kind} + {of_kind}, {features:,}, {signal:g}", *figures, *aurocs]


def with_error(values: list[float]) -> str:
    """Return the mean of some values with its standard error."""
    return f"{np.mean(values):.3f} ± {np.std(values) / np.sqrt(len(values)):.3f}" if values else "-"


def drawn(number: int, features: int, signal: float, rng: np.random.Generator) -> Pictures:
    """Return a number of good pictures, and as many of a defect."""
    y = np.repeat([-1, 1], number)
    means, best = rng.normal(size=(2 * number, features)), rng.normal(size=2 * number) + min(signal, 0.5) * (y > 0)
    means[y > 0, :5] += signal
    return Pictures(means, best, y)


def one_run(number: int, features: int, signal: float, rng: np.random.Generator) -> Run:
    """Learn verdicts of drawn pictures, choose the threshold, and judge new ones."""
    seen, new, fold = drawn(number, features, signal, rng), drawn(NEW, features, signal, rng), np.zeros(2 * number, int)
    parts = StratifiedKFold(FOLDS, shuffle=True, random_state=int(rng.integers(2**31))).split(seen.means, seen.y)
    for place, (_, test) in enumerate(parts, 1):
        fold[test] = place
    alone, fitted = Calibration.fit(seen.best, seen.y), fit_picture_model(*seen, fold)
    held_out, of_new = alone.probability(seen.best), alone.probability(new.best)
    auroc = image_auroc(of_new, new.y) or 0.0
    if fitted is not None:
        held_out, of_new = fitted.held_out, fitted.model.probability(new.best, new.means @ fitted.model.coef)
    threshold = choose_threshold(held_out[seen.y < 0], WANTED)
    alarms = float((of_new[new.y < 0] >= threshold).mean())
    return Run(fitted is not None, alarms, auroc, image_auroc(of_new, new.y) or 0.0)


def groups(draws: int = 600, seed: int = 0, quick: bool = False, into: Into = None) -> None:
    """Print the coverage of intervals of good pictures in groups."""
    titles = ["groups", *(f"{kind}, {size} sizes" for kind in ("fixed", "chosen") for size in ("equal", "unequal"))]
    rng, count = np.random.default_rng(seed), QUICK if quick else draws
    print_table(titles, ([f"{size}", *coverages(size, count, rng)] for size in SIZES), into)


def coverages(n_groups: int, repetitions: int, rng: np.random.Generator) -> Iterator[str]:
    """Yield the coverages at fixed and chosen thresholds, of equal and unequal groups."""
    for is_chosen in (False, True):
        for sizes_of in (equal_sizes, unequal_sizes):
            cells = [
                coverage(sizes_of(n_groups, rng), alike, share if is_chosen else float(norm.isf(share)), is_chosen, rng)
                for alike in ALIKE
                for share in SHARES
                if share >= least_share(n_groups) or not is_chosen
                for _ in range(repetitions)
            ]
            means = np.reshape(cells, (-1, repetitions)).mean(axis=1)
            yield f"{means.mean():.3f} ({means.min():.3f})"


def equal_sizes(n_groups: int, _: np.random.Generator) -> Index:
    """Return the group of each picture, five of each."""
    return np.repeat(np.arange(n_groups), 5)


def unequal_sizes(n_groups: int, rng: np.random.Generator) -> Index:
    """Return the group of each picture, by geometric sizes with a mean of five."""
    return np.repeat(np.arange(n_groups), rng.geometric(0.2, n_groups))


def alike_scores(group: Index, alike: float, rng: np.random.Generator) -> Float64:
    """Return standard normal scores that correlate within groups."""
    of_groups = rng.normal(size=group.max() + 1)[group]
    return np.asarray(np.sqrt(alike) * of_groups + np.sqrt(1 - alike) * rng.normal(size=len(group)))


def coverage(group: Index, alike: float, rule: float, is_chosen: bool, rng: np.random.Generator) -> bool:
    """Return whether the interval of one draw holds the share of new pictures; `rule` is a share or a threshold."""
    scores = alike_scores(group, alike, rng)
    threshold = choose_threshold(scores, rule, group) if is_chosen else rule
    low, high = AlarmRate.among(scores >= threshold, group).interval
    return bool(low <= norm.sf(threshold) <= high)


def confidence(draws: int = 2000, seed: int = 0, quick: bool = False, into: Into = None) -> None:
    """Print in which share of training sets the wanted share is kept."""
    titles = ("pictures, share, confidence", "on average", "with the confidence", "in groups of 1 to 20",
              "alarms on average", "with the confidence")  # fmt: skip
    rng, count = np.random.default_rng(seed), QUICK if quick else draws
    print_table(titles, (confidence_row(*row, count, rng) for row in CONFIDENCE), into)


def confidence_row(number: int, share: float, sure: float, repetitions: int, rng: np.random.Generator) -> list[str]:
    """Return the shares of training sets that keep a promise, and the mean shares of new pictures that alarm."""

    def alarms(group: Index | None, wanted: float | None, scores_of: Callable[[], Float64]) -> Float64:
        found = [choose_threshold(scores_of(), share, group, wanted) for _ in range(repetitions)]
        return np.asarray(norm.sf(found))

    group = unequal_sizes(number, rng)
    mean, kept = (alarms(None, one, lambda: rng.normal(size=number)) for one in (None, sure))
    grouped = alarms(group, sure, lambda: alike_scores(group, 0.5, rng))
    shares = (f"{(values <= share).mean():.3f}" for values in (mean, kept, grouped))
    return [f"{number}, {share:g}, {sure:g}", *shares, f"{mean.mean():.3f}", f"{kept.mean():.3f}"]


main = study_command(pictures, groups, confidence)

if __name__ == "__main__":
    main()
