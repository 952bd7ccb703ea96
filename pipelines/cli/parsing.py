"""The values that the options of a verb give."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from lapsvm.errors import OptionError
from lapsvm.settings import FILE, IMPORTED, former_name

from ..settings.option import SET, Option, Several
from ..settings.options import OPTIONS
from ..settings.packages import check_packages

_FIELDS = {option.name: option for option in OPTIONS if option.field}


def setting_values(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return dotted setting -> value for the given options that name a setting, and for the settings they entail.

    Raises
    ------
    OptionError
        If a text does not parse, or ``--proposals`` and another source of windows are both given.
    """
    given = {
        _FIELDS[name].field: _parsed(_FIELDS[name], value)
        for name, value in options.items()
        if name in _FIELDS and value is not None and value != []
    } | dict(options.get("assignments", ()))
    if "train.J" in given:  # a number that is typed means itself, whatever an earlier command stored
        given.setdefault("train.J_relative", False)
    if options.get("proposals"):
        if options.get("windows") not in (None, FILE):
            raise OptionError(f"options --proposals and --windows must not go together, got {options['windows']!r}.")
        given["windows.method"] = FILE
    if "sources" in options:
        given |= {"windows.method": IMPORTED, "windows.max_windows": 0, "features.extractors": (IMPORTED,)}
    return given


def thread_count(options: Mapping[str, Any]) -> int:
    """Return the number of threads that ``--jobs`` gives, or of all cores."""
    return options.get("jobs") or os.cpu_count() or 1


def named_extractors(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the extractors that this command line names, which may run code of their modules."""
    by_name = dict(options.get("assignments", ())).get("features.extractors", ())
    return (*(options.get("extractor") or ()), *by_name)


def assigned_values(texts: Sequence[str], known: Mapping[str, Option]) -> dict[str, Any]:
    """Return dotted setting -> value for the texts NAME=VALUE of ``--set``, each checked by its rule.

    Raises
    ------
    OptionError
        If a text is none, the verb has no such setting (`known`), or the value breaks its rule.
    """
    values: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise OptionError(f"option --set must be NAME=VALUE, got {text!r}.")
        if name not in known:
            near = former_name(name) or next(iter(get_close_matches(name, known, 1)), "")
            advice = f"; did you mean {near}?" if near else "; --help-settings lists them."
            raise OptionError(f"option --set names no setting of this verb, got {name!r}{advice}")
        option = replace(known[name], flags=SET)  # messages name the setting, as it was typed
        parsed = _parsed(option, _typed(option, value))
        if option.several is Several.REPEATED:
            parsed = (*values.get(name, ()), *parsed)
        option.check(parsed)
        values[name] = parsed
    return values


def _typed(option: Option, text: str) -> Any:
    """Return the text of a value in the type of its option."""
    if option.several is Several.REPEATED:
        return [text]
    if option.several is Several.COMMAS or option.kind in (str, Path):
        return text
    if option.kind is bool:
        if text not in ("true", "false"):
            raise OptionError(f"{option.title} must be true or false, got {text!r}.")
        return text == "true"
    return _item(option, text)


def _parsed(option: Option, value: Any) -> Any:
    """Parse the value of an option as its setting; paths become absolute."""
    if option.several is Several.COMMAS:
        return tuple(_item(option, item) for item in split_names(option.title, value))
    if option.name == "extractor":
        return tuple(_with_absolute_paths(text, option.name) for text in value)
    if option.name == "objectness":
        return _with_absolute_paths(value, option.name)
    if option.kind is Path:
        return tuple(str(Path(path).resolve()) for path in value) if option.several else _absolute(value)
    return value


def _absolute(text: str) -> str:
    """Return an absolute path; "" stays, for it takes a setting back."""
    return str(Path(text).resolve()) if text else text


def _with_absolute_paths(text: str, what: str) -> str:
    """Return the text of an extractor or of objectness with absolute paths of its files, valid from any folder."""
    from lapsvm.features.extractors.specs import parse_spec

    spec = parse_spec(text, what)
    for before, file in ((":", spec.file), ("weights=", spec.options.get("weights"))):
        if file and Path(file).is_file():
            text = text.replace(before + file, f"{before}{Path(file).resolve()}", 1)
    return text


def check_in_folder(option: str, path: Path) -> None:
    """Raise OptionError, before the work, unless the folder of a file to be written is there."""
    if not path.parent.is_dir():
        raise OptionError(f"option {option} must name a file in a folder that is there, got {path}.")


def split_names(title: str, text: str, known: Collection[str] = ()) -> list[str]:
    """Return the items of a comma list; OptionError if there is none, or one is not in `known`, if that names some."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise OptionError(f"{title} must name at least one value, got {text!r}.")
    for name in names if known else ():
        if name not in known:
            raise OptionError(f"{title} must name some of {', '.join(known)}, got {name!r}.")
    return names


def chosen_metrics(text: str) -> tuple[str, ...]:
    """Return which figures evaluation computes, by the comma list of ``--metrics``, checked before any work is done.

    Raises
    ------
    OptionError
        If a name is not known.
    DependencyError
        If COCO's evaluator is not installed.
    """
    names = tuple(split_names("option --metrics", text, ("voc", "coco")))
    check_packages(metrics=names)
    return names


def _item(option: Option, text: str) -> Any:
    """Return one value of a list."""
    if option.kind is str:
        return text
    article, listed = ("", "s separated by commas") if option.several else ("a ", "")
    try:
        number = float(text)
    except ValueError:
        raise OptionError(f"{option.title} must be {article}number{listed}, got {text!r}.") from None
    if option.kind is int and not number.is_integer():  # neither is infinity
        raise OptionError(f"{option.title} must be {article}whole number{listed}, got {text!r}.")
    return option.kind(number)
