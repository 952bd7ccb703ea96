"""Tables of other programs: CSV in the forms of spreadsheets, and JSON by lines; errors name the line."""

import csv
import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

from lapsvm.arrays import check_distinct
from lapsvm.errors import LabelsError
from lapsvm.files import NOT_PARSED

_DELIMITERS = ";\t"


def csv_rows(path: Path, text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield location and values of each row of a table that is not blank, the header first.

    The values are separated by commas, or by the semicolons or tabs of a header without commas.

    Raises
    ------
    LabelsError
        If quotes are wrong, the header names a column twice, or a row has not one value for each column.
    """
    header = next((line for line in text.splitlines() if line.strip()), "")
    reader = csv.reader(StringIO(text, newline=""), strict=True, delimiter=_delimiter(header))
    width = 0
    try:
        for values in reader:
            row, where = [value.strip() for value in values], f"{path}, line {reader.line_num}"
            if not any(row):
                continue
            if not width:
                width = len(row)
                check_distinct(row, f"{where}: columns must differ", LabelsError)
            if len(row) != width:
                raise LabelsError(f"{where}: a row must have {width} values, got {len(row)}.")
            yield where, row
    except csv.Error as error:
        raise LabelsError(f"{path}, line {reader.line_num}: a row must be CSV: {error}.") from None


def _delimiter(header: str) -> str:
    return next((mark for mark in _DELIMITERS if mark in header and "," not in header), ",")


def parsed(where: str, text: str) -> Any:
    """Return the value of a line or cell of JSON; LabelsError, which names its location, for another text."""
    try:
        return json.loads(text)
    except NOT_PARSED as error:
        reason = str(error).partition(";")[0]  # behind it stands what a program may do
        raise LabelsError(f"{where}: must be JSON, but {reason}, got {text.strip()[:60]!r}.") from None
