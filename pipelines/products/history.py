"""history.csv: one row for every outer step of every training of a run.

Seconds count from the start of the trainings that shared passes; all other columns are reproducible.
"""

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lapsvm.errors import DataError, SettingsError
from lapsvm.files import SMALL_FILE, read_regular

from ..run.folder import RunFolder

CONSTANTS = ("C", "J", "trim")
_COST = ("calls", "passes", "seconds", "candidate_calls", "certified")
_STEP = ("step", "objective", "dual", "gap", *_COST, "planes", "changed")
HISTORY_COLUMNS = ("class", "role", *CONSTANTS, *_STEP)


def write_history(run: RunFolder, rows: Sequence[dict[str, Any]], say: Callable[[str], None], role: str = "") -> None:
    """Append rows; they replace old ones of the same classes whose role begins with `role`.

    No result depends on this file: damaged old rows and failures to write are reported to `say`, and training goes on.
    """
    path, trained = run.history_file, {row["class"] for row in rows}
    try:
        old = read_history(path) if path.is_file() else []
    except DataError as error:
        say(f"{error} Its rows are left out.")
        old = []
    kept = [row for row in old if row["class"] not in trained or not row["role"].startswith(role)]
    try:
        run.write(path, _as_csv([*kept, *rows]))
    except (OSError, SettingsError) as error:  # a full disk, or a file of another program
        say(f"history.csv is not written: {error}")


def read_history(path: Path) -> list[dict[str, str]]:
    """Return the rows of history.csv, DataError if it is damaged; columns of newer versions may be missing."""
    try:
        text = read_regular(path, "table", SMALL_FILE).decode()
        rows = list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
        is_valid = bool(rows) and text.endswith("\n") and all(map(_is_complete, rows))
    except (ValueError, csv.Error):
        is_valid = False
    if not is_valid:
        raise DataError(f"{path} is damaged: it is no table of outer steps.")
    return rows


def _is_complete(row: dict[str, str]) -> bool:
    """Return whether a row has the cells that readers need, with finite numbers."""
    numbers = (row.get(name, "") for name in ("objective", "gap"))
    optional = (row.get(name) or "0" for name in ("passes", "seconds"))
    cells = None not in row and None not in row.values() and {"class", "role"} <= row.keys()
    return cells and all(math.isfinite(float(number)) for number in (*numbers, *optional))


def _as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, HISTORY_COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
