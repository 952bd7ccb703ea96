"""The options of the command line, each written once, and the verbs that take them."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lapsvm.errors import OptionError

from .option_tables import COMMON, DATA, DETECT, FEATURES, REFINE, TRAIN, WINDOWS, Group

DEFAULTS: dict[str, Any] = {
    "device": "auto",
    "quiet": False,
    "redo": False,
    "remove": False,
    "out": inspect.Parameter.empty,
}


def taking(*groups: Group, **defaults: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a verb ``verb(options)`` the command line of some groups; it receives one dict of all its options."""
    names = {name: entry for group in groups for name, entry in group.items()}

    def decorate(verb: Callable[..., None]) -> Callable[..., None]:
        def command(**options: Any) -> None:
            verb(options)

        command.__name__, command.__doc__ = verb.__name__.rstrip("_"), verb.__doc__
        command.__annotations__ = {name: annotation for name, (_, annotation) in names.items()}
        command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [_parameter(name, annotation, defaults) for name, (_, annotation) in names.items()]
        )
        return command

    return decorate


def _parameter(name: str, annotation: Any, defaults: dict[str, Any]) -> inspect.Parameter:
    """Return one keyword-only parameter."""
    default = defaults.get(name, DEFAULTS.get(name))
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def setting_values(options: dict[str, Any]) -> dict[str, Any]:
    """Return dotted setting -> value for the options that name a setting and were given."""
    entries = {
        name: entry
        for group in (DATA, WINDOWS, FEATURES, TRAIN, REFINE, DETECT, COMMON)
        for name, entry in group.items()
    }
    values = {entries[name][0]: value for name, value in options.items() if name in entries and entries[name][0]}
    given = {name: value for name, value in values.items() if value is not None and value != []}
    if "data.classes" in given:
        given["data.classes"] = tuple(_listed("--classes", given["data.classes"]))
    for name, option in (("train.C", "--C"), ("train.J", "--J"), ("train.trim", "--trim")):
        if name in given:
            given[name] = tuple(_number(option, item) for item in _listed(option, given[name]))
    if "train.J" in given:  # a number that is typed means itself, whatever an earlier command stored
        given.setdefault("train.J_relative", False)
    if "features.sizes" in given:
        sizes = _listed("--sizes", given["features.sizes"])
        given["features.sizes"] = tuple(_whole_number("--sizes", item) for item in sizes)
    for name in ("data.root", "train.keep_by"):
        if given.get(name):
            given[name] = str(Path(given[name]).resolve())
    if "features.extractors" in given:
        given["features.extractors"] = tuple(_with_whole_path(text) for text in given["features.extractors"])
    return given


def _with_whole_path(extractor: str) -> str:
    """Return the text of an extractor with its files' whole paths, so that the run folder knows them from anywhere."""
    from lapsvm.features.extractors.specs import parse_spec

    spec = parse_spec(extractor)
    weights = spec.options.get("weights", "")
    for before, file in (("", spec.file or ""), ("weights=", weights)):
        if file and Path(file).is_file():
            extractor = extractor.replace(before + file, before + str(Path(file).resolve()), 1)
    return extractor


def _listed(option: str, text: str) -> list[str]:
    """Return the items of a comma list."""
    items = [item.strip() for item in text.split(",") if item.strip()]
    if not items:
        raise OptionError(f"option {option} must name at least one value, got {text!r}.")
    return items


def _whole_number(option: str, text: str) -> int:
    """Return a whole number of an option."""
    number = _number(option, text)
    if not number.is_integer():  # neither is infinity
        raise OptionError(f"option {option} must be whole numbers separated by commas, got {text!r}.")
    return int(number)


def _number(option: str, text: str) -> float:
    """Return a number of an option."""
    try:
        return float(text)
    except ValueError:
        raise OptionError(f"option {option} must be numbers separated by commas, got {text!r}.") from None
