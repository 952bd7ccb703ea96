"""The kind of a file by its first bytes, and advice, for the sentences of readers that want another kind."""

import json
import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from contextlib import suppress
from pathlib import Path

from lapsvm.errors import LapsvmError
from lapsvm.files import NOT_PARSED, open_regular

HEAD = 1024
"""Bytes from the beginning of a file that show what it is."""

_UNPACK = "unpack it and name what is in it"
_PICTURE = "a picture; name the file that describes pictures"
_HTML = "a page of HTML, as a server sends in place of a file; download the file itself"
XML, JSON, NPY, NPZ, MAT = "XML", "JSON", "a NumPy array", "a file of NumPy arrays", "a MATLAB file"
"""How sentences on these kinds begin."""

_PICKLE = re.compile(rb"\x80[\x02-\x05]")
_ZIP = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
_OFFICE = (b"xl/", b"word/", b"ppt/", b"[Content_Types].xml")

_STARTS = (
    (b"\x1f\x8b", f"a gzip archive; {_UNPACK}"),
    (b"7z\xbc\xaf\x27\x1c", f"a 7z archive; {_UNPACK}"),
    (b"Rar!\x1a\x07", f"a RAR archive; {_UNPACK}"),
    (b"BZh", f"a bzip2 archive; {_UNPACK}"),
    (b"\xfd7zXZ\0", f"an xz archive; {_UNPACK}"),
    (b"\x28\xb5\x2f\xfd", f"a zstd archive; {_UNPACK}"),
    (b"\x89PNG\r\n\x1a\n", _PICTURE),
    (b"\xff\xd8\xff", _PICTURE),
    (b"GIF8", _PICTURE),
    (b"II*\0", _PICTURE),
    (b"MM\0*", _PICTURE),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document; save its table as CSV in UTF-8"),
    (b"SQLite format 3\0", "an SQLite database; export its table"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file; save what it holds in the wanted format"),
    (b"PAR1", "a Parquet table; save it as CSV or JSON"),
    (b"ARROW1\0\0", "an Arrow table; save it as CSV or JSON"),
    (b"\x93NUMPY", f"{NPY} (.npy); name it where arrays are read"),
    (b"MATLAB ", f"{MAT} (.mat); name it where arrays are read"),
)
_TEXT_STARTS = (
    (b"%pdf-", "a PDF document; export it in the wanted format"),
    (b"version https://git-lfs", "a pointer of Git LFS; fetch the file itself by git lfs pull"),
    (b"<!doctype html", _HTML),
    (b"<html", _HTML),
    (b"<?xml", f"{XML}; export it in the wanted format"),
    (b"<annotation", f"{XML}; export it in the wanted format"),
    (b"<svg", f"{XML}; export it in the wanted format"),
)
WIDE = "UTF-16; save it as UTF-8"
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]|\A(\xff\xfe|\xfe\xff)")  # in binary files and UTF-16


def described(content: bytes) -> str:
    """Return the kind of a file by its beginning, "; ", and advice. "" for a text, JSON, and unknown kinds.

    Parameters
    ----------
    content : bytes
        At least its first `HEAD` bytes, if it has as many.
    """
    head = content[:HEAD]
    if not head:
        return "an empty file; write or copy it again"
    start = head.removeprefix(BOM_UTF8).lstrip().lower()
    if kind_name := next((kind for mark, kind in _TEXT_STARTS if start.startswith(mark)), ""):
        return kind_name
    return _described_bytes(content, head) if _CONTROL.search(head) else ""


def _described_bytes(content: bytes, head: bytes) -> str:
    """Return the kind of a file of bytes that are no text, as `described` does."""
    if head.startswith(_ZIP):
        return _described_zip(content)
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return _PICTURE
    if head[257:262] == b"ustar":
        return f"a tar archive; {_UNPACK}"
    if _PICKLE.match(head):
        return "a Python pickle, which could run code and is not read; save its content in the wanted format"
    if kind_name := next((kind for mark, kind in _STARTS if head.startswith(mark)), ""):
        return kind_name
    even, odd = head[:8:2], head[1:8:2]
    is_wide = bool(odd) and ((all(even) and not any(odd)) or (all(odd) and not any(even)))  # a zero beside each letter
    return WIDE if is_wide or head.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else ""


def _described_zip(content: bytes) -> str:
    """Return the kind of a ZIP file: documents of Office, weights of torch and arrays of NumPy are ZIP files, too."""
    names = content[: 2**16]
    if any(name in names for name in _OFFICE):
        return "an Office document, such as .xlsx; save its table as CSV in UTF-8"
    if b".npy" in names[:HEAD]:
        return f"{NPZ} (.npz); name it where arrays are read"
    if b"/data.pkl" in names:
        return "a checkpoint of torch (a ZIP archive with a pickle); name it where weights are read"
    return f"a ZIP archive; {_UNPACK}"


def described_json(text: str) -> str:
    """Return the kind of a text that is no JSON, as `described` does. "" if it is not known."""
    lines = [line for line in text[: 2**20].splitlines()[:2] if line.strip()]
    with suppress(*NOT_PARSED):
        if len(lines) == 2 and all(isinstance(json.loads(line), dict | list) for line in lines):
            return "JSON Lines, an object a line; write one JSON value"
    return described(text[:HEAD].encode("utf-8", "surrogatepass"))


def refusal(where: str, form: str, content: bytes | None, otherwise: str, readable: tuple[str, ...] = ()) -> str:
    """Return the sentence that a file is of another kind, with advice; else the sentence of the reader.

    Parameters
    ----------
    where, form : str
        What must be of which form, as the sentence has them.
    content : bytes or None
        The file's beginning; None where it is not known.
    otherwise : str
        The sentence for a file of no known kind.
    readable : tuple of str
        The beginnings of kinds that the reader takes, which are damaged then.
    """
    if content is None:
        return otherwise
    kind = described(content)
    if not kind and content.lstrip()[:1] in (b"{", b"[") and not form.startswith(JSON) and not _CONTROL.search(content):
        kind = f"{JSON}; export it in the wanted format"
    return f"{where} must be {form}, got {kind}." if kind and not kind.startswith(readable or "-") else otherwise


def beginning(path: str | Path) -> bytes | None:
    """Return the bytes that `described` needs. None for a file that cannot be opened."""
    with suppress(LapsvmError), open_regular(path, "file") as file:
        return file.read(2**16)
    return None
