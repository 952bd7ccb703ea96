"""CPU time of TopPush beside logistic regression: 100,000 samples, 1,000 of them positive, 300 features.

    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python benchmarks/ranking/toppush.py

Standard normal features; the positives are shifted along one direction. By 2 the positives' mean stays within the
convex hull of the negatives, so w = 0 is the minimum; by 4 and 6 there is something to be learned. A time is in
CPU seconds, the median of three fits; the losses solved by cutting planes are fitted once.
"""

import time
import warnings
from statistics import median
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from lapsvm.models import TopPush

P, N, DIM = 1000, 100_000, 300


def problem(shift: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    direction = rng.standard_normal(DIM)
    X = rng.standard_normal((N, DIM))
    X[:P] += shift * direction / np.linalg.norm(direction)
    return X, np.repeat([1, -1], [P, N - P])


def fit_time(model: Any, X: np.ndarray, y: np.ndarray, repeats: int = 3) -> float:
    times = []
    for _ in range(repeats):
        start = time.process_time()
        model.fit(X, y)
        times.append(time.process_time() - start)
    return median(times)


def main() -> None:
    warnings.filterwarnings("ignore", message="w = 0 is the minimum")
    print("| shift | learner | lam | CPU s | bar | passes | objective | certified gap |\n" + 8 * "|---" + "|")
    for shift in (2, 4, 6):
        X, y = problem(shift)
        base = fit_time(LogisticRegression(C=0.01, solver="lbfgs"), X, y)
        print(f"| {shift} | logistic regression (C=0.01) | | {base:.2f} | | | | |", flush=True)
        cases = [("squared_hinge", 1, 3), ("squared_hinge", 0.1, 3), ("logistic", 1, 3), ("exponential", 1, 3)]
        for loss, lam, repeats in cases:
            model = TopPush(lam, loss=loss)
            spent = fit_time(model, X, y, repeats)
            print(
                f"| {shift} | TopPush, {loss} | {lam} | {spent:.2f} | {2 * base + 0.1:.2f} | {model.n_iter_} "
                f"| {model.objective_:.5f} | {model.duality_gap_:.1e} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
