"""Text files of unknown origin: UTF-8 with or without a byte order mark, and JSON, TOML and YAML in it."""

import json
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

from lapsvm.errors import DataError, LapsvmError
from lapsvm.files import LARGEST, NOT_PARSED, SMALL_FILE, read_regular
from lapsvm.texts.contents import XML, described, described_json

_LARGEST_YAML = 2**22  # bytes; the parser reads half a megabyte a second


def read_text(path: Path, what: str, error: type[LapsvmError], most: int = LARGEST) -> str:
    """Return the text of a file of UTF-8, without its byte order mark if it has one.

    Raises
    ------
    MissingError, DataError
        As `lapsvm.files.read_regular`.
    error
        If it is no UTF-8, such as UTF-16, which some programs write.
    """
    return decoded(read_regular(path, what, most), f"{what} {path}", error)


def decoded(content: bytes, where: str, error: type[LapsvmError]) -> str:
    """Return the text of some bytes of UTF-8, without a byte order mark; `error`, which names the line, for others."""
    if content and (kind := described(content)):
        raise error(f"{where} must be {'plain text' if kind.startswith(XML) else 'text in UTF-8'}, got {kind}.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = content.count(b"\n", 0, problem.start) + 1
        got = f"the byte 0x{content[problem.start]:02x} in line {line:,}"
        raise error(f"{where} must be text in UTF-8, got {got}; save it as UTF-8.") from None


def read_json(path: Path, what: str, error: type[DataError], unique: bool = False) -> Any:
    """Return the content of a JSON file.

    Raises
    ------
    MissingError, DataError
        As `lapsvm.files.read_regular`.
    error
        If it is no such file in UTF-8, or, if `unique`, repeats a key.
    """

    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        for key, count in Counter(key for key, _ in pairs).items():
            if count > 1:
                raise error(f"{path} must have each key once, got {key!r} twice.")
        return dict(pairs)

    text = read_text(path, what, error)
    try:
        return json.loads(text, object_pairs_hook=distinct if unique else None)
    except DataError:
        raise
    except NOT_PARSED as problem:
        if kind := described_json(text):
            raise error(f"{what} {path} must be JSON, got {kind}.") from None
        raise error(f"{path} is truncated, or cannot be read as JSON: {problem}.") from None


def read_toml(path: Path, what: str, error: type[LapsvmError]) -> dict[str, Any]:
    """Return the tables of a TOML file.

    Raises
    ------
    MissingError, DataError
        As `lapsvm.files.read_regular`, for a file of at most 256 MiB.
    error
        If it is no such file in UTF-8.
    """
    text = read_text(path, what, error, SMALL_FILE)
    try:
        return tomllib.loads(text)
    except NOT_PARSED as problem:
        raise error(f"{what} {path} is not valid TOML: {problem}.") from None


def read_yaml(path: Path, what: str, error: type[LapsvmError]) -> Any:
    """Return the content of a YAML file as lists, dicts and text: ``no`` and ``1`` stay text.

    No object of another type is made, whatever the file asks for. What it repeats by reference is one object, which
    must not be written out.

    Raises
    ------
    MissingError, DataError
        As `lapsvm.files.read_regular`, for a file of at most 4 MiB.
    error
        If it is no such file in UTF-8.
    """
    import yaml

    text = read_text(path, what, error, _LARGEST_YAML)
    try:
        return yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 - makes text, lists and dicts alone
    except (yaml.YAMLError, *NOT_PARSED) as problem:
        raise error(f"{what} {path} is not valid YAML: {' '.join(str(problem).split())}.") from None
