"""`lapsvm tune`: `train` with the grids of the thesis (section 4.1)."""

from collections.abc import Mapping
from typing import Any

from ..cli.parsing import setting_values
from ..run.folder import RunFolder
from ..stages.registry import run_stages

C_GRID = tuple(10.0**power for power in range(-3, 5))
J_GRID = tuple(10.0**power for power in range(-4, 2))  # times (|P| + |N|) / |P|
TRIM_GRID = tuple(tenths / 10 for tenths in range(10))  # the thesis's c
FOLDS = 5


def tune(options: Mapping[str, Any]) -> None:
    """Choose the constants of a run's classes, train with them and tell how every candidate did."""
    run = RunFolder(options["out"])
    given = setting_values(options)
    learner = run.require_settings("tune").with_values(given).train.learner
    run_stages(options, ("tune",), defaults(learner) | given)


def defaults(learner: str) -> dict[str, Any]:
    """Return the thesis's grids as settings, J and c where the learner has them."""
    values: dict[str, Any] = {"train.C": C_GRID, "train.folds": FOLDS, "train.path": True}
    if learner == "latent_svm":
        values |= {"train.J": J_GRID, "train.J_relative": True, "train.trim": TRIM_GRID}
    return values
