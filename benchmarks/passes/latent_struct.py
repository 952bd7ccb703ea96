"""The latent structural SVM and latent AP-SVM: quality and time on planted bags, and errors of its inference.

    OPENBLAS_NUM_THREADS=1 python benchmarks/passes/latent_struct.py

Bags of 20 windows in 16 dimensions, unit noise; 30 % of the bags are positive, 3 of their windows are shifted by 3 in
one direction. 60 bags train, 300 test, 3 seeds; C from 0.01 to 100 by 3-fold cross-validation on the training bags.
"""

import itertools
import warnings
from time import process_time

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from lapsvm.latent.cccp.joint_inference import greedy_joint_ranking
from lapsvm.models import LatentRankSVM, LatentStructSVM
from lapsvm.ranking import APLoss, most_violated_ranking

SEEDS = range(3)
GRID = {"C": [0.01, 0.1, 1.0, 10.0, 100.0]}
MODELS = {
    'LatentRankSVM("ap")': LatentRankSVM("ap"),
    "LatentStructSVM()": LatentStructSVM(),
    'LatentStructSVM(truth="any")': LatentStructSVM(truth="any"),
}


def planted(seed: int, n_bags: int, size: int = 20, dim: int = 16, witnesses: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Return bags (n_bags, size, dim), and their labels."""
    rng = np.random.default_rng(seed)
    windows = rng.normal(size=(n_bags, size, dim))
    y = np.where(np.arange(n_bags) < 0.3 * n_bags, 1, -1)
    for i in np.flatnonzero(y > 0):
        windows[i, rng.choice(size, witnesses, replace=False), 0] += 3
    return windows, y


def compare_models() -> None:
    print("| learner | test AP | per seed | C | calls | CPU s per seed |\n|---|---|---|---|---|---|")
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    for name, model in MODELS.items():
        scores, chosen, calls, start = [], [], [], process_time()
        for seed in SEEDS:
            bags, y = planted(seed, 60)
            search = GridSearchCV(model, GRID, cv=folds).fit(list(bags), y)
            test, labels = planted(seed + 1000, 300)
            scores.append(search.score(list(test), labels))
            chosen.append(search.best_params_["C"])
            calls.append(search.best_estimator_.n_iter_)
        cpu_seconds = (process_time() - start) / len(scores)
        each, Cs = ", ".join(f"{score:.3f}" for score in scores), ", ".join(f"{C:g}" for C in chosen)
        counts = ", ".join(map(str, calls))
        print(f"| `{name}` | {np.mean(scores):.3f} | {each} | {Cs} | {counts} | {cpu_seconds:.1f} |", flush=True)


def drawn(rng: np.random.Generator, n_pos: int, n_neg: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the highest and lowest scores of samples with windows that differ as much as the samples do."""
    ends = 0.3 * rng.normal(size=(2, n_pos + n_neg))
    return ends.max(axis=0), ends.min(axis=0), np.repeat([1, -1], [n_pos, n_neg])


def best_value(high: np.ndarray, low: np.ndarray, n_pos: int) -> float:
    """Return the largest Delta + F over all rankings and windows."""
    n_neg, values = len(high) - n_pos, []
    for positions in itertools.combinations(range(len(high)), n_pos):
        above = np.array(positions) - np.arange(n_pos)
        below = np.searchsorted(above, np.arange(n_neg), side="right")  # positives above the k-th negative
        coefficients = np.append(n_neg - 2.0 * above, n_pos - 2.0 * below) / (n_pos * n_neg)
        best = [
            max(
                np.maximum(c * high[side], c * low[side]).sum() for c in map(np.array, itertools.permutations(per_side))
            )
            for side, per_side in (
                (slice(0, n_pos), coefficients[:n_pos]),
                (slice(n_pos, None), coefficients[n_pos:]),
            )
        ]
        values.append(APLoss().value(above, n_neg) + sum(best))
    return max(values)


def count_misses(repeats: int = 200) -> None:
    print("\n| P | N | not the best ranking | mean shortfall | largest |\n|---|---|---|---|---|")
    for n_pos, n_neg in ((2, 2), (2, 3), (3, 3), (3, 4)):
        rng, lacks = np.random.default_rng(0), []
        for _ in range(repeats):
            high, low, labels = drawn(rng, n_pos, n_neg)
            lacks.append(best_value(high, low, n_pos) - greedy_joint_ranking(high, low, labels).value)
        missed = np.array(lacks)[np.array(lacks) > 1e-9]
        mean, most = (missed.mean(), missed.max()) if len(missed) else (0, 0)
        print(f"| {n_pos} | {n_neg} | {100 * len(missed) / repeats:.0f} % | {mean:.3f} | {most:.3f} |", flush=True)


def time_inference() -> None:
    print("\n| P | N | latent AP-SVM, ms | greedy, ms |\n|---|---|---|---|")
    for n_pos, n_neg in ((6, 14), (18, 42), (30, 70), (45, 105)):
        high, low, labels = drawn(np.random.default_rng(0), n_pos, n_neg)
        exact = timed(lambda: most_violated_ranking(high, labels), 100)  # noqa: B023 - called at once
        greedy = timed(lambda: greedy_joint_ranking(high, low, labels), 1)  # noqa: B023
        print(f"| {n_pos} | {n_neg} | {exact:.3f} | {greedy:.0f} |", flush=True)


def timed(work, repeats: int) -> float:
    """Return the CPU milliseconds of one call."""
    start = process_time()
    for _ in range(repeats):
        work()
    return 1e3 * (process_time() - start) / repeats


if __name__ == "__main__":
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.filterwarnings("ignore", message="training ended at w = 0")
    time_inference()
    count_misses()
    print()
    compare_models()
