"""What a user's regular expression finds in names, within a limit of time.

Python's matcher tries an expression as "(.*)+x" for longer than anybody waits, and cannot be interrupted. So another
process searches, which is ended when the time is over.
"""

import json
import re
import sys
import warnings
from collections.abc import Sequence
from functools import lru_cache
from subprocess import DEVNULL, PIPE, SubprocessError, TimeoutExpired, run
from unicodedata import normalize

from lapsvm.errors import OptionError

SECONDS, SECONDS_PER_NAME = 10.0, 0.001
"""The time for all names: so many seconds, and more for each name, a thousand times what usual expressions take."""

LONGEST = 1000
"""Letters of the longest expression."""

_SEARCH = """
import json, re, sys
expression, names = json.load(sys.stdin)
pattern = re.compile(expression)
found = map(pattern.search, names)
json.dump([match and match[1 if pattern.groups else 0] or "" for match in found], sys.stdout)
"""


def check_pattern(what: str, expression: str) -> None:
    """Raise OptionError, which begins with `what`, unless a text is a regular expression."""
    if len(expression) > LONGEST:
        raise OptionError(
            f"{what} must be a regular expression of at most {LONGEST:,} letters, got {len(expression):,}."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(expression)
    except (re.error, OverflowError, RecursionError) as error:
        got = expression if len(expression) <= 60 else expression[:60] + "..."
        raise OptionError(f"{what} must be a regular expression, got {got!r}: {error}.") from None


def found_in(expression: str, names: Sequence[str], what: str = "an expression") -> list[str]:
    """Return the match of a regular expression in each name: its first group, or all of it. "" without a match.

    The form of accents (Unicode's NFC or NFD) counts neither in the expression nor in a name. `what` begins errors.

    Raises
    ------
    OptionError
        If it is no regular expression, or takes longer than `SECONDS` and `SECONDS_PER_NAME`.
    """
    check_pattern(what, expression)
    return list(_found(expression, tuple(names), what)) if names else []


@lru_cache(maxsize=4)  # the stages of a run ask for the same
def _found(expression: str, names: tuple[str, ...], what: str) -> tuple[str, ...]:
    request = json.dumps([normalize("NFC", expression), [normalize("NFC", name) for name in names]])
    seconds = SECONDS + SECONDS_PER_NAME * len(names)
    line = [sys.executable, "-I", "-S", "-c", _SEARCH]
    try:
        done = run(line, input=request.encode(), stdout=PIPE, stderr=DEVNULL, timeout=seconds, check=True)  # noqa: S603
        matches: list[str] = json.loads(done.stdout)
    except TimeoutExpired:
        rule = f"must find its matches in {len(names):,} names within {seconds:.0f} seconds, got {expression!r}"
        advice = "repeats inside of repeats, as in '(.*)+', and many repeats in a row take too long"
        raise OptionError(f"{what} {rule}; {advice}.") from None
    except (OSError, ValueError, SubprocessError) as error:
        raise OptionError(f"{what} finds nothing, because the process that searches fails: {error}.") from None
    return tuple(matches)
