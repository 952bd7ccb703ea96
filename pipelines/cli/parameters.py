"""The parameters of a verb, made from the table of options, and its help in panels."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from ..settings.option import REQUIRED, Option, Several
from ..settings.options import add_options, options_of, settings_of, shown_in_help
from .answer import STDOUT, Outcome, answering, give, print_json
from .parsing import assigned_values

ALL, WORDS = "lapsvm.help_all", "lapsvm.words"  # of the context: help shows all; the words after the verb
OTHER = "Help"
JSON = "--json"
ASSIGNMENTS = "assignments"  # the name of the option --set
_METAVARS = {str: "TEXT", int: "N", float: "X"}
NO_DEFAULTS = ("tune", "predict")  # the grids of tune, and what a model records, go before the settings
Verb = Callable[[dict[str, Any]], Outcome | None]

app = typer.Typer(
    name="lapsvm",
    help="Object detectors from image-level labels, trained on average precision itself.",
    no_args_is_help=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def named_path(text: str) -> Path:
    """Return the path that an option names; an empty text would mean the current folder, which nobody typed."""
    if not text:
        raise typer.BadParameter("a path must not be empty; the current folder is '.'")
    return Path(text)


PATH: dict[str, Any] = {"parser": named_path, "metavar": "PATH"}


class PanelCommand(TyperCommand):
    """A verb whose help stands in panels: those of most use for ``--help``, all for ``--help-all``."""

    most_used: frozenset[str] = frozenset()

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Let the option of a file that JSON goes to stand alone; standard output is meant then."""
        ctx.meta[WORDS] = tuple(args)
        if any(parameter.name == "json_file" for parameter in self.params):
            pairs = pairwise([*args, "--"])
            args = [f"{JSON}={STDOUT}" if word == JSON and after.startswith("--") else word for word, after in pairs]
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options of each panel."""
        panels: dict[str, list[tuple[str, str]]] = {}
        hidden = 0
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record and (ctx.meta.get(ALL) or parameter.name in self.most_used):
                panels.setdefault(getattr(parameter, "rich_help_panel", None) or OTHER, []).append(record)
            elif record:
                hidden += 1
        for name, records in panels.items():
            with formatter.section(name):
                formatter.write_dl(records)
        if hidden:
            formatter.write_paragraph()
            formatter.write_text(f"{hidden} more options: {ctx.command_path} --help-all")


def add_verb(name: str, *alone: Option) -> Callable[[Verb], Verb]:
    """Return a decorator that adds a function of all options to `app`; those that it has `alone` enter the table."""
    add_options(name, alone)
    options, settings = options_of(name), settings_of(name)
    lists = [_lists_settings(name, settings)] if ASSIGNMENTS in {option.name for option in options} else []
    main = frozenset(option.name for option in options if shown_in_help(option, name))

    def decorate(verb: Verb) -> Verb:
        shown = type("VerbCommand", (PanelCommand,), {"most_used": main | {"help", "help_all", "help_settings"}})
        app.command(name, cls=shown)(
            taking(verb, options, *lists, _HELP_ALL, defaults=name not in NO_DEFAULTS, name=name, settings=settings)
        )
        return verb

    return decorate


def taking(
    verb: Verb,
    options: Sequence[Option],
    *more: inspect.Parameter,
    defaults: bool = True,
    name: str | None = None,
    settings: Mapping[str, Option] = MappingProxyType({}),
) -> Callable[..., None]:
    """Return a function for typer that has the parameters of some options and passes them to a verb as one dict.

    Every value is checked by its option's rule before. `more` are parameters that the verb does not get. Without
    `defaults`, help does not show those of settings. ``--set`` takes `settings`, and passes their values as a dict.
    """

    def command(**values: Any) -> None:
        for option in options:
            if values[option.name] is not None and option.several is not Several.COMMAS:
                option.check(values[option.name])
        if ASSIGNMENTS in values:
            values[ASSIGNMENTS] = assigned_values(values[ASSIGNMENTS], settings)
        with answering(command.__name__, wanted=bool(values.get("as_json")) or values.get("json_file") == STDOUT):
            give(verb({option.name: values[option.name] for option in options}))

    parameters = [*(_parameter(option, defaults) for option in options), *more]
    command.__name__, command.__doc__ = name or verb.__name__, verb.__doc__
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return command


def _show_all(ctx: typer.Context, given: bool) -> None:
    """Print the whole help and end."""
    if given:
        ctx.meta[ALL] = True
        typer.echo(ctx.get_help())
        raise typer.Exit


def _lists_settings(verb: str, settings: Mapping[str, Option]) -> inspect.Parameter:
    """Return the option that prints the settings of a verb and ends, whatever else is given."""

    def show(ctx: typer.Context, given: bool) -> None:
        if not given:
            return
        from .settings_list import settings_rows, settings_text

        if JSON in ctx.meta[WORDS]:
            print_json(Outcome(figures={"settings": settings_rows(verb, settings)}).entry(verb))
        else:
            typer.echo(settings_text(verb, settings))
        raise typer.Exit

    about = "List the settings that --set takes, and exit."
    return _keyword(
        "help_settings", bool, typer.Option("--help-settings", help=about, is_eager=True, callback=show), False
    )


def _keyword(name: str, kind: Any, typed: Any, default: Any) -> inspect.Parameter:
    """Return a keyword-only parameter with what typer is to know of it."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, typed])


_SHOWS_ALL = typer.Option("--help-all", help="Show all options and exit.", is_eager=True, callback=_show_all)
_HELP_ALL = _keyword("help_all", bool, _SHOWS_ALL, default=False)


@cache  # most options are those of several verbs
def _parameter(option: Option, defaults: bool) -> inspect.Parameter:
    """Return one keyword-only parameter."""
    repeated = option.several is Several.REPEATED
    kind = str if option.several is Several.COMMAS or (option.kind is Path and option.field) else option.kind
    annotation: Any = list[kind] if repeated else kind  # type: ignore[valid-type]
    default = option.default
    if default is None:
        annotation |= None
    about: dict[str, Any] = {"help": option.help, "show_default": False, "rich_help_panel": option.panel}
    if option.default_text() and not (option.field and not defaults) and "default" not in option.help:
        about["help"] += f" [default: {option.default_text()}]"
    if option.kind is Path:
        about |= {"metavar": "PATH"} if option.field or (repeated and not option.flags) else PATH
    elif option.kind is not bool:
        about["metavar"] = "A,B,..." if option.several is Several.COMMAS else _METAVARS[option.kind]
    if isinstance(option.rule, tuple):
        about |= {"autocompletion": _completion(option.rule), "metavar": "|".join(option.rule)}
    if option.name == ASSIGNMENTS:
        about |= {"autocompletion": _settings_that_begin, "metavar": "NAME=VALUE"}
    typed = typer.Option(*option.flags.split(" "), **about) if option.flags else typer.Argument(**about)
    return _keyword(option.name, annotation, typed, inspect.Parameter.empty if default is REQUIRED else default)


def _completion(choices: tuple[str, ...]) -> Callable[[str], list[str]]:
    """Return what completes a value in a shell."""
    return lambda incomplete: [choice for choice in choices if choice.startswith(incomplete)]


def _settings_that_begin(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the settings of the verb, as a shell completes them."""
    return _completion(tuple(f"{name}=" for name in settings_of(str(ctx.info_name))))(incomplete)
