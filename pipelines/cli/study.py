"""Command lines of scripts that are no verbs, such as those of `benchmarks/`."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from ..cli.application import call
from ..cli.parameters import PATH

Root = Annotated[Path | None, typer.Option("--root", help="The folder of the data, if they have moved.", **PATH)]
"""The option of studies that open the data of finished runs."""


def study_command(function: Callable[..., None]) -> Callable[..., None]:
    """Return ``main(arguments)``, which runs `function` with parsed options and exits as the verbs of lapsvm do."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command()(function)

    def main(arguments: Sequence[object] | None = None) -> None:
        call(app, sys.argv[1:] if arguments is None else [str(argument) for argument in arguments])

    return main
