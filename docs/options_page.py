"""docs/reference/options.md, made from the table of options; ``python docs/options_page.py`` writes it."""

from itertools import groupby
from pathlib import Path

from lapsvm.pipelines.run.option import SET, Option, Several
from lapsvm.pipelines.run.options import OPTIONS

PAGE = Path(__file__).parent / "reference" / "options.md"

HEAD = """# Options

`python docs/options_page.py` generates this page. `lapsvm VERB --help` shows the options of a verb that most people
need, `lapsvm VERB --help-all` shows all. Settings that few people set have no option of their own: `--set NAME=VALUE`
sets any setting of a verb by its dotted name, as in `--set refine.C=60 --set train.path=true`; a list is separated by
commas. `run.toml` and recipes hold a setting under its name.
"""
_KINDS = {str: "text", int: "whole number", float: "number", bool: "switch", Path: "path"}


def options_page() -> str:
    """Return the page."""
    panels = [f"## {name}\n\n{_table(list(options))}" for name, options in groupby(OPTIONS, lambda one: one.panel)]
    return HEAD + "\n" + "\n".join(panels)


def _table(options: list[Option]) -> str:
    """Return the table of one panel."""
    head = ("option", "verbs", "setting", "value", "default", "meaning")
    rows = [head, ("---",) * len(head), *(_row(option) for option in options)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _row(option: Option) -> tuple[str, ...]:
    """Return the cells of one option."""
    flags = ", ".join(f"`{flag}`" for flag in option.flags.split("/")) if option.flags else f"`{option.flag}`"
    flags = f"`{SET} {option.field}=`" if option.is_named else flags
    verbs = "all" if option.verbs == "*" else ", ".join(option.verbs.split())
    choices = option.rule if isinstance(option.rule, tuple) else ()
    rule = ", ".join(f"`{choice}`" for choice in choices) or str(option.rule or "")
    value = ", ".join(text for text in (_KINDS[option.kind], _several(option), rule) if text)
    setting, default = (f"`{text}`" if text else "" for text in (option.field, option.default_text()))
    return tuple(cell.replace("|", "\\|") for cell in (flags, verbs, setting, value, default, option.help))


def _several(option: Option) -> str:
    """Return how an option takes several values."""
    if option.several is Several.REPEATED and not option.flags:
        return "several"
    return option.several.value if option.several else ""


if __name__ == "__main__":
    PAGE.write_text(options_page(), encoding="utf-8")
