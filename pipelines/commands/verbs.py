"""The command line: one file per verb, with its options, its help and its work; the stages share one.

Every expected failure, option parsing included, is one line on standard error and exit status 2. What takes long to
import is imported when a verb runs, so that help is there at once.
"""

import sys

import click

from ..cli.application import COMPLETION, call
from ..cli.parameters import app, printing

# in the order of help
# isort: off
from . import stages, evaluate, compare, threshold, predict, export, review, verify  # noqa: F401

__all__ = ["app", "main"]


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 2 an expected failure, 130 interrupted."""
    given = sys.argv[1:] if arguments is None else arguments
    call(app, given or ["--help"], "lapsvm")


def _print_version(_: click.Context) -> None:
    from lapsvm import __version__

    click.echo(__version__)


def _print_completion(ctx: click.Context, _: click.Parameter, shell: str | None) -> None:
    from click.shell_completion import get_completion_class

    made_by = get_completion_class(shell) if shell else None
    if made_by is not None and not ctx.resilient_parsing:
        click.echo(made_by(app, {}, "lapsvm", COMPLETION).source())
        ctx.exit()


app.params += [
    printing("--version", "Print the version and exit.", _print_version),
    click.Option(
        ["--show-completion"],
        type=click.Choice(("bash", "zsh", "fish")),
        metavar="SHELL",
        is_eager=True,
        expose_value=False,
        callback=_print_completion,
        help="Print the script with which bash, zsh or fish completes options and values, and exit.",
    ),
]
