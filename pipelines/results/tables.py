"""Figures as tables on a terminal."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

TITLES = {
    "ap_11point": "AP 11-point",
    "ap_area": "AP area",
    "corloc": "CorLoc",
    "image_ap": "image AP",
    "coco_ap": "COCO AP",
    "coco_ap50": "AP50",
    "coco_ap75": "AP75",
    "coco_ar100": "AR100",
    "npos": "objects",
}


def print_table(table: Mapping[str, Any], title: str) -> None:
    """Print classes and means on standard output."""
    measures = [name for name in TITLES if any(name in row for row in table["classes"].values())]
    printed = Table(title=title, title_justify="left")
    printed.add_column("class")
    for name in measures:
        printed.add_column(TITLES[name], justify="right")
    for class_name, row in table["classes"].items():
        printed.add_row(class_name, *(_shown(row.get(name)) for name in measures))
    printed.add_section()
    printed.add_row("mean", *("" if name == "npos" else _shown(table["mean"].get(name)) for name in measures))
    Console(highlight=False, markup=False, emoji=False).print(printed)


def _shown(value: float | None) -> str:
    """Return a number as a table shows it."""
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.3f}"
