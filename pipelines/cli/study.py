"""Command lines, tables and times of scripts that are no verbs, such as the benchmarks."""

import inspect
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from types import NoneType
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import click

from lapsvm.errors import OptionError
from lapsvm.files import SMALL_FILE, read_regular, write_atomically
from lapsvm.report import cell_text

from ..cli.application import call
from ..cli.parameters import named_path


class Given(NamedTuple):
    """The way in which a command line gives a parameter of a study: an annotation of its type.

    Attributes
    ----------
    flag : str
        By default the name of the parameter.
    help, metavar : str
    low, high : int or None
        The least and the largest number.
    is_argument : bool
        Whether it has no flag.
    """

    flag: str = ""
    help: str = ""
    metavar: str | None = None
    low: int | None = None
    high: int | None = None
    is_argument: bool = False


Root = Annotated[Path | None, Given("--root", "The folder of the data, if they have moved.")]
"""The option of studies that open the data of finished runs."""

Into = Annotated[Path | None, Given("--into", "Put the table into a page, for the one of its titles.", "PAGE.md")]
"""The option of studies whose table a page has."""

Cell = str | float | int | None


def study_command(*functions: Callable[..., None] | click.Command) -> Callable[..., None]:
    """Return ``main(arguments)``, which runs a function with parsed options and exits as the verbs of lapsvm do.

    Parameters
    ----------
    *functions : callable or click.Command
        Parameters of a callable without a default and a `Given` are arguments of the command, the others its options.
        The first argument names one of several functions, with hyphens.

    Returns
    -------
    callable
        Takes the words of a command line, by default those of the program.
    """
    commands = [one if isinstance(one, click.Command) else _command(one) for one in functions]
    app = commands[0] if len(commands) == 1 else click.Group(commands=commands, no_args_is_help=False)

    def main(arguments: Sequence[object] | None = None) -> None:
        call(app, sys.argv[1:] if arguments is None else [str(argument) for argument in arguments])

    return main


def _command(function: Callable[..., None]) -> click.Command:
    """Return the command of a function."""
    hints = get_type_hints(function, include_extras=True)
    parameters = [_parameter(one, hints[name]) for name, one in inspect.signature(function).parameters.items()]
    name = function.__name__.replace("_", "-")
    return click.Command(name, params=parameters, callback=function, help=inspect.getdoc(function))


def _parameter(parameter: inspect.Parameter, hint: Any) -> click.Parameter:
    """Return the parameter of a command for the parameter of a function."""
    is_required = parameter.default is parameter.empty
    hint, given = get_args(hint) if get_origin(hint) is Annotated else (hint, Given(is_argument=is_required))
    kind = next((one for one in get_args(hint) if NoneType in get_args(hint) and one is not NoneType), hint)
    is_list, items = get_origin(kind) is list, get_args(kind)
    about: dict[str, Any] = {"required": is_required, "metavar": given.metavar}
    about["type"] = _type(items[0] if is_list else items or kind, given)
    if given.is_argument:
        return click.Argument([parameter.name], nargs=-1 if is_list else 1, **about)
    about |= {"help": given.help, "multiple": is_list, "is_flag": kind is bool, "show_default": kind is not bool}
    if not is_required:
        about["default"] = parameter.default
    if kind is Path and given.metavar is None:
        about["metavar"] = "PATH"
    flag = given.flag or f"--{parameter.name.replace('_', '-')}"
    return click.Option([parameter.name, flag], **about)


def _type(kind: Any, given: Given) -> Any:
    """Return the type of a parameter for click."""
    if kind is Path:
        return named_path
    if given.low is None and given.high is None:
        return kind
    return (click.IntRange if kind is int else click.FloatRange)(given.low, given.high)


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


def print_table(titles: Sequence[str], rows: Iterable[Sequence[Cell]], into: Path | None = None) -> None:
    """Print the lines of a table as they come, then put it into a page.

    Parameters
    ----------
    titles : sequence of str
    rows : iterable of sequences of str, float, int or None
        See `table_lines`.
    into : Path or None, default None
        A page in Markdown, whose table with the same titles is replaced; nothing else in it changes.

    Raises
    ------
    OptionError
        If the page has no table with these titles, or several; before the first row is asked for.
    """
    if into is not None:
        _around_table(into, titles)
    lines = []
    for line in table_lines(titles, rows):
        click.echo(line)
        lines.append(f"{line}\n")
    if into is not None:
        before, after = _around_table(into, titles)
        write_atomically(into, "".join([before, *lines, after]).encode(errors="surrogateescape"))


def _around_table(page: Path, titles: Sequence[str]) -> tuple[str, str]:
    """Return the text before and after the only table of a page with these titles."""
    lines = read_regular(page, "page", SMALL_FILE).decode(errors="surrogateescape").splitlines(keepends=True)
    starts = [number for number, line in enumerate(lines) if _cells(line) == list(titles)]
    if len(starts) != 1:
        header = next(table_lines(titles, ()))
        raise OptionError(f"option --into must name a page with one table {header}, got {page} with {len(starts)}.")
    end = next((number for number in range(starts[0], len(lines)) if lines[number][0] != "|"), len(lines))
    return "".join(lines[: starts[0]]), "".join(lines[end:])


def _cells(line: str) -> list[str]:
    """Return the cells of a line of a table."""
    return [cell.strip() for cell in line.strip()[1:-1].split("|")] if line.startswith("|") else []


def alternate(
    calls: Mapping[str, Callable[[], object]], rounds: int, repeats: int = 1, *,
    clock: Callable[[], float] = time.process_time, summary: Callable[[list[float]], float] = median,
) -> dict[str, float]:  # fmt: skip
    """Return the seconds of each call, timed in turn with the others.

    Parameters
    ----------
    calls : mapping of str to callable
    rounds : int
        One more is made, and the first is not counted.
    repeats : int, default 1
        How often a call is made in its turn.
    clock : callable, default time.process_time
    summary : callable, default median
        Makes one number of the seconds of all rounds.
    """
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds + 1):
        for name, work in calls.items():
            begin = clock()
            for _ in range(repeats):
                work()
            seconds[name].append((clock() - begin) / repeats)
    return {name: summary(of_rounds[1:]) for name, of_rounds in seconds.items()}


def print_gpu(torch: Any) -> None:
    """Print which GPUs the module torch sees, and its version; where it sees none, say so and end the command."""
    if not torch.cuda.is_available():
        click.echo("Skipped: this command needs a GPU, and torch sees none.")
        raise click.exceptions.Exit
    click.echo(f"{torch.cuda.device_count()} x {torch.cuda.get_device_name()}, torch {torch.__version__}\n")


def gpu_clock(torch: Any) -> Callable[[], float]:
    """Return the clock for `alternate` that waits for the GPU of the module torch, and gives the wall time."""

    def clock() -> float:
        torch.cuda.synchronize()
        return time.perf_counter()

    return clock
