"""`lapsvm tune`: `train` with the grids of the thesis (section 4.1)."""

from typing import Any

C_GRID = tuple(10.0**power for power in range(-3, 5))
J_GRID = tuple(10.0**power for power in range(-4, 2))  # times (|P| + |N|) / |P|
TRIM_GRID = tuple(tenths / 10 for tenths in range(10))  # the thesis's c
FOLDS = 5


def defaults(learner: str) -> dict[str, Any]:
    """Return the thesis's grids as settings, J and c where the learner has them."""
    values: dict[str, Any] = {"train.C": C_GRID, "train.folds": FOLDS, "train.path": True}
    if learner == "latent_svm":
        values |= {"train.J": J_GRID, "train.J_relative": True, "train.trim": TRIM_GRID}
    return values
