"""Values, names and lists as sentences show them."""

from collections.abc import Collection
from itertools import islice
from typing import Any

from lapsvm.names.escapes import printable

_SHOWN = 60
_LONGEST = 2000  # letters of a line on the terminal


def shown(value: Any) -> str:
    """Return a value for a sentence: cut where it is long, described where it cannot be written out."""
    if isinstance(value, int) and abs(value) > 10**_SHOWN:
        return f"a number of {value.bit_length()} bits"
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        return f"a {type(value).__name__} that cannot be written out"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def listed(items: Collection[str], most: int = 5, between: str = ", ", kind: str = "") -> str:
    """Return the first items for a sentence, and how many more of a kind there are: "a, b, and 3 more classes"."""
    more = [f"and {len(items) - most:,} more{kind}"] if len(items) > most else []
    return between.join([*islice(items, most), *more])


def counted(names: Collection[str], what: str) -> list[str]:
    """Return the number of names, their noun, and the first names, in a list. An empty list without names."""
    return [f"{len(names):,} {what}: {listed([repr(name) for name in names])}"] if names else []


def one_line(text: str) -> str:
    """Return a text as one line that prints, cut where a name or a line of a file makes it longer than a screen."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= _LONGEST else line[:_LONGEST] + "..."
