"""The settings that the options of a verb give."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lapsvm.errors import OptionError

from ..run.options import OPTIONS, Option, Several
from ..run.settings import FILE, IMPORTED

_FIELDS = {option.name: option for option in OPTIONS if option.field}


def setting_values(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return dotted setting -> value for the options that name a setting and were given, and what they entail.

    Raises
    ------
    OptionError
        If a text does not parse, or ``--proposals`` and another source of windows are both given.
    """
    given = {
        _FIELDS[name].field: _parsed(_FIELDS[name], value)
        for name, value in options.items()
        if name in _FIELDS and value is not None and value != []
    }
    if "train.J" in given:  # a number that is typed means itself, whatever an earlier command stored
        given.setdefault("train.J_relative", False)
    if options.get("proposals"):
        if options.get("windows") not in (None, FILE):
            raise OptionError(f"options --proposals and --windows must not go together, got {options['windows']!r}.")
        given["windows.method"] = FILE
    if "sources" in options:
        given |= {"windows.method": IMPORTED, "windows.max_windows": 0, "features.extractors": (IMPORTED,)}
    return given


def _parsed(option: Option, value: Any) -> Any:
    """Return the setting that the value of an option gives; paths become absolute."""
    if option.several is Several.COMMAS:
        return tuple(_item(option, item) for item in _listed(option, value))
    if option.name == "extractor":
        return tuple(_with_absolute_paths(text) for text in value)
    if option.kind is Path:
        return tuple(str(Path(path).resolve()) for path in value) if option.several else _absolute(value)
    return value


def _absolute(text: str) -> str:
    """Return an absolute path; "" stays, for it takes a setting back."""
    return str(Path(text).resolve()) if text else text


def _with_absolute_paths(extractor: str) -> str:
    """Return the text of an extractor with absolute paths of its files, valid from any folder."""
    from lapsvm.features.extractors.specs import parse_spec

    spec = parse_spec(extractor)
    weights = spec.options.get("weights", "")
    for before, file in (("", spec.file or ""), ("weights=", weights)):
        if file and Path(file).is_file():
            extractor = extractor.replace(before + file, before + str(Path(file).resolve()), 1)
    return extractor


def _listed(option: Option, text: str) -> list[str]:
    """Return the items of a comma list."""
    items = [item.strip() for item in text.split(",") if item.strip()]
    if not items:
        raise OptionError(f"option {option.flag} must name at least one value, got {text!r}.")
    return items


def _item(option: Option, text: str) -> Any:
    """Return one value of a list."""
    if option.kind is str:
        return text
    try:
        number = float(text)
    except ValueError:
        raise OptionError(f"option {option.flag} must be numbers separated by commas, got {text!r}.") from None
    if option.kind is int and not number.is_integer():  # neither is infinity
        raise OptionError(f"option {option.flag} must be whole numbers separated by commas, got {text!r}.")
    return option.kind(number)
