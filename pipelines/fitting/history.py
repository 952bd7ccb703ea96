"""Rows of history.csv from solutions."""

from typing import Any

from lapsvm.latent import LatentSolution

from .fit import Constants


def history_rows(class_name: str, role: str, constants: Constants, solution: LatentSolution) -> list[dict[str, Any]]:
    """Return one row of history.csv per outer step."""
    return [{"class": class_name, "role": role, **constants.known(), **step} for step in solution.history]
