"""Calls and CPU time to a certified gap on one AP-SVM problem: 227 positives, 3,120 negatives, 300 features.

    OPENBLAS_NUM_THREADS=1 python benchmarks/papers/solver.py

Standard normal features; the positives are shifted by 0.6 along one direction, which puts the optimum at C = 100 near
91.5, where published runs of other solvers on a problem of this size lie (965 calls by an OCA bundle method).
"""

import time
from collections.abc import Iterator

import numpy as np
from lapsvm.pipelines.cli.study import Cell, Into, print_table, study_command

from lapsvm.models import RankSVM

P, N, DIM, SHIFT = 227, 3120, 300, 0.6


def problem(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    direction = rng.standard_normal(DIM)
    X = rng.standard_normal((P + N, DIM))
    X[:P] += SHIFT * direction / np.linalg.norm(direction)
    return X, np.repeat([1, -1], [P, N])


@study_command
def main(seed: int = 0, into: Into = None) -> None:
    """Solve the problem of a seed with several losses, constants and tolerances."""
    print_table(["loss, C, tolerance", "calls", "CPU s", "objective", "certified gap"], rows(seed), into)


def rows(seed: int) -> Iterator[list[Cell]]:
    """Yield the rows of the table."""
    X, y = problem(seed)
    for loss, C, tol in (("ap", 100, 1e-3), ("ap", 100, 1e-5), ("ap", 1000, 1e-3), ("ndcg", 100, 1e-3)):
        start = time.process_time()
        model = RankSVM(loss, C=C, tol=tol).fit(X, y)
        spent = time.process_time() - start
        yield [f"{loss}, {C}, {tol:.0e}", model.n_iter_, spent, f"{model.objective_:.5g}", f"{model.duality_gap_:.1e}"]


if __name__ == "__main__":
    main()
