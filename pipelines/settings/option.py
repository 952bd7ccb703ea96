"""One option: its flags, its help, its setting, and the rule that its values keep; and the options of all settings."""

from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

from lapsvm.errors import OptionError
from lapsvm.settings import MAX_NUMBER, Range, Rule
from lapsvm.texts.sentences import shown

from .settings import Settings

REQUIRED: Any = object()
"""The default of an option that must be given."""

SET = "--set"
"""The flag of settings that few people set: ``--set train.path=true``."""

_DEFAULTS = Settings().flat()
_NOUNS = {str: "", int: "whole number", float: "number", bool: "switch", Path: "path"}


class Several(Enum):
    """How an option takes several values."""

    COMMAS = "separated by commas"
    REPEATED = "given several times"


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
    rule: Rule | None = None
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
        """Return the default as text. "" where there is none to show."""
        value = _DEFAULTS[self.field] if self.field and self.default is None else self.default
        return "" if value is REQUIRED or value in (None, False, "", (), -1) else value_text(value)

    def values_text(self) -> str:
        """Return the values that it takes, such as "number from 0 to 1, separated by commas". "" for any text."""
        several = self.several.value if self.several else ""
        if self.several is Several.REPEATED and not self.flags:
            several = "several"
        return ", ".join(filter(None, (self._item_text(), several)))

    def _item_text(self) -> str:
        """Return the kind of one value."""
        if isinstance(self.rule, tuple):
            return f"one of {', '.join(self.rule)}"
        if isinstance(self.rule, Range) and self.rule.high == MAX_NUMBER:
            return f"{_NOUNS[self.kind]} of at least {self.rule.low}"
        return " ".join(filter(None, (_NOUNS[self.kind], str(self.rule or "").removeprefix("a finite number "))))

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


def value_text(value: Any) -> str:
    """Return a value of a setting as ``--set`` takes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def setting_options(
    kind: Any = Settings, prefix: str = "", table: Mapping[str, Any] = MappingProxyType({})
) -> Iterator[Option]:
    """Yield the option of each setting in the order of its field; `prefix` and `table` are of the table `kind`."""
    for entry in fields(kind):
        if isinstance(entry.type, type) and is_dataclass(entry.type):
            yield from setting_options(entry.type, f"{prefix}{entry.name}.", entry.metadata)
        else:
            yield _setting_option(entry, prefix + entry.name, table)


def _setting_option(entry: Field[Any], name: str, table: Mapping[str, Any]) -> Option:
    """Return the option of one setting (see `settings`)."""
    about = {**table, **entry.metadata, **table.get("of", {}).get(entry.name, {})}
    items = get_args(entry.type)  # of a tuple
    flags: str = about.get("flag", "")
    return Option(
        name=flags.partition("/")[0].removeprefix("--").replace("-", "_") or name.replace(".", "_"),
        flags=flags or SET,
        kind=about.get("kind", items[0] if items else entry.type),
        help=about["help"],
        field=name,
        several=(Several.REPEATED if about.get("repeated") else Several.COMMAS) if items else None,
        rule=about["rule"],
        panel=about["panel"],
        verbs=about["verbs"],
        main=about["main"],
    )
