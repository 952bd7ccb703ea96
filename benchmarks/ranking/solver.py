"""Calls and CPU time to a certified gap on one AP-SVM problem: 227 positives, 3,120 negatives, 300 features.

    OPENBLAS_NUM_THREADS=1 python benchmarks/ranking/solver.py

Standard normal features; the positives are shifted by 0.6 along one direction, which puts the optimum at C = 100 near
91.5, where published runs of other solvers on a problem of this size lie (965 calls by an OCA bundle method).
"""

import time

import numpy as np

from lapsvm.models import RankSVM

P, N, DIM, SHIFT = 227, 3120, 300, 0.6


def problem(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    direction = rng.standard_normal(DIM)
    X = rng.standard_normal((P + N, DIM))
    X[:P] += SHIFT * direction / np.linalg.norm(direction)
    return X, np.repeat([1, -1], [P, N])


def main() -> None:
    print("| seed | loss | C | tol | calls | CPU s | objective | certified gap |\n|---|---|---|---|---|---|---|---|")
    cases = [("ap", C, tol) for C, tol in ((1, 1e-3), (100, 1e-3), (100, 1e-5), (1000, 1e-3))] + [("ndcg", 100, 1e-3)]
    for seed in range(3):
        X, y = problem(seed)
        for loss, C, tol in cases:
            start = time.process_time()
            model = RankSVM(loss, C=C, tol=tol).fit(X, y)
            spent = time.process_time() - start
            print(
                f"| {seed} | {loss} | {C} | {tol:g} | {model.n_iter_} | {spent:.3f} | {model.objective_:.5g} "
                f"| {model.duality_gap_:.2g} |"
            )


if __name__ == "__main__":
    main()
