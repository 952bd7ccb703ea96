"""A reader of MATLAB files of versions 5 to 7; it checks every length before use.

A file is a header of 128 bytes and a sequence of elements: a tag (type and number of bytes, or both with up to four
bytes of data in one word), the data, and filling up to a multiple of 8. A variable is an element of type 14, whose
parts are elements again, or one of type 15, which holds such an element compressed ("MAT-File Format", The MathWorks).
SciPy reads these too, but ends the whole process on some damaged files; this one says a sentence.
"""

import zlib
from collections.abc import Callable, Iterator
from math import prod
from pathlib import Path
from struct import unpack_from
from typing import Any

import numpy as np

from lapsvm.arrays import Array
from lapsvm.errors import ExternalFileError
from lapsvm.features.external.numpy_files import unfolded_limit
from lapsvm.files import read_regular

HEADER = 128
MATRIX, COMPRESSED = 14, 15
CELL, STRUCT, CHAR = 1, 2, 4
_LOGICAL, _COMPLEX = 0x0200, 0x0800
_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
_TEXTS = {1: "latin-1", 2: "latin-1", 4: "utf-16", 16: "utf-8", 17: "utf-16", 18: "utf-32"}
_DEEPEST = 16
_HEAD = 4096  # class, shape and name of a variable stand within so many bytes
_MOST_DIMENSIONS = 32
_OBJECT = 200  # bytes that an empty cell takes as a value
_MOST_EMPTY = 2**18  # empty cells of a file: pictures without windows
_SPARE = 64  # bytes behind a compressed variable that do no harm

Value = Any  # an array; a text; a list, of a cell array in MATLAB's order; a dict, of a struct with one entry


class _Damaged(Exception):  # noqa: N818 - never leaves this file
    """A length or a type does not fit."""


class _Layout:
    """The byte order of numbers, and the remaining budget of bytes for values.

    Parameters
    ----------
    order : "<" or ">"
    most : int
        Bytes: what a few compressed zeros claim to be is refused before memory is asked for.
    """

    def __init__(self, order: str, most: int) -> None:
        self.order, self._left, self._empty = order, most, 0

    def count_empty(self) -> None:
        """Count an empty cell: many millions of them fit into a small file, and take long."""
        self._empty += 1
        if self._empty > _MOST_EMPTY:
            raise _Damaged(f"it has more than {_MOST_EMPTY:,} empty cells")

    def charge(self, size: int) -> None:
        """Subtract a number of bytes from the budget."""
        self._left -= size
        if self._left < 0:
            raise _Damaged("its values take far more memory than a file of its size can hold")


def read_mat_variables(path: Path, wanted: Callable[[str], bool] = lambda _: True) -> dict[str, Value]:
    """Return the variables of a ``.mat`` file; those not wanted are None, and not decoded.

    Parameters
    ----------
    path : Path
    wanted : callable
        Of a variable's name.

    Returns
    -------
    dict of name to value
        Arrays of numbers or flags with their shape in MATLAB, texts (of several rows: joined), lists for cell arrays,
        dicts for structs of one entry, lists of dicts for others. What is no such thing (functions, objects, sparse and
        complex arrays) is None.

    Raises
    ------
    MissingError
        If there is no such file.
    ExternalFileError
        If it is of version 7.3, is truncated or damaged, or is no such file.
    """
    content = memoryview(read_regular(path, "file"))
    if bytes(content[:10]) == b"MATLAB 7.3":
        raise ExternalFileError(
            f"{path} is of MATLAB's version 7.3, which is not read; load it in MATLAB and save it with '-v7'."
        )
    order = {b"IM": "<", b"MI": ">"}.get(bytes(content[126:HEADER]))
    if order is None:
        raise ExternalFileError(f"{path} is truncated, or no .mat file of the versions 5 to 7.")
    layout = _Layout(order, unfolded_limit(len(content)))
    try:
        return dict(_variable(kind, data, layout, wanted) for kind, data in _elements(content[HEADER:], layout))
    except (_Damaged, zlib.error, ValueError) as error:
        raise ExternalFileError(f"{path} is truncated or damaged: {error}.") from None


def _elements(data: memoryview, layout: _Layout) -> Iterator[tuple[int, memoryview]]:
    """Yield type and data of consecutive elements."""
    place = 0
    while place < len(data):
        if len(data) - place < 8:
            raise _Damaged("an element is cut short")
        first, second = unpack_from(f"{layout.order}II", data, place)
        if first >> 16:  # the small form: type and length in one word, the data in the other
            kind, length, start, end = first & 0xFFFF, first >> 16, place + 4, place + 8
            if length > 4:
                raise _Damaged(f"a small element has {length} bytes")
        else:
            kind, length, start = first, second, place + 8
            end = start + length if kind == COMPRESSED else start + -(-length // 8) * 8
        if start + length > len(data):
            raise _Damaged(f"an element of {length} bytes ends behind what holds it")
        yield kind, data[start : start + length]
        place = end


def _variable(kind: int, data: memoryview, layout: _Layout, wanted: Callable[[str], bool]) -> tuple[str, Value]:
    """Return name and value of a variable; of one that is not wanted only the beginning is decompressed."""
    if kind not in (MATRIX, COMPRESSED):
        raise _Damaged(f"a variable has the type {kind}")
    parts = _elements(data if kind == MATRIX else _inflated(data, layout, _HEAD), layout)
    _next(parts), _next(parts)
    name = _text(*_next(parts), layout)
    if not wanted(name):
        return name, None
    return name, _value(data if kind == MATRIX else _inflated(data, layout), layout, 0)


def _inflated(data: memoryview, layout: _Layout, most: int | None = None) -> memoryview:
    """Return the content of a compressed variable, or its first bytes."""
    stream = zlib.decompressobj()
    tag = stream.decompress(data, 8)
    if len(tag) < 8:
        raise _Damaged("a compressed variable is cut short")
    kind, length = unpack_from(f"{layout.order}II", tag)
    if kind != MATRIX:
        raise _Damaged(f"a compressed variable has the type {kind}")
    if most is not None:
        return memoryview(stream.decompress(stream.unconsumed_tail, most))
    layout.charge(length)
    content = stream.decompress(stream.unconsumed_tail, length + _SPARE)
    if len(content) < length or not stream.eof:  # at its end zlib has compared its own checksum
        raise _Damaged(f"a compressed variable has {len(content)} of {length} bytes, or no end")
    return memoryview(content)[:length]


def _value(data: memoryview, layout: _Layout, depth: int) -> Value:
    """Return the value of a matrix element."""
    layout.charge(_OBJECT)
    if not data:
        layout.count_empty()
        return np.empty((0, 0))
    if depth > _DEEPEST:
        raise _Damaged(f"values are nested more than {_DEEPEST} deep")
    parts = _elements(data, layout)
    flags, shape = _words(_next(parts), layout, "u4"), _words(_next(parts), layout, "i4")
    _next(parts)
    if len(flags) != 2 or not 2 <= len(shape) <= _MOST_DIMENSIONS or min(shape) < 0:
        raise _Damaged("an array has no class, or a shape that no array has")
    kind, count = flags[0] & 0xFF, prod(shape)
    if kind == CELL:
        return [_inner(parts, layout, depth) for _ in range(count)]
    if kind == STRUCT:
        return _struct(parts, layout, count, depth)
    if kind == CHAR:
        return _text(*_next(parts), layout)
    if kind not in _CLASSES or flags[0] & _COMPLEX:
        return None
    return _array(_next(parts), layout, kind, shape, bool(flags[0] & _LOGICAL))


def _inner(parts: Iterator[tuple[int, memoryview]], layout: _Layout, depth: int) -> Value:
    """Return the next value of a cell array or struct."""
    kind, data = _next(parts)
    if kind != MATRIX:
        raise _Damaged(f"an inner value has the type {kind}")
    return _value(data, layout, depth + 1)


def _struct(parts: Iterator[tuple[int, memoryview]], layout: _Layout, count: int, depth: int) -> Value:
    """Return a struct of one entry, or a list of them."""
    widths = _words(_next(parts), layout, "i4")
    _, names = _next(parts)
    if len(widths) != 1 or widths[0] < 1 or len(names) % widths[0]:
        raise _Damaged("a struct has no names of fields")
    starts = range(0, len(names), widths[0])
    fields = [bytes(names[at : at + widths[0]]).split(b"\0")[0].decode("latin-1") for at in starts]
    entries = [{field: _inner(parts, layout, depth) for field in fields} for _ in range(count if fields else 0)]
    return entries[0] if len(entries) == 1 else entries


def _array(part: tuple[int, memoryview], layout: _Layout, kind: int, shape: list[int], logical: bool) -> Array:
    """Return an array of numbers, which may be stored in a smaller type than its own."""
    stored, data = part
    if stored not in _STORED:
        raise _Damaged(f"numbers have the type {stored}")
    dtype = np.dtype(layout.order + _STORED[stored])
    if len(data) != prod(shape) * dtype.itemsize:
        raise _Damaged(f"an array of shape {tuple(shape)} has {len(data)} bytes")
    layout.charge(prod(shape) * np.dtype(_CLASSES[kind]).itemsize)
    numbers = np.frombuffer(data, dtype=dtype).reshape(shape, order="F")
    return np.ascontiguousarray(numbers, dtype=np.bool_ if logical else _CLASSES[kind])


def _text(kind: int, data: memoryview, layout: _Layout) -> str:
    """Return the text of an element."""
    if kind not in _TEXTS:
        raise _Damaged(f"a text has the type {kind}")
    layout.charge(4 * len(data))
    coding = _TEXTS[kind] + ({"<": "-le", ">": "-be"}[layout.order] if _TEXTS[kind] in ("utf-16", "utf-32") else "")
    return bytes(data).decode(coding)


def _words(part: tuple[int, memoryview], layout: _Layout, dtype: str) -> list[int]:
    """Return the whole numbers of an element of 4-byte words."""
    kind, data = part
    if _STORED.get(kind) not in ("i4", "u4") or len(data) % 4 or len(data) > 4 * _MOST_DIMENSIONS:
        raise _Damaged(f"a header has the type {kind}")
    return [int(word) for word in np.frombuffer(data, dtype=layout.order + dtype)]


def _next(parts: Iterator[tuple[int, memoryview]]) -> tuple[int, memoryview]:
    """Return the next element."""
    part = next(parts, None)
    if part is None:
        raise _Damaged("a part of an array is not there")
    return part
