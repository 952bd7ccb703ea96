"""Arrays from untrusted ``.npy`` and ``.npz`` files; a header must agree with the size of its file.

Pickled objects are refused, for reading them may run code. What a header or a compressed entry claims is compared with
the file's size before memory is asked for.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any
from zipfile import ZipFile, is_zipfile

import numpy as np

from lapsvm.arrays import Array
from lapsvm.errors import ExternalFileError, MissingError
from lapsvm.files import open_regular

RATIO = 100
"""Bytes that one compressed byte may stand for in what is larger than `SMALL`: features of a network reach about 20."""

SMALL = 2**26
"""Size up to which any ratio is accepted: 64 MiB."""

_MOST_DIMENSIONS = 32


def unfolded_limit(packed: int) -> int:
    """Return the largest plausible size of the content of some compressed bytes."""
    return max(SMALL, RATIO * packed)


def load_npy(path: Path, mapped: bool = False) -> Array:
    """Return the array of an ``.npy`` file, on request as a view of the file.

    Raises
    ------
    MissingError
        If there is no such file.
    ExternalFileError
        If it is damaged or cut short, or holds pickled objects.
    """
    with open_regular(path, "file") as file:
        try:
            _check_header(file, os.fstat(file.fileno()).st_size)
            file.seek(0)
            array = np.load(path if mapped else file, mmap_mode="r" if mapped else None, allow_pickle=False)
        except Exception as error:  # noqa: BLE001 - numpy evaluates the header and raises whatever comes of it
            raise _unreadable(path, error) from None
    return np.asarray(array)


class Archive(Mapping[str, Array]):
    """An ``.npz`` file: its arrays by name, each checked before it is read.

    Parameters
    ----------
    packed : ZipFile
    size : int
        Bytes of the file.
    """

    def __init__(self, packed: ZipFile, size: int) -> None:
        self._packed, self._size = packed, size
        self._names = {name.removesuffix(".npy"): name for name in packed.namelist()}

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, name: str) -> Array:
        entry = self._packed.getinfo(self._names[name])
        if entry.file_size > unfolded_limit(min(entry.compress_size, self._size)):
            raise ValueError(f"{name} unfolds from {entry.compress_size} bytes to {entry.file_size}, which none does")
        with self._packed.open(entry) as stream:
            _check_header(stream, entry.file_size)
        with self._packed.open(entry) as stream:
            return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))


@contextmanager
def opened_npz(path: Path) -> Iterator[Archive]:
    """Open an ``.npz`` file; damage is a sentence, also while it is read.

    Raises
    ------
    MissingError, ExternalFileError
        As `load_npy`.
    """
    with open_regular(path, "file") as file:
        if not is_zipfile(file):
            raise ExternalFileError(f"{path} is truncated, or no .npz file.")
        try:
            with ZipFile(file) as packed:
                yield Archive(packed, os.fstat(file.fileno()).st_size)
        except (ExternalFileError, MissingError):
            raise
        except Exception as error:  # noqa: BLE001 - as in load_npy
            raise _unreadable(path, error) from None


def _check_header(stream: Any, size: int) -> None:
    """Raise ValueError unless an array's header agrees with its number of bytes."""
    version = np.lib.format.read_magic(stream)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"its header is of version {version}, which plain arrays do not have")
    shape, _, dtype = readers[version](stream)
    if dtype.hasobject:
        raise ValueError("Python objects")
    if len(shape) > _MOST_DIMENSIONS or any(type(side) is not int or side < 0 for side in shape) or not dtype.itemsize:
        raise ValueError(f"its header claims the shape {shape} of {dtype}")
    if prod(shape) * dtype.itemsize > size - stream.tell():
        raise ValueError(f"its header claims an array of shape {shape} and {dtype}, for which the file is too short")


def _unreadable(path: Path, error: Exception) -> ExternalFileError:
    """Return the error for a file that NumPy cannot read."""
    reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    if "pickle" in reason or "Python objects" in reason:
        return ExternalFileError(f"{path} holds pickled objects, which are refused; save plain arrays of numbers.")
    return ExternalFileError(f"{path} is truncated or damaged: {reason}.")
