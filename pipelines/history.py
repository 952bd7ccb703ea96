"""history.csv: one row for every outer step of every training of a run.

Seconds count from the beginning of the trainings that shared passes; all else is the same whenever it is repeated.
"""

import csv
import io
from collections.abc import Sequence
from typing import Any

from lapsvm.latent import LatentSolution

from .fitting import Constants
from .run_folder import RunFolder

CONSTANTS = ("C", "J", "ignored")
_COST = ("calls", "passes", "seconds", "candidate_calls", "proved")
_STEP = ("step", "objective", "dual", "gap", *_COST, "planes", "changed", "temperature", "share")
HISTORY_COLUMNS = ("class", "role", *CONSTANTS, *_STEP)


def history_rows(class_name: str, role: str, constants: Constants, solution: LatentSolution) -> list[dict[str, Any]]:
    """Return one row of history.csv per outer step."""
    return [{"class": class_name, "role": role, **constants.known(), **step} for step in solution.history]


def write_history(run: RunFolder, rows: Sequence[dict[str, Any]], role: str = "") -> None:
    """Write the new rows after the old ones, but for those of the same classes whose role begins with `role`."""
    trained, old = {row["class"] for row in rows}, []
    if run.history_file.is_file():
        with run.history_file.open(encoding="utf-8", newline="") as file:
            old = [
                row for row in csv.DictReader(file) if row["class"] not in trained or not row["role"].startswith(role)
            ]
    text = io.StringIO()
    writer = csv.DictWriter(text, HISTORY_COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows([*old, *rows])
    run.write(run.history_file, text.getvalue())
