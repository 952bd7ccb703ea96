"""The command line: one file per verb, with its options, its help and its work; the stages share one.

Every expected failure, option parsing included, is one line on standard error and exit status 2. What takes long to
import is imported when a verb runs, so that help is there at once.
"""

import os
import sys

import click

from ..cli.application import COMPLETION, call
from ..cli.parameters import app, printing

# in the order of help
# isort: off
from . import stages, evaluate, compare, threshold, predict, export, review, verify  # noqa: F401

__all__ = ["app", "main"]


INTRODUCTION = """\
lapsvm learns where things are from pictures labelled only with what they show.
Labels are folders: one for each class, and "good" or "background" for the rest.
A run learns a detector for each class and writes a page with boxes and figures,
on a CPU and offline. lapsvm review then asks a person about twenty boxes of a
class, and says how many are right.

photographs      lapsvm run --data folder --root pictures --out RUN
defects          lapsvm run --data folder --root parts --out PARTS
                 lapsvm threshold --out PARTS --max-false-alarms 0.05
bags and losses  python -m pydoc lapsvm.models.LatentRankSVM

Without pictures of your own: lapsvm demo. All commands: lapsvm --help."""


@click.command(add_help_option=False)
def introduce() -> None:
    """Print the purpose of the program and its first commands."""
    click.echo(INTRODUCTION)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 2 an expected failure, 130 interrupted."""
    given = sys.argv[1:] if arguments is None else arguments
    is_asked = bool(given) or COMPLETION in os.environ
    call(app if is_asked else introduce, given, "lapsvm")


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
