"""Average precision of bags: LatentRankSVM("ap") and LatentSVM compared with an MI-SVM loop over LinearSVC.

    python benchmarks/passes/bags_ap.py

300 bags of 100 windows with 256 standard normal features; 30 % are positive and hold five windows shifted by 3 along
one direction. C is chosen by 3-fold cross-validation on the training bags; 300 other bags are for testing. Every method
starts from the means of the bags and searches the same number of values of C.
"""

import time
import warnings
from dataclasses import replace

import numpy as np
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import LinearSVC

from lapsvm.bags import Bags
from lapsvm.latent import fit_many
from lapsvm.models import LatentRankSVM, LatentSVM

N_BAGS, SIZE, DIM, SHARE, WITNESSES, SHIFT = 300, 100, 256, 0.3, 5, 3.0
GRID = (0.01, 0.1, 1.0, 10.0, 100.0)
SVC_GRID = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)


def draw(rng: np.random.Generator, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    windows = rng.standard_normal((N_BAGS, SIZE, DIM)).astype(np.float32)
    y = rng.permutation(np.where(np.arange(N_BAGS) < SHARE * N_BAGS, 1, -1))
    for bag in np.flatnonzero(y > 0):
        windows[bag, rng.choice(SIZE, WITNESSES, replace=False)] += SHIFT * direction
    return windows, y


def as_bags(windows: np.ndarray) -> Bags:
    return Bags(windows.reshape(-1, DIM), np.arange(0, len(windows) * SIZE + 1, SIZE))


def latent(model: LatentRankSVM | LatentSVM, windows: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the C of the best cross-validated AP, and the weights trained with it."""
    bags = as_bags(windows)
    bags = bags.scaled(1 / bags.mean_norm())
    held_out = [part for _, part in StratifiedKFold(3, shuffle=True, random_state=0).split(y, y)]
    folds = [np.where(np.isin(np.arange(N_BAGS), part), 0, y) for part in held_out]
    problems = [replace(model.problem(fold), C=C) for C in GRID for fold in folds]
    scores = bags.best(np.stack([solution.coef for solution in fit_many(problems, bags)], axis=1)).score
    parts = held_out * len(GRID)
    quality = [average_precision_score(y[part], scores[part, j]) for j, part in enumerate(parts)]
    best = GRID[int(np.argmax(np.reshape(quality, (len(GRID), 3)).mean(axis=1)))]
    return best, fit_many([replace(model.problem(y), C=best)], bags)[0].coef


def witness_loop(windows: np.ndarray, y: np.ndarray, C: float) -> np.ndarray:
    """Alternate LinearSVC and the choice of one window per positive bag until the windows converge; return weights."""
    negatives, witnesses = windows[y < 0].reshape(-1, DIM), windows[y > 0].mean(axis=1)
    for _ in range(10):
        X = np.vstack([witnesses, negatives])
        labels = np.repeat([1, -1], [len(witnesses), len(negatives)])
        coef = LinearSVC(C=C, class_weight="balanced", dual=False).fit(X, labels).coef_[0]
        chosen = np.take_along_axis(windows[y > 0], (windows[y > 0] @ coef).argmax(1)[:, None, None], axis=1)[:, 0]
        if np.array_equal(chosen, witnesses):
            break
        witnesses = chosen
    return coef


def mi_svm(windows: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    quality = []
    for C in SVC_GRID:
        folds = StratifiedKFold(3, shuffle=True, random_state=0).split(y, y)
        quality.append(np.mean([tested(witness_loop(windows[a], y[a], C), windows[b], y[b]) for a, b in folds]))
    best = SVC_GRID[int(np.argmax(quality))]
    return best, witness_loop(windows, y, best)


def tested(coef: np.ndarray, windows: np.ndarray, y: np.ndarray) -> float:
    return float(average_precision_score(y, (windows @ coef).max(axis=1)))


METHODS = {
    'LatentRankSVM("ap"), defaults': lambda w, y: latent(LatentRankSVM("ap"), w, y),
    'LatentRankSVM("ap", top=1), the plain model': lambda w, y: latent(LatentRankSVM("ap", top=1), w, y),
    "LatentSVM(J=negatives/positives), fitted intercept": lambda w, y: latent(
        LatentSVM(J=(1 - SHARE) / SHARE, fit_intercept=True), w, y
    ),
    "MI-SVM loop over LinearSVC": mi_svm,
}


def main() -> None:
    warnings.simplefilter("ignore")
    print("| method | bag AP, seeds 0 1 2 | mean | C | wall s | CPU s |\n|---|---|---|---|---|---|")
    results: dict[str, list[tuple[float, float, float, float]]] = {name: [] for name in METHODS}
    truth = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        direction = rng.standard_normal(DIM)
        direction /= np.linalg.norm(direction)
        windows, y = draw(rng, direction)
        test, test_y = draw(rng, direction)
        truth.append(tested(direction, test, test_y))
        for name, method in METHODS.items():
            wall, cpu = time.perf_counter(), time.process_time()
            C, coef = method(windows, y)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            results[name].append((tested(coef, test, test_y), C, wall, cpu))
    print(f"| the true direction | {' '.join(f'{ap:.3f}' for ap in truth)} | {np.mean(truth):.3f} | | | |")
    for name, rows in results.items():
        ap, C, wall, cpu = zip(*rows, strict=True)
        print(
            f"| {name} | {' '.join(f'{a:.3f}' for a in ap)} | {np.mean(ap):.3f} | {' '.join(f'{c:g}' for c in C)} "
            f"| {np.mean(wall):.1f} | {np.mean(cpu):.1f} |"
        )


if __name__ == "__main__":
    main()
