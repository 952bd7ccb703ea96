"""One option: its flags, its help, its setting, and the rule that its values keep."""

import math
from dataclasses import dataclass
from enum import Enum
from typing import Any

from lapsvm.errors import OptionError

from .limits import shown
from .settings import Settings

REQUIRED: Any = object()
"""The default of an option that must be given."""

SET = "--set"
"""The flag of settings that few people set: ``--set train.path=true``."""

_DEFAULTS = Settings().flat()


class Several(Enum):
    """How an option takes several values."""

    COMMAS = "separated by commas"
    REPEATED = "given several times"


@dataclass(frozen=True)
class Range:
    """The numbers from `low` to `high`; `above` and `below` exclude the limits. NaN and infinity are outside."""

    low: float = 0
    high: float = math.inf
    above: bool = False
    below: bool = False

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, int | float) or (isinstance(value, float) and not math.isfinite(value)):
            return False
        over = value > self.low if self.above else value >= self.low
        return over and (value < self.high if self.below else value <= self.high)

    def __str__(self) -> str:
        if self.high == math.inf:
            return f"a finite number {'greater than' if self.above else 'of at least'} {self.low:g}"
        if not (self.above or self.below):
            return f"from {self.low} to {self.high}"
        lower, upper = "above" if self.above else "at least", "below" if self.below else "at most"
        return f"{lower} {self.low} and {upper} {self.high}"


@dataclass(frozen=True)
class Option:
    """One option.

    Attributes
    ----------
    name : str
        Of the parameter.
    flags : str
        Such as "--C" or "--clip/--no-clip"; "" is an argument, and `SET` a setting without a flag of its own.
    kind : type
        str, int, float, bool or Path, of one value.
    help : str
        One sentence.
    field : str
        The dotted name of the setting; "" for an option that is none.
    several : Several or None
    rule : Range, tuple of str, or None
        The numbers, or the texts, that a value may be.
    default : object
        None: that of the setting, if there is one.
    panel, verbs : str
        Where help shows it, and the verbs that take it, separated by spaces.
    main : str
        The verbs whose ``--help`` shows it; for other verbs ``--help-all`` does.
    """

    name: str
    flags: str
    kind: type
    help: str
    field: str = ""
    several: Several | None = None
    rule: Range | tuple[str, ...] | None = None
    default: Any = None
    panel: str = ""
    verbs: str = ""
    main: str = ""

    @property
    def flag(self) -> str:
        """The first flag, or the name of an argument."""
        return self.flags.partition("/")[0] or self.name.upper()

    @property
    def is_named(self) -> bool:
        """Whether this is a setting without a flag of its own."""
        return self.flags == SET and bool(self.field)

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"setting {self.field}" if self.is_named else f"option {self.flag}"

    def default_text(self) -> str:
        """Return the default as text; "" where there is none to show."""
        value = _DEFAULTS[self.field] if self.field and self.default is None else self.default
        if value is REQUIRED or value in (None, False, "", (), -1):
            return ""
        return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)

    def check(self, value: Any) -> None:
        """Raise OptionError unless a value, or each one of several, keeps the rule and can be written."""
        if self.several and not value and self.default_text():
            raise OptionError(f"{self.title} must name at least one value, got none.")
        for item in value if isinstance(value, list | tuple) else (value,):
            self._check_item(item)

    def _check_item(self, value: Any) -> None:
        """Raise OptionError unless one value keeps the rule."""
        if isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
            raise OptionError(f"{self.title} must be text that UTF-8 can write, got {value!r}.")
        if isinstance(self.rule, tuple) and value not in self.rule:
            raise OptionError(f"{self.title} must be one of {', '.join(self.rule)}, got {shown(value)}.")
        if isinstance(self.rule, Range) and value not in self.rule:
            got = f"{value:g}" if isinstance(value, float) else shown(value)
            raise OptionError(f"{self.title} must be {self.rule}, got {got}.")
