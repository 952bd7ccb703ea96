"""Command lines and tables of scripts that are no verbs, such as those of `benchmarks/`."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from lapsvm.report import cell_text

from ..cli.application import call
from ..cli.parameters import PATH

Root = Annotated[Path | None, typer.Option("--root", help="The folder of the data, if they have moved.", **PATH)]
"""The option of studies that open the data of finished runs."""

Cell = str | float | int | None


def study_command(*functions: Callable[..., None]) -> Callable[..., None]:
    """Return ``main(arguments)``, which runs a function with parsed options and exits as the verbs of lapsvm do.

    Parameters
    ----------
    *functions : callable
        Parameters without a default are arguments of the command, the others its options. The first argument names one
        of several functions, with hyphens.

    Returns
    -------
    callable
        Takes the words of a command line, by default those of the program.
    """
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    for function in functions:
        app.command()(function)

    def main(arguments: Sequence[object] | None = None) -> None:
        call(app, sys.argv[1:] if arguments is None else [str(argument) for argument in arguments])

    return main


def table_lines(titles: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Iterator[str]:
    """Yield the lines of a table in Markdown, each row as soon as it is there.

    Parameters
    ----------
    titles : sequence of str
    rows : iterable of sequences of str, float, int or None
        Floats are given 3 decimals, None becomes "-".
    """
    yield f"| {' | '.join(titles)} |"
    yield "|---" * len(titles) + "|"
    for row in rows:
        yield f"| {' | '.join(map(cell_text, row))} |"


def print_table(titles: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    """Print the lines of a table as they come."""
    for line in table_lines(titles, rows):
        typer.echo(line)
