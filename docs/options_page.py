"""docs/reference/options.md, made from the table of options; ``python docs/options_page.py`` writes it."""

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

import lapsvm.pipelines.commands.verbs  # noqa: F401 - adds the options that one verb alone has
from lapsvm.pipelines.settings.option import SET, Option
from lapsvm.pipelines.settings.options import OPTIONS

PAGE = Path(__file__).parent / "reference" / "options.md"

HEAD = """# Options

`python docs/options_page.py` generates this page. `lapsvm VERB --help` shows the options of a verb that most people
need, `lapsvm VERB --help-all` shows all, `lapsvm VERB --help-settings` lists the settings of a verb. Next to an option
is the name of its setting in `run.toml` and recipes. Settings that few people set have no option of their own:
`--set NAME=VALUE` sets any setting of a verb by its name, as in `--set refine.C=60 --set train.path=true`; a list is
separated by commas. `run` takes every setting by `--set`.
"""


def options_page() -> str:
    """Return the page."""
    panels = groupby(OPTIONS, lambda option: option.panel)
    return HEAD + "".join(f"\n## {name}\n{_panel(options)}" for name, options in panels)


def _panel(options: Iterable[Option]) -> str:
    """Return the lists of one panel, a list for the options that the same verbs take."""
    lists: dict[str, list[str]] = {}
    for option in options:
        lists.setdefault(option.verbs, []).append(_line(option))
    return "".join(f"\n{_of(verbs)}:\n\n{''.join(lines)}" for verbs, lines in lists.items())


def _of(verbs: str) -> str:
    """Return which verbs take what follows."""
    return "All verbs" if verbs == "*" else ", ".join(f"`{verb}`" for verb in verbs.split())


def _line(option: Option) -> str:
    """Return the line of one option."""
    flags = ", ".join(f"`{flag}`" for flag in option.flags.split("/")) if option.flags else f"`{option.flag}`"
    names = f"`{SET} {option.field}=`" if option.is_named else f"{flags} `{option.field}`" if option.field else flags
    default = f"default `{option.default_text()}`" if option.default_text() else ""
    given = ", ".join(filter(None, (_values(option), default)))
    return f"* {names}{f' ({given})' if given else ''}: {option.help}\n"


def _values(option: Option) -> str:
    """Return the values that an option takes."""
    if not isinstance(option.rule, tuple):
        return option.values_text()
    return ", ".join(f"`{choice}`" for choice in option.rule)


if __name__ == "__main__":
    PAGE.write_text(options_page(), encoding="utf-8")
