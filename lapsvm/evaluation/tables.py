"""Tables of measures per class with their means, for JSON: undefined values are None, never NaN."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lapsvm.errors import NotFiniteError
from lapsvm.files import write_atomically

Row = dict[str, float | int | None]
Table = dict[str, Any]

AP_11POINT, AP_AREA, NPOS, CORLOC, POINTING = "ap_11point", "ap_area", "npos", "corloc", "pointing"
"""Keys of the rows that evaluations of boxes return; `measures` has their titles."""
COCO_MEASURES = (
    "coco_ap", "coco_ap50", "coco_ap75", "coco_ap_small", "coco_ap_medium", "coco_ap_large",
    "coco_ar1", "coco_ar10", "coco_ar100", "coco_ar_small", "coco_ar_medium", "coco_ar_large",
)  # fmt: skip
"""In the order of COCO's own summary."""
COUNTS = (NPOS,)


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are not None, or None if all are."""
    defined = [value for value in values if value is not None]
    return sum(defined) / len(defined) if defined else None


def class_table(*columns: Mapping[str, Mapping[str, float | int | None]]) -> Table:
    """Join rows of several evaluations and add the means.

    Parameters
    ----------
    *columns : mapping of class name to (mapping of measure to number or None)
        For instance ``report.rows()`` or ``{"car": {"image_ap": 0.9}}``. A class that is missing in a mapping gets
        None for its measures.

    Returns
    -------
    dict
        ``{"classes": {name: {measure: value}}, "mean": {measure: value}}``; means are over the classes for
        which a measure is defined; counts (npos) have no mean.
    """
    names = dict.fromkeys(name for column in columns for name in column)
    measures = dict.fromkeys(measure for column in columns for row in column.values() for measure in row)
    classes: dict[str, Row] = {name: dict.fromkeys(measures) for name in names}
    for column in columns:
        for name, row in column.items():
            classes[name].update(row)
    means = {measure: mean(row[measure] for row in classes.values()) for measure in measures if measure not in COUNTS}
    return {"classes": classes, "mean": means}


def write_json(path: str | Path, table: Table) -> None:
    """Write a table as JSON atomically.

    Parameters
    ----------
    path : str or Path
    table : dict

    Raises
    ------
    NotFiniteError
        If a number is NaN or infinite, which JSON does not have.
    """
    try:
        text = json.dumps(table, indent=2, ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise NotFiniteError(f"every number of {path} must be finite or None, got NaN or infinity.") from None
    # names that UTF-8 cannot encode are written as JSON escapes
    write_atomically(path, f"{text}\n".encode("utf-8", "backslashreplace"))
