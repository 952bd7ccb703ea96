"""Solvers with certificates: the one-slack cutting plane and its small quadratic problem."""

from lapsvm.optim.bundle import Bundle, Plane
from lapsvm.optim.cutting_plane import Solution, cutting_plane, drive, minimise, objective_at
from lapsvm.optim.simplex_qp import SimplexSolution, solve_simplex_qp

__all__ = [
    "Bundle",
    "Plane",
    "SimplexSolution",
    "Solution",
    "cutting_plane",
    "drive",
    "minimise",
    "objective_at",
    "solve_simplex_qp",
]
