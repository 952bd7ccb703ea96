"""The command line: one verb per stage, `run` and `demo` for all stages, and verbs for their results.

Every expected failure, option parsing included, is one line on standard error and exit status 2.
"""

import sys
from typing import Annotated

import typer

from ..cli.application import call
from ..cli.parameters import app
from . import result_verbs, stage_verbs

__all__ = ["app", "main", "result_verbs", "stage_verbs"]


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 2 an expected failure, 130 interrupted."""
    given = sys.argv[1:] if arguments is None else arguments
    call(app, given or ["--help"], "lapsvm")


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Object detectors from image-level labels, trained on average precision itself."""
    if version:
        from lapsvm import __version__

        typer.echo(__version__)
        raise typer.Exit
