"""The options that say what windows may take, and which processes do the work."""

from typing import Annotated

import typer

from .option_tables import Group

MEMORY: Group = {
    "memory": (
        "",
        Annotated[
            str | None,
            typer.Option("--memory", help="What windows may take in training, such as 8G; default: 80 % of the rest."),
        ],
    ),
}

EXECUTOR: Group = {
    "executor": (
        "",
        Annotated[
            str | None,
            typer.Option(
                "--executor",
                help="local (default); dask: as many processes as --jobs; dask:tcp://HOST:8786: the workers of a "
                "scheduler.",
            ),
        ],
    ),
}
