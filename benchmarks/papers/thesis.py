"""The latent structural SVM beside latent AP-SVM, and the bound of proposition 1: claims of A. Behl's thesis.

    python benchmarks/papers/thesis.py counterexample     table A.1, and how often the greedy search misses the best
    python benchmarks/papers/thesis.py learners           test AP and time on planted bags
    python benchmarks/papers/thesis.py bound              both bounds of the AP loss, as a table and a figure

Planted bags: 20 windows in 16 dimensions, unit noise; 30 % of the bags are positive, 3 of their windows are shifted by
3 in one direction. `learners` trains on 60 bags, tests on 300, and chooses C by 3-fold cross-validation on the former.
"""

import itertools
import warnings
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import Annotated, Any

import numpy as np
from claims import REPRODUCED, Mean, claim, print_claims, times
from lapsvm.pipelines.cli.study import Cell, Given, Into, alternate, print_table, study_command
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from lapsvm.arrays import Array, Float64
from lapsvm.latent.cccp.joint_inference import greedy_joint_ranking
from lapsvm.models import LatentRankSVM, LatentStructSVM, LatentSVM
from lapsvm.ranking import APLoss, average_precision, most_violated_ranking

GRID = (0.01, 0.1, 1.0, 10.0, 100.0)
MODELS: dict[str, Any] = {
    "latent AP-SVM": LatentRankSVM("ap", top=1),
    "latent SVM": LatentSVM(fit_intercept=True),
    "latent SSVM": LatentStructSVM(),
    'latent SSVM, truth="any"': LatentStructSVM(truth="any"),
}
TABLE_A1 = np.array([(4.0, 8.0), (7.0, 6.0), (1.0, 9.0), (0.0, 7.0)]), np.array([-1, 1, -1, 1])
SIZES = ((2, 2), (2, 3), (3, 3), (3, 4))
STEPS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # times the trained weights, of `bound`
Quick = Annotated[bool, Given("--quick", help="Few bags and draws.")]


def planted(seed: int, n_bags: int, size: int = 20, dim: int = 16, witnesses: int = 3) -> tuple[Float64, Array]:
    """Return bags (n_bags, size, dim), and their labels."""
    rng = np.random.default_rng(seed)
    windows = rng.normal(size=(n_bags, size, dim))
    y = np.where(np.arange(n_bags) < 0.3 * n_bags, 1, -1)
    for bag in np.flatnonzero(y > 0):
        windows[bag, rng.choice(size, witnesses, replace=False), 0] += 3
    return windows, y


def counterexample(quick: Quick = False) -> None:
    """Search table A.1, and rankings drawn at random, greedily and exhaustively."""
    draws = 10 if quick else 200
    print_table(["P, N", "not the best ranking", "mean shortfall", "largest"], (missed(*of, draws) for of in SIZES))
    windows, labels = TABLE_A1
    # F of unnormalised scores, as the thesis prints it, is F of scores times P N
    high, low = (4 * end for end in (windows.max(axis=1), windows.min(axis=1)))
    found = greedy_joint_ranking(high, low, labels).value, best_value(high[[1, 3, 0, 2]], low[[1, 3, 0, 2]], 2)
    print()
    claimed = zip(("greedy search", "best"), found, (18.0, 22.6), strict=True)
    print_claims(exact_claim(f"table A.1: {name}", value, paper) for name, value, paper in claimed)


def exact_claim(what: str, value: float, paper: float) -> list[Cell]:
    """Return the row of a number that has no interval."""
    return [what, f"{value:.1f}", "exact", f"{paper:.1f}", REPRODUCED if round(value, 1) == paper else "not"]


def missed(n_pos: int, n_neg: int, draws: int) -> list[Cell]:
    """Return the row of how often the greedy search is not the best, with windows as different as samples are."""
    rng, lacks = np.random.default_rng(0), []
    for _ in range(draws):
        ends = 0.3 * rng.normal(size=(2, n_pos + n_neg))
        high, low = ends.max(axis=0), ends.min(axis=0)
        greedy = greedy_joint_ranking(high, low, np.repeat([1, -1], [n_pos, n_neg]))
        lacks.append(best_value(high, low, n_pos) - greedy.value)
    short = [lack for lack in lacks if lack > 1e-9] or [0.0]
    share = np.mean([lack > 1e-9 for lack in lacks])
    return [f"{n_pos}, {n_neg}", f"{100 * share:.0f} %", float(np.mean(short)), max(short)]


def best_value(high: Float64, low: Float64, n_pos: int) -> float:
    """Return the largest Delta + F over all rankings and windows, the positives first in the scores."""
    n_neg, values = len(high) - n_pos, []
    for positions in itertools.combinations(range(len(high)), n_pos):
        above = np.array(positions) - np.arange(n_pos)
        below = np.searchsorted(above, np.arange(n_neg), side="right")  # positives above the k-th negative
        coefficients = np.append(n_neg - 2.0 * above, n_pos - 2.0 * below) / (n_pos * n_neg)
        sides = (slice(0, n_pos), coefficients[:n_pos]), (slice(n_pos, None), coefficients[n_pos:])
        values.append(
            APLoss().value(above, n_neg) + sum(best_assignment(high[side], low[side], of) for side, of in sides)
        )
    return max(values)


def best_assignment(high: Float64, low: Float64, coefficients: Float64) -> float:
    """Return the largest sum of coefficients times scores over all assignments and windows."""
    orders = map(np.array, itertools.permutations(coefficients))
    return max(float(np.maximum(order * high, order * low).sum()) for order in orders)


def learners(quick: Quick = False, into: Into = None) -> None:
    """Train all learners on planted bags."""
    seeds = range(2 if quick else 5)
    found = {name: [tested(model, seed, quick) for seed in seeds] for name, model in MODELS.items()}
    table = {name: np.array(rows).T for name, rows in found.items()}
    rows = ([name, *(float(value) for value in of.mean(axis=1))] for name, of in table.items())
    print_table(["learner", "test AP", "CPU s per seed"], rows, into)
    print()
    print_claims(learner_claims(table))


def tested(model: Any, seed: int, quick: bool) -> tuple[float, float]:
    """Return test AP and CPU seconds of a search for C and the last fit."""
    bags, y = planted(seed, 14 if quick else 60)
    begin = process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message="training ended at w = 0")
        folds = StratifiedKFold(3, shuffle=True, random_state=0)
        search = GridSearchCV(model, {"C": GRID[2:3] if quick else GRID}, cv=folds).fit(list(bags), y)
    spent = process_time() - begin
    test, labels = planted(seed + 1000, 300)
    return average_precision(search.decision_function(list(test)), labels), spent


def learner_claims(table: dict[str, Float64]) -> Iterator[list[Cell]]:
    """Yield the claims of table 4.1, and the time of inference."""
    first = table["latent AP-SVM"]
    for other, paper in (("latent SVM", 0.446 - 0.395), ("latent SSVM", 0.446 - 0.409)):
        yield claim(f"test AP: latent AP-SVM less {other}", Mean.of(first[0] - table[other][0]), paper)
    yield times("seconds of latent SSVM over latent AP-SVM's", table["latent SSVM"][1], first[1], 1.0, "more")
    labels = np.repeat([1, -1], [12, 28])
    high = np.random.default_rng(0).normal(1, 1, 40)
    low = high - 1
    calls = {
        "exact": lambda: most_violated_ranking(high, labels),
        "greedy": lambda: greedy_joint_ranking(high, low, labels),
    }
    rounds = [alternate(calls, 1) for _ in range(3)]
    name = "a call of the greedy search over the exact one's, P = 12, N = 28"
    yield times(name, *([one[name] for one in rounds] for name in ("greedy", "exact")), 1.0, "more")


def bound(
    quick: Quick = False,
    figure: Annotated[Path | None, Given(help="Draw the bounds into this file.")] = None,
    into: Into = None,
) -> None:
    """Compute the bounds of the AP loss on the training bags, along multiples of trained weights."""
    seeds = range(1 if quick else 5)
    curves = {step: np.array([bounds(*of, step) for of in map(trained_weights, seeds)]) for step in STEPS}
    titles = ["AP loss", "latent AP-SVM", "latent SSVM, A.1", "latent SSVM, 2.9"]
    print_table(["weights times", *titles], ([f"{step:g}", *of.mean(0).tolist()] for step, of in curves.items()), into)
    print()
    print_claims(bound_claims(np.array(list(curves.values()))))
    if figure:
        draw(figure, titles, curves)


def trained_weights(seed: int) -> tuple[Float64, Array, Float64]:
    """Return bags, labels and latent AP-SVM's weights."""
    bags, y = planted(seed, 30)
    return bags, y, LatentRankSVM("ap", C=10.0, top=1).fit(list(bags), y).coef_


def bounds(bags: Float64, y: Array, w: Float64, step: float) -> tuple[float, ...]:
    """Return the AP loss, and the bounds of problems 3.3, A.1 and 2.9, at multiples of weights."""
    scores = step * (bags @ w)
    high, low = scores.max(axis=1), scores.min(axis=1)
    structural, positive = greedy_joint_ranking(high, low, y).value - high[y > 0].mean(), y > 0
    anyone, imputed = (structural + ends[~positive].mean() for ends in (high, low))
    return 1 - average_precision(high, y), most_violated_ranking(high, y).violation, anyone, imputed


def bound_claims(curves: Float64) -> Iterator[list[Cell]]:
    """Yield how much looser the latent SSVM's bounds (steps, seeds, 4) are than latent AP-SVM's."""
    loss, ours, anyone, imputed = np.moveaxis(curves[1:], 2, 0)
    for name, other in (("A.1", anyone), ("2.9", imputed)):
        gap = other - ours
        where = f"; {(gap >= -1e-9).mean():.0%} of the weights"
        yield claim(f"latent SSVM's bound {name} less latent AP-SVM's{where}", Mean.of(gap.mean(axis=0)), "above 0")
    yield claim("latent AP-SVM's bound less the AP loss", Mean.of((ours - loss).mean(axis=0)), "above 0")


def draw(path: Path, titles: list[str], curves: dict[float, Float64]) -> None:
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "lapsvm"
    figure, panel = plt.subplots(figsize=(6, 4), layout="constrained")
    for title, values in zip(titles, np.array([of.mean(0) for of in curves.values()]).T, strict=True):
        panel.plot(list(curves), values, marker=".", label=title)
    panel.set(xlabel="multiple of latent AP-SVM's weights", ylabel="AP loss and bounds", ylim=(0, 4))
    panel.grid(visible=True, alpha=0.3)
    panel.legend()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)


main = study_command(counterexample, learners, bound)

if __name__ == "__main__":
    main()
