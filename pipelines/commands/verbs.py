"""The command line: one file per verb, with its options, its help and what it does; the stages share one.

Every expected failure, option parsing included, is one line on standard error and exit status 2. What takes long to
import is imported when a verb runs, so that help is there at once.
"""

import sys
from typing import Annotated

import typer

from ..cli.application import call
from ..cli.parameters import app

# in the order of help
# isort: off
from . import stages, evaluate, compare, threshold, predict, export, review, verify  # noqa: F401

__all__ = ["app", "main"]


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 2 an expected failure, 130 interrupted."""
    given = sys.argv[1:] if arguments is None else arguments
    call(app, given or ["--help"], "lapsvm")


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    """Object detectors from image-level labels, trained on average precision itself."""
    if version:
        from lapsvm import __version__

        typer.echo(__version__)
        raise typer.Exit
