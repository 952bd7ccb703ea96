"""The options that name other programs' files of windows and features."""

from pathlib import Path
from typing import Annotated, Any

import typer

from lapsvm.errors import OptionError

from ..run.settings import FILE, IMPORTED
from .option_tables import FEATURES, Group

READING: Group = {
    "format": (
        "windows.source.format",
        Annotated[str | None, typer.Option("--format", help="npz, npy, json or mat; default: by the suffix.")],
    ),
    "boxes": (
        "windows.source.boxes",
        Annotated[
            str | None,
            typer.Option("--boxes", help="xyxy, yxyx or xywh; this and the next two: default of the format."),
        ],
    ),
    "base": (
        "windows.source.base",
        Annotated[int | None, typer.Option("--base", help="Number of the first pixel: 0 or 1.", min=0, max=1)],
    ),
    "edges": (
        "windows.source.edges",
        Annotated[
            str | None, typer.Option("--edges", help="inclusive: x2, y2 are a box's last pixels; exclusive: behind it.")
        ],
    ),
    "boxes_name": (
        "windows.source.boxes_name",
        Annotated[str | None, typer.Option("--boxes-name", help="Name of the array of boxes.")],
    ),
    "clip": (
        "windows.source.clip",
        Annotated[bool | None, typer.Option("--clip/--no-clip", help="Cut boxes that reach out of the picture.")],
    ),
}

PROPOSALS: Group = {
    "proposals": (
        "windows.source.files",
        Annotated[
            list[Path] | None,
            typer.Option("--proposals", help="File or folder with windows from elsewhere; several for several sets."),
        ],
    ),
    **READING,
}

IMPORT: Group = {
    "sources": (
        "windows.source.files",
        Annotated[
            list[Path] | None,
            typer.Argument(help="Files or folders with windows and features; several for several sets."),
        ],
    ),
    **READING,
    "features_name": (
        "windows.source.features_name",
        Annotated[str | None, typer.Option("--features-name", help="Name of the array of features.")],
    ),
    "drop_equal": (
        "windows.source.drop_equal",
        Annotated[
            bool | None,
            typer.Option(
                "--drop-equal-boxes/--keep-equal-boxes", help="Leave out boxes that are an annotated object's."
            ),
        ],
    ),
    "dtype": FEATURES["dtype"],
}


def source_values(options: dict[str, Any]) -> dict[str, Any]:
    """Return dotted setting -> value for the options of this file that were given, and what they entail.

    Raises
    ------
    OptionError
        If another source of windows is named beside ``--proposals``.
    """
    entries = PROPOSALS | IMPORT
    named = {entries[name][0]: value for name, value in options.items() if name in entries and name != "dtype"}
    given = {name: value for name, value in named.items() if value is not None and value != []}
    if "windows.source.files" in given:
        given["windows.source.files"] = tuple(str(path.resolve()) for path in given["windows.source.files"])
    if options.get("proposals"):
        if options.get("windows") not in (None, FILE):
            raise OptionError(f"options --proposals and --windows must not go together, got {options['windows']!r}.")
        given["windows.method"] = FILE
    if "sources" in options:
        given |= {"windows.method": IMPORTED, "windows.max_windows": 0, "features.extractors": (IMPORTED,)}
    return given
