"""What a name may hold in the files of each format."""

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from lapsvm.errors import InputError

_NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def is_text(name: str) -> bool:
    """Return whether a name can be written in UTF-8; file names may hold bytes that cannot."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


def is_line(name: str) -> bool:
    """Return whether a name is one line of a text file, however its reader splits lines and strips them."""
    return is_text(name) and name.strip() == name and name.splitlines() == [name] and "\0" not in name


def is_xml_line(name: str) -> bool:
    """Return whether a name can stand in XML, where a reader may turn line breaks and tabs into spaces."""
    return is_line(name) and _NOT_IN_XML.search(name) is None and "\t" not in name


def check_unique(names: Iterable[str], rule: str) -> None:
    """Raise InputError with the rule if a name occurs twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f"{rule}, got {name!r} twice.")
        seen.add(name)


def without_suffix(name: str) -> str:
    """Return the path of a picture without its suffix."""
    return str(PurePosixPath(name).with_suffix(""))
