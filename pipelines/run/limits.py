"""Limits of settings and options: numbers that a machine can hold, texts that a file or a terminal can take."""

from collections.abc import Mapping
from typing import Any

from lapsvm.errors import OptionError

MAX_NUMBER = 2**31 - 1
MAX_SEED = 2**32 - 1
MAX_JOBS = 1024
MAX_DRAWS = 1_000_000
MAX_SIZE = 8192
"""Longest side in pixels at which a network sees a picture; a square one of so many is the largest that is read."""

_LEAST = {"seed": 0, "train.folds": 2, "windows.max_windows": 0, "detect.max_detections": 1, "windows.source.base": -1}
_NOT_EMPTY = ("train.C", "train.J", "train.trim", "features.extractors")
_SHOWN = 60


def check_limits(values: Mapping[str, Any]) -> None:
    """Raise OptionError unless every setting can be held and written.

    Parameters
    ----------
    values : mapping of dotted name to value
    """
    for name, value in values.items():
        if name in _NOT_EMPTY and not value:
            raise OptionError(f"setting {name!r} must name at least one value, got none.")
        for item in value if isinstance(value, list | tuple) else [value]:
            _check_one(name, item)


def _check_one(name: str, value: Any) -> None:
    """Raise OptionError unless one value can be held and written."""
    if isinstance(value, str):
        if any("\ud800" <= letter <= "\udfff" for letter in value):
            raise OptionError(f"setting {name!r} must be text that UTF-8 can write, got {value!r}.")
    elif isinstance(value, int) and not isinstance(value, bool):
        least = _LEAST.get(name, 0)
        most = {"seed": MAX_SEED, "features.sizes": MAX_SIZE}.get(name, MAX_NUMBER)
        if value > most or (value < least and name in _LEAST):
            raise OptionError(f"setting {name!r} must be from {least} to {most}, got {shown(value)}.")


def shown(value: Any) -> str:
    """Return a value for a sentence: cut where it is long, described where it cannot be written out."""
    if isinstance(value, int) and abs(value) > 10**_SHOWN:
        return f"a number of {value.bit_length()} bits"
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        return f"a {type(value).__name__} that cannot be written out"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def printable(text: str) -> str:
    """Return a text in which nothing steers a terminal: but for line breaks, what does not print becomes an escape."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() or letter == "\n" else ascii(letter)[1:-1] for letter in text)
