"""Specs, the texts that name extractors: ``KIND[:FILE][?key=value&key=value]``, parsed strictly, and trust in them.

Sources of objectness are named by the same kind of text.

An extractor ``torch:PACKAGE.MODULE:FACTORY`` imports a module and calls its factory. Somebody else may have written the
text if it comes from a file: the ``run.toml`` of a run folder, a recipe, or a model. So the extractor must be named on
this command line, or its module be listed in an environment variable.
"""

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from lapsvm.arrays import check_known
from lapsvm.errors import OptionError, SettingsError

Value = TypeVar("Value")
TRUSTED = "LAPSVM_TRUSTED_MODULES"
ALEXNET = "alexnet"  # the network of the package itself, in place of a factory
MAX_DIGITS = 18  # of a whole number in a text; Python refuses to read very long ones


@dataclass(frozen=True)
class Spec:
    """The name, file and options of an extractor, or of a source of objectness, as text.

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
        For networks; "auto" is CUDA where torch, or ONNX Runtime for its own, can use it.
    """

    threads: int = 1
    device: str = "auto"


def parse_spec(text: str, what: str = "extractor") -> Spec:
    """Return the spec that a text stands for.

    Parameters
    ----------
    text : str
        The options begin at the last question mark.
    what : str, default "extractor"
        What the text names, for messages.

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
    for pair in query.split("&") if mark else []:
        key, equals, value = pair.partition("=")
        if not (key and equals and value):
            raise OptionError(f"{what} {text!r}: an option must read key=value, got {pair!r}.")
        if key in options:
            raise OptionError(f"{what} {text!r}: option {key!r} must stand once, got it twice.")
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
        check_known(f"option {key!r}", key, readers)
        try:
            values[key] = readers[key](text)
        except ValueError as error:
            raise OptionError(f"{key} must be {error}, got {text!r}.") from None
    return values


def limited(read: Callable[[str], Value], allows: Callable[[Value], object], rule: str) -> Callable[[str], Value]:
    """Return a reader of the values of `read` that are allowed; others are a ValueError with the rule."""

    def read_limited(text: str) -> Value:
        try:
            value = read(text)
        except (ValueError, ZeroDivisionError, OverflowError):
            raise ValueError(rule) from None
        if not allows(value):
            raise ValueError(rule)
        return value

    return read_limited


def choice(*allowed: str) -> Callable[[str], str]:
    """Return the reader of one of a few words."""
    return limited(str, lambda text: text in allowed, " or ".join(allowed))


def several(*allowed: str) -> Callable[[str], tuple[str, ...]]:
    """Return the reader of one or several of a few words, with commas between them."""
    rule = f"{', '.join(allowed)}, or several with commas between them, none twice"
    return limited(_distinct, lambda words: set(words) <= set(allowed), rule)


def whole_number(low: int, high: int) -> Callable[[str], int]:
    """Return the reader of a whole number from `low` to `high`."""
    return limited(_whole, lambda value: low <= value <= high, f"a whole number from {low} to {high}")


def words(text: str) -> str | tuple[str, ...]:
    """Read a name, or several with commas between them."""
    names = _names(text)
    return names if len(names) > 1 else text


def _distinct(text: str) -> tuple[str, ...]:
    """Read words with commas between them, none twice and none empty."""
    names = tuple(text.split(","))
    if not all(names) or len(set(names)) != len(names):
        raise ValueError
    return names


def _whole(text: str) -> int:
    """Read digits."""
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS):
        raise ValueError
    return int(text)


def _quotient(text: str) -> float:
    """Read a number, or two with a slash between them."""
    if "/" not in text:
        return float(text)
    above, below = map(Fraction, text.split("/"))
    return float(above / below)


def _for_channels(text: str) -> tuple[float, ...]:
    """Read numbers with commas between them; one stands for three."""
    values = tuple(map(number, text.split(",")))
    return values * 3 if len(values) == 1 else values


_names = limited(_distinct, len, "a name, or several with commas between them, none twice")
number = limited(_quotient, np.isfinite, "a finite number")
"""Read a finite number; a quotient such as 1/127.5 is one too."""

share = limited(number, lambda value: 0 <= value <= 1, "a number from 0 to 1")
one_or_three_numbers = limited(
    _for_channels, lambda values: len(values) == 3, "one finite number, or three with commas between them"
)
one_or_three_positive_numbers = limited(
    one_or_three_numbers,
    lambda values: min(values) > 0,
    "one finite number greater than 0, or three with commas between them",
)


def is_warped(spec: Spec) -> bool:
    """Return whether an extractor's network sees windows one by one, warped, and no map of the picture."""
    return spec.kind == "torch" and (spec.options.get("way") == "warped" or spec.file == ALEXNET)


def check_trusted(extractors: Collection[str], named: Collection[str]) -> None:
    """Raise SettingsError for an extractor that runs code but is neither `named` on the command line nor listed."""
    trusted = {_factory(text) for text in named}
    for text in extractors:
        factory = _factory(text)
        module = factory.partition(":")[0]
        if factory and factory not in trusted and not _is_listed(module):
            raise SettingsError(
                f"extractor {text!r} comes from a file and runs code of module {module!r}, which is allowed only if "
                f"the parameter extractor names it now, or the environment variable {TRUSTED} lists {module!r} "
                "(modules or packages, separated by commas)."
            )


def _factory(text: str) -> str:
    """Return the MODULE:FACTORY that an extractor runs, or ""."""
    spec = parse_spec(text)
    return (spec.file or "") if spec.kind == "torch" and spec.file != ALEXNET else ""


def _is_listed(module: str) -> bool:
    """Return whether the environment variable lists a module or a package that contains it."""
    listed = [name.strip() for name in os.environ.get(TRUSTED, "").split(",") if name.strip()]
    return any(module == name or module.startswith(f"{name}.") for name in listed)
