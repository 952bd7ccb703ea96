"""Finished runs side by side, repetitions together: means with intervals over pictures.

    python -m lapsvm.pipelines.studies.ablation.repetitions --row plain=RUN,RUN --row best=RUN,RUN --out DIR

A row is a name and its runs: the same recipe with other seeds, starts or draws of the data. DIR/spread.json and
DIR/spread.md hold what is printed; the first row is what the others are compared with, picture by picture.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from lapsvm.errors import LapsvmError, OptionError

from ...cli.parameters import PATH
from ...run.limits import MAX_DRAWS
from ...run.ownership import table_files
from .rows import Row, rows_markdown, rows_table, write_rows


def parse_row(text: str) -> Row:
    """Return a row from NAME=RUN,RUN.

    Raises
    ------
    OptionError
        If it has no name or no run.
    """
    name, _, runs = text.partition("=")
    folders = [Path(item.strip()) for item in runs.split(",") if item.strip()]
    if not name or not folders:
        raise OptionError(f"option --row must be NAME=RUN,RUN, got {text!r}.")
    return Row(name, folders)


def main(
    row: Annotated[list[str], typer.Option(help="NAME=RUN,RUN; once for every line of the table.")],
    out: Annotated[Path, typer.Option(help="Folder for the table.", **PATH)],
    draws: Annotated[int, typer.Option(min=1, max=MAX_DRAWS, help="Bootstrap draws of the pictures.")] = 1000,
    quiet: Annotated[bool, typer.Option("--quiet", help="No table.")] = False,
) -> None:
    """Put runs side by side."""
    try:
        table_files(out, "spread", "rows", write=False)
        table = rows_table([parse_row(text) for text in row], draws)
        write_rows(out, "spread", table)
    except LapsvmError as error:
        typer.echo(f"spread: {error}", err=True)
        sys.exit(2)
    if not quiet:
        typer.echo(rows_markdown(table))


if __name__ == "__main__":
    typer.run(main)
