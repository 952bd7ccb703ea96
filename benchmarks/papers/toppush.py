"""TopPush's time and constants: figures 1 and 2, and the times of table 2, of Li, Jin and Zhou (NIPS 2014).

    OPENBLAS_NUM_THREADS=1 python benchmarks/papers/toppush.py seconds DATA     beside logistic regression and others
    OPENBLAS_NUM_THREADS=1 python benchmarks/papers/toppush.py growth           time over the number of samples
    OPENBLAS_NUM_THREADS=1 python benchmarks/papers/toppush.py constants DATA   steps and ranking over epsilon, lambda

DATA has `libsvm_sets`. CPU seconds on one thread. "the paper's steps" are accelerated gradient steps on the dual of all
samples until the relative gap is epsilon, `TopPush` the solver of the package.
"""

import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import numpy as np
from claims import REPRODUCED, Mean, claim, print_claims, times
from lapsvm.pipelines.cli.study import Cell, Given, Into, alternate, print_table, study_command
from libsvm_sets import Samples, read_set, scaled
from sklearn.model_selection import train_test_split
from toppush_protocol import LEARNERS

from lapsvm.arrays import Array, Float64
from lapsvm.models import TopPush
from lapsvm.optim import accelerated_dual
from lapsvm.ranking import average_precision, positives_at_top

SETS = {"spambase": 0.151 / 0.0311, "w8a": 7.35 / 2.46, "a9a": None, "diabetes": 5.11e-3 / 2.30e-2}
"""The paper's seconds of TopPush over those of logistic regression."""
TIMED = ("toppush", "toppush_early", "logistic_regression", "linear_svm", "infinite_push", "ranksvm_ap", "ranksvm_auc")
SAMPLES, FEATURES, SHARE = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000), 100, 100  # one of SHARE is positive
LAMBDAS = (0.01, 0.1, 1.0, 10.0, 100.0)
EPSILONS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
SPLITS, STEPS = 3, 3_000
Data = Annotated[Path | None, Given(help="The folder of the data.", is_argument=True)]
Quick = Annotated[bool, Given("--quick", help="Small made samples.")]


def made(n: int, seed: int = 0, dim: int = 20, shift: float = 4.0) -> Samples:
    """Return normal samples, the positives shifted along one direction."""
    rng = np.random.default_rng(seed)
    direction, n_pos = rng.standard_normal(dim), max(5, n // SHARE)
    X = rng.standard_normal((n, dim))
    X[:n_pos] += shift * direction / np.linalg.norm(direction)
    return Samples(X, np.repeat([1, -1], [n_pos, n - n_pos]))


def of_set(data: Path | None, name: str) -> Samples:
    """Return a set of the folder, made samples without one."""
    if data is None:
        return made(300)
    samples = read_set(data / "libsvm_sets", name)
    return Samples(scaled(samples.X, samples.X)[0], samples.y)


def seconds(data: Data = None, quick: Quick = False, into: Into = None) -> None:
    """Time a fit of every learner with the constant 1 on whole sets."""
    found: dict[str, list[dict[str, float]]] = {}

    def rows() -> Iterator[list[Cell]]:
        for name in list(SETS)[: 1 if quick else None]:
            samples = of_set(None if quick else data, name)
            calls = {learner: fit(LEARNERS[learner], samples) for learner in TIMED}
            found[name] = [alternate(calls, 1) for _ in range(2 if quick else 5)]
            means = (fmean(one[learner] for one in found[name]) for learner in TIMED)
            yield [f"{name}, {len(samples.y):,}", *(f"{value:.3g}" for value in means)]

    print_table(["set, samples", *TIMED], rows(), into)
    print()
    print_claims(time_claims(found))


def fit(learner: Callable[[float], Any], samples: Samples) -> Callable[[], object]:
    """Return the work of fitting a learner."""

    def work() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            learner(1.0).fit(*samples)

    return work


def time_claims(found: dict[str, list[dict[str, float]]]) -> Iterator[list[Cell]]:
    """Yield TopPush's time over that of logistic regression: here the less the better."""
    for name, rounds in found.items():
        if SETS[name]:
            columns = ([one[learner] for one in rounds] for learner in ("toppush", "logistic_regression"))
            row = times(f"{name}: seconds of TopPush over logistic regression's", *columns, SETS[name])
            yield [*row[:-1], REPRODUCED if float(str(row[1])) <= SETS[name] else "not: more"]


def growth(quick: Quick = False) -> None:
    """Time TopPush over the number of samples."""
    sizes = (300, 600, 1_200) if quick else SAMPLES
    table = {lam: [timed(TopPush(lam), n) for n in sizes] for lam in LAMBDAS}
    rows = ([f"{n:,}", *(f"{table[lam][k]:.3g}" for lam in LAMBDAS)] for k, n in enumerate(sizes))
    print_table(["samples", *(f"lambda {lam:g}, s" for lam in LAMBDAS)], rows)
    print()
    slopes = [np.polyfit(np.log(sizes), np.log(column), 1)[0] for column in table.values()]
    exponent = Mean.of(slopes)
    word = REPRODUCED if exponent.low <= 1 else "not: faster growth"
    print_claims([claim("exponent of time over samples", exponent, "at most 1", ".2f", word)])


def timed(model: Any, n: int) -> float:
    samples = made(n, dim=FEATURES)
    work = fit(lambda _: model, samples)
    begin = time.process_time()
    work()
    return time.process_time() - begin


def constants(data: Data = None, quick: Quick = False) -> None:
    """Count the paper's steps, and measure the ranking, over epsilon with lambda 1, and over lambda with 1e-4."""
    samples = of_set(None if quick else data, "w8a")
    cases = [(epsilon, 1.0) for epsilon in EPSILONS] + [(1e-4, lam) for lam in LAMBDAS]
    table = {case: np.array([of_split(samples, seed, *case) for seed in range(SPLITS)]) for case in cases}
    rows = ([f"{epsilon:.0e}, {lam:g}", *(f"{value:.4g}" for value in table[epsilon, lam].mean(0))]
            for epsilon, lam in cases)  # fmt: skip
    print_table(["epsilon, lambda", "steps", "CPU s", "Pos@Top", "AP"], rows)
    print()
    print_claims(constant_claims(table))


def of_split(samples: Samples, seed: int, epsilon: float, lam: float) -> tuple[float, ...]:
    """Return steps, seconds, Pos@Top and AP on the last third."""
    X, test, y, truth = train_test_split(*samples, test_size=1 / 3, stratify=samples.y, random_state=seed)
    begin = time.process_time()
    solution = accelerated_dual(X[y > 0], X[y < 0], lam, epsilon, max_steps=STEPS)
    spent, scores = time.process_time() - begin, np.asarray(test @ solution.w)
    return solution.n_steps, spent, positives_at_top(scores, truth), average_precision(scores, truth)


def constant_claims(table: dict[tuple[float, float], Array]) -> Iterator[list[Cell]]:
    """Yield the claims of figure 2."""

    def less(first: tuple[float, float], second: tuple[float, float], column: int) -> Float64:
        return table[first][:, column] - table[second][:, column]

    last = Mean.of(less((1e-8, 1.0), (1e-4, 1.0), 2), 0.5)
    word = REPRODUCED if last.low <= 0 else "not: more is better"
    yield claim("Pos@Top of epsilon 1e-8 less 1e-4", last, "nearly none", word=word)
    more = Mean.of(less((1e-8, 1.0), (1e-2, 1.0), 0), 0.5)
    yield claim("steps of epsilon 1e-8 less 1e-2", more, "more", "+.0f")
    fewer = Mean.of(less((1e-4, 0.01), (1e-4, 100.0), 0), 0.5)
    yield claim("steps of lambda 0.01 less 100", fewer, "fewer with a large lambda", "+.0f")


main = study_command(seconds, growth, constants)

if __name__ == "__main__":
    main()
