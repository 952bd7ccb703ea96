"""Solvers with certificates: one-slack cutting planes, the quadratic program over a simplex, and TopPush."""

from lapsvm.optim.accelerated import accelerated_dual
from lapsvm.optim.bundle import Bundle, Plane
from lapsvm.optim.cutting_plane import Solution, cutting_plane, minimise, objective_at, run_with_oracle
from lapsvm.optim.simplex_qp import solve_simplex_qp
from lapsvm.optim.toppush import TopPushSolution, top_push

__all__ = [
    "Bundle",
    "Plane",
    "Solution",
    "TopPushSolution",
    "accelerated_dual",
    "cutting_plane",
    "minimise",
    "objective_at",
    "run_with_oracle",
    "solve_simplex_qp",
    "top_push",
]
