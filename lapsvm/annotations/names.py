"""Which names the files of formats can hold."""

import re

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
