"""The settings that ``--set`` of a verb takes, for ``--help-settings``: as text, and as a program reads them."""

import shutil
from collections.abc import Iterator, Mapping
from itertools import groupby
from textwrap import fill
from typing import Any

from ..settings.option import Option, value_text
from ..settings.options import options_of
from ..settings.settings import Settings

WIDTH = 80  # columns at most
_INDENT = " " * 6

_DEFAULTS = Settings().flat()


def settings_text(verb: str, settings: Mapping[str, Option]) -> str:
    """Return the settings of a verb by group, each with its default, its values, its flag and one sentence."""
    width = min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns)
    winner = "those that the models record win" if verb == "predict" else "those of run.toml and recipes win"
    head = (
        f"Settings of lapsvm {verb} and their defaults; {winner}. --set NAME=VALUE sets one, several times. "
        "Commas separate the items of a list."
    )
    groups = groupby(_grouped(settings), lambda option: option.panel)
    parts = [f"{name}:\n" + "\n".join(_entry(option, verb, width) for option in of) for name, of in groups]
    return "\n\n".join([fill(head, width), *parts])


def settings_rows(verb: str, settings: Mapping[str, Option]) -> dict[str, dict[str, Any]]:
    """Return dotted name -> group, default, values, flag and sentence of the settings of a verb, as JSON has them."""
    return {
        option.field: {
            "group": option.panel,
            "default": _DEFAULTS[option.field],
            "values": _values(option),
            "flag": _flag(option, verb) or None,
            "help": option.help,
        }
        for option in _grouped(settings)
    }


def _grouped(settings: Mapping[str, Option]) -> Iterator[Option]:
    """Yield the options of settings by group, in the order of the table."""
    groups = dict.fromkeys(option.panel for option in settings.values())
    return (option for name in groups for option in settings.values() if option.panel == name)


def _entry(option: Option, verb: str, width: int) -> str:
    """Return the lines of one setting."""
    flag = _flag(option, verb)
    notes = ", ".join(filter(None, (_values(option), f"also {flag}" if flag else "")))
    title = f"{option.field}={value_text(_DEFAULTS[option.field])}" + (f"  ({notes})" if notes else "")
    return _filled(title, width, "  ") + "\n" + _filled(option.help, width, _INDENT)


def _filled(text: str, width: int, first: str) -> str:
    """Return a text in lines, the first with an indent of its own; names and options stay whole."""
    return fill(text, width, initial_indent=first, subsequent_indent=_INDENT, break_on_hyphens=False)


def _values(option: Option) -> str:
    """Return the values that ``--set`` takes. "" for any text."""
    return "true or false" if option.kind is bool else option.values_text()


def _flag(option: Option, verb: str) -> str:
    """Return the option of its own that a verb has for a setting, or ""."""
    return option.flag if option in options_of(verb) else ""
