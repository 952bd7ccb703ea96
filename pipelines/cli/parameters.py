"""The command of a verb: its parameters from the table of options, its help in panels."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click

from ..settings.option import REQUIRED, Option, Several
from ..settings.options import add_options, options_of, settings_of, shown_in_help
from .answer import STDOUT, Outcome, answering, give, print_json
from .parsing import assigned_values

ALL, WORDS = "lapsvm.help_all", "lapsvm.words"  # of the context: help shows all; the words after the verb
OPTIONS, HELP = "Options", "Help"  # panels
ASSIGNMENTS = "assignments"  # the name of the option --set
_METAVARS = {str: "TEXT", int: "N", float: "X", Path: "PATH"}
NO_DEFAULTS = ("tune", "predict")  # the grids of tune, and what a model records, go before the settings
Verb = Callable[[dict[str, Any]], Outcome | None]
Printing = Callable[[click.Context], None]


class Verbs(click.Group):
    """The application: help lists the verbs in their order, each with its first line."""

    def list_commands(self, _: click.Context) -> list[str]:
        """Return the names of the verbs in the order of help."""
        return list(self.commands)


def named_path(text: str) -> Path:
    """Return the path that a user names; an empty text would mean the current folder, which nobody typed."""
    if not str(text):
        raise click.BadParameter("a path must not be empty; the current folder is '.'")
    return Path(text)


class VerbCommand(click.Command):
    """A command whose help stands in panels: the main options for ``--help``, all for ``--help-all``."""

    def __init__(self, name: str, options: Sequence[Option], **about: Any) -> None:
        super().__init__(name, **about)
        self._options = {option.name: option for option in options}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the words for options that end the program whatever else is given."""
        ctx.meta[WORDS] = tuple(args)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of each panel."""
        shows_all = ctx.meta.get(ALL, False) or "help_all" not in {parameter.name for parameter in self.params}
        panels: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            option = self._options.get(str(parameter.name))
            if option is None or shows_all or shown_in_help(option, str(self.name)):
                record = parameter.get_help_record(ctx) or ("", "")
                if option and not option.flags:  # an argument, which the parser leaves out
                    record = (f"{option.flag}...", f"{option.help}  [required]")
                panels.setdefault((option.panel or OPTIONS) if option else HELP, []).append(record)
        for name, records in panels.items():
            with formatter.section(name):
                formatter.write_dl(records)
        hidden = len(self.get_params(ctx)) - sum(map(len, panels.values()))
        if hidden:
            formatter.write_paragraph()
            formatter.write_text(f"{hidden} more options: {ctx.command_path} --help-all")


app = Verbs("lapsvm", help="Object detectors from image-level labels, trained on average precision itself.")


def add_verb(name: str, *alone: Option) -> Callable[[Verb], Verb]:
    """Return a decorator that adds a function of all options to `app`; those that it has `alone` enter the table."""
    add_options(name, alone)
    options, settings = options_of(name), settings_of(name)
    helps = [printing("--help-all", "Show all options and exit.", _print_all)]
    if ASSIGNMENTS in {option.name for option in options}:
        helps.insert(0, _settings_option(name, settings))

    def decorate(verb: Verb) -> Verb:
        app.add_command(verb_command(name, verb, options, settings, helps, defaults=name not in NO_DEFAULTS))
        return verb

    return decorate


def verb_command(
    name: str, verb: Verb, options: Sequence[Option], settings: Mapping[str, Option] = MappingProxyType({}),
    helps: Iterable[click.Option] = (), *, defaults: bool = True,
) -> click.Command:  # fmt: skip
    """Return the command that passes the values of options to a verb as one dict, each checked by its option's rule.

    Without `defaults`, help does not show those of settings. ``--set`` takes `settings`, and passes their values as a
    dict.
    """

    def run(**values: Any) -> None:
        for option in options:
            if isinstance(values[option.name], tuple):
                values[option.name] = list(values[option.name]) or option.default
            if values[option.name] is not None and option.several is not Several.COMMAS:
                option.check(values[option.name])
        if ASSIGNMENTS in values:
            values[ASSIGNMENTS] = assigned_values(values[ASSIGNMENTS], settings)
        with answering(name, wanted=bool(values.get("as_json")) or values.get("json_file") == STDOUT):
            give(verb(values))

    about, _, _ = (verb.__doc__ or "").partition("\n")
    parameters = [*(_parameter(option, defaults) for option in options), *helps]
    return VerbCommand(name, options, params=parameters, callback=run, help=verb.__doc__, short_help=about)


def printing(flag: str, about: str, show: Printing) -> click.Option:
    """Return an option that prints and ends the program, whatever else is given."""

    def callback(ctx: click.Context, _: click.Parameter, given: bool) -> None:
        if given and not ctx.resilient_parsing:
            show(ctx)
            ctx.exit()

    return click.Option([flag], is_flag=True, is_eager=True, expose_value=False, callback=callback, help=about)


def _print_all(ctx: click.Context) -> None:
    """Print the whole help."""
    ctx.meta[ALL] = True
    click.echo(ctx.get_help())


def _settings_option(verb: str, settings: Mapping[str, Option]) -> click.Option:
    """Return the option that prints the settings of a verb."""

    def show(ctx: click.Context) -> None:
        from .settings_list import settings_rows, settings_text

        if "--json" in ctx.meta[WORDS]:
            print_json(Outcome(figures={"settings": settings_rows(verb, settings)}).entry(verb))
        else:
            click.echo(settings_text(verb, settings))

    return printing("--help-settings", "List the settings that --set takes, and exit.", show)


def _parameter(option: Option, defaults: bool) -> click.Parameter:
    """Return the parameter of one option."""
    is_repeated, is_required = option.several is Several.REPEATED, option.default is REQUIRED
    about: dict[str, Any] = {"type": _type(option), "required": is_required, **_value(option)}
    if not option.flags:
        return click.Argument([option.name], nargs=-1, **about)
    if not is_required and not is_repeated:
        about["default"] = option.default
    is_shown = option.default_text() and (defaults or not option.field) and "default" not in option.help
    text = f" [default: {option.default_text()}]" if is_shown else ""
    return click.Option([option.name, option.flags], multiple=is_repeated, help=option.help + text, **about)


def _type(option: Option) -> Any:
    """Return the type of a value for click."""
    if option.several is Several.COMMAS or (option.kind is Path and option.field):
        return str
    return named_path if option.kind is Path else option.kind


def _value(option: Option) -> dict[str, Any]:
    """Return how help shows a value, and how a shell completes it."""
    if option.kind is bool:
        return {"is_flag": True}
    if option.name == "json_file":  # without a file, standard output is meant
        return {"metavar": "PATH", "is_flag": False, "flag_value": str(STDOUT)}
    if option.name == ASSIGNMENTS:
        return {"metavar": "NAME=VALUE", "shell_complete": _complete_setting}
    if isinstance(option.rule, tuple):
        return {"metavar": "|".join(option.rule), "shell_complete": _completion(option.rule)}
    if not option.flags:
        return {"metavar": f"{option.flag}..."}
    return {"metavar": "A,B,..." if option.several is Several.COMMAS else _METAVARS[option.kind]}


def _completion(choices: Iterable[str]) -> Callable[..., list[str]]:
    """Return the function that completes a value in a shell."""
    return lambda _, __, incomplete: [choice for choice in choices if choice.startswith(incomplete)]


def _complete_setting(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the settings of the verb, as a shell completes them."""
    return _completion(f"{name}=" for name in settings_of(str(ctx.info_name)))(ctx, parameter, incomplete)
