"""Specs, the texts that name extractors: ``KIND[:FILE][?key=value&key=value]``, parsed strictly."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from lapsvm.errors import OptionError

Value = TypeVar("Value")
MAX_DIGITS = 18  # of a whole number in a text; Python refuses to read very long ones


@dataclass(frozen=True)
class Spec:
    """An extractor's name, file and options, as text.

    Attributes
    ----------
    kind : str
        For instance "hog" or "onnx".
    file : str or None
        What stands between the colon and the question mark.
    options : dict of str to str
    text : str
        As the user wrote it, for messages.
    """

    kind: str
    file: str | None
    options: dict[str, str]
    text: str


@dataclass(frozen=True)
class Machine:
    """The machine's resources for an extractor; features do not depend on them.

    Attributes
    ----------
    threads : int
        That a network may use.
    device : "auto", "cpu" or "cuda"
        For networks run by torch; "auto" is CUDA where torch can use it.
    """

    threads: int = 1
    device: str = "auto"


def parse_spec(text: str) -> Spec:
    """Return the spec that a text stands for.

    Parameters
    ----------
    text : str
        The options begin at the last question mark.

    Returns
    -------
    Spec

    Raises
    ------
    OptionError
        If an option has no value, or stands twice.
    """
    name, mark, query = text.rpartition("?") if "?" in text else (text, "", "")
    kind, colon, file = name.partition(":")
    options: dict[str, str] = {}
    for part in query.split("&") if mark else []:
        key, equals, value = part.partition("=")
        if not (key and equals and value):
            raise OptionError(f"extractor {text!r}: an option must read key=value, got {part!r}.")
        if key in options:
            raise OptionError(f"extractor {text!r}: option {key!r} must stand once, got it twice.")
        options[key] = value
    return Spec(kind, file if colon else None, options, text)


def read_options(spec: Spec, readers: Mapping[str, Callable[[str], Any]]) -> dict[str, Any]:
    """Return the values of a spec's options.

    Parameters
    ----------
    spec : Spec
    readers : mapping of str to callable
        For each allowed option the function that reads its text, raising ValueError with the rule it breaks.

    Returns
    -------
    dict
        The options that were given.

    Raises
    ------
    OptionError
        If an option is not known, or its value breaks its rule.
    """
    values = {}
    for key, text in spec.options.items():
        if key not in readers:
            raise OptionError(
                f"extractor {spec.text!r}: option {key!r} is not known; choose from {', '.join(readers)}."
            )
        try:
            values[key] = readers[key](text)
        except ValueError as error:
            raise OptionError(f"extractor {spec.text!r}: {key} must be {error}, got {text!r}.") from None
    return values


def choice(*allowed: str) -> Callable[[str], str]:
    """Return the reader of one of a few words."""

    def read(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"{' or '.join(allowed)}")
        return text

    return read


def several(*allowed: str) -> Callable[[str], tuple[str, ...]]:
    """Return the reader of one or several of a few words, with commas between them."""

    def read(text: str) -> tuple[str, ...]:
        words = tuple(text.split(","))
        if not set(words) <= set(allowed) or len(set(words)) != len(words):
            raise ValueError(f"{', '.join(allowed)}, or several with commas between them, none twice")
        return words

    return read


def whole_number(low: int, high: int) -> Callable[[str], int]:
    """Return the reader of a whole number from `low` to `high`."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS and low <= int(text) <= high):
            raise ValueError(f"a whole number from {low} to {high}")
        return int(text)

    return read


def number(text: str) -> float:
    """Read a finite number; a quotient such as 1/127.5 is one too."""
    parts = text.split("/")
    try:
        value = float(parts[0]) if len(parts) == 1 else float(Fraction(parts[0]) / Fraction(parts[1]))
    except (ValueError, ZeroDivisionError, OverflowError):
        value = np.nan
    if len(parts) > 2 or not np.isfinite(value):
        raise ValueError("a finite number")
    return value


def one_or_three_numbers(text: str) -> tuple[float, float, float]:
    """Read a number for all channels, or one for each."""
    parts = text.split(",")
    try:
        values = [number(part) for part in parts]
    except ValueError:
        values = []
    if len(values) not in {1, 3}:
        raise ValueError("one finite number, or three with commas between them")
    first, second, third = values if len(values) == 3 else values * 3
    return first, second, third


def word(text: str) -> str:
    """Read any text."""
    return text


def words(text: str) -> str | tuple[str, ...]:
    """Read a name, or several with commas between them."""
    found = tuple(text.split(","))
    if not all(found) or len(set(found)) != len(found):
        raise ValueError("a name, or several with commas between them, none twice")
    return found if len(found) > 1 else text


def limited(read: Callable[[str], Value], allows: Callable[[Value], bool], rule: str) -> Callable[[str], Value]:
    """Return a reader of the values of `read` that are allowed; `rule` says which."""

    def read_limited(text: str) -> Value:
        try:
            value = read(text)
        except ValueError:
            raise ValueError(rule) from None
        if not allows(value):
            raise ValueError(rule)
        return value

    return read_limited


share = limited(number, lambda value: 0 <= value <= 1, "a number from 0 to 1")
one_or_three_positive_numbers = limited(
    one_or_three_numbers,
    lambda values: min(values) > 0,
    "one finite number greater than 0, or three with commas between them",
)
