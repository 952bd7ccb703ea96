"""Calls and CPU time to a certified gap on one AP-SVM problem: 227 positives, 3,120 negatives, 300 features.

    OPENBLAS_NUM_THREADS=1 python benchmarks/ranking/solver.py

Standard normal features; the positives are shifted by 0.6 along one direction, which puts the optimum at C = 100 near
91.5, where published runs of other solvers on a problem of this size lie (965 calls by an OCA bundle method).
"""

import time
from collections.abc import Iterator

import numpy as np
from lapsvm.pipelines.cli.study import Cell, print_table, study_command

from lapsvm.models import RankSVM

P, N, DIM, SHIFT = 227, 3120, 300, 0.6


def problem(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    direction = rng.standard_normal(DIM)
    X = rng.standard_normal((P + N, DIM))
    X[:P] += SHIFT * direction / np.linalg.norm(direction)
    return X, np.repeat([1, -1], [P, N])


@study_command
def main(seeds: int = 3) -> None:
    """Solve the problem of some seeds, with several losses, constants and tolerances."""
    print_table(["seed", "loss", "C", "tol", "calls", "CPU s", "objective", "certified gap"], rows(seeds))


def rows(seeds: int) -> Iterator[list[Cell]]:
    """Yield the rows of the table."""
    cases = [("ap", C, tol) for C, tol in ((1, 1e-3), (100, 1e-3), (100, 1e-5), (1000, 1e-3))] + [("ndcg", 100, 1e-3)]
    for seed in range(seeds):
        X, y = problem(seed)
        for loss, C, tol in cases:
            start = time.process_time()
            model = RankSVM(loss, C=C, tol=tol).fit(X, y)
            spent = time.process_time() - start
            solved = f"{model.objective_:.5g}", f"{model.duality_gap_:.2g}"
            yield [seed, loss, C, f"{tol:g}", model.n_iter_, spent, *solved]


if __name__ == "__main__":
    main()
