"""Command lines of scripts that are no verbs, such as those of `benchmarks/`."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from lapsvm.errors import OptionError

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


def split_names(option: str, text: str, known: Any = None) -> list[str]:
    """Return the names in a comma-separated option.

    Raises
    ------
    OptionError
        If there is none, or one is not in `known`.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise OptionError(f"option {option} must name one or more, got {text!r}.")
    for name in names:
        if known is not None and name not in known:
            raise OptionError(f"option {option} must name some of {', '.join(known)}, got {name!r}.")
    return names
