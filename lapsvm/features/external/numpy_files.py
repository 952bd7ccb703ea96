"""Windows from NumPy files: one ``.npz`` per picture, or ``.npy`` files of all pictures with offsets.

The files are not trusted. Pickled objects are refused, for reading them may run code. A header must agree with the size
of its file: what a header or a compressed entry claims is compared with
the file's size before memory is asked for.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from math import prod
from pathlib import Path
from typing import Any, TypeVar
from zipfile import ZipFile, is_zipfile

import numpy as np

from lapsvm.arrays import Array, Index, as_whole_numbers, check_distinct
from lapsvm.errors import ExternalFileError, InputError, MissingError
from lapsvm.features.external.windows import (
    OBJECTNESS_NAME,
    TRUTH_NAME,
    ArrayNames,
    BoxConvention,
    ExternalSource,
    ExternalWindows,
    checked_windows,
)
from lapsvm.files import is_named, open_regular
from lapsvm.names.matching import files_of_users
from lapsvm.texts.contents import NPY, NPZ, beginning, refusal
from lapsvm.texts.reading import read_text

RATIO = 100
"""Bytes that one compressed byte may stand for in what is larger than `SMALL`: features of a network reach about 20."""

SMALL = 2**26
"""Size up to which any ratio is accepted: 64 MiB."""

_MOST_DIMENSIONS = 32

_ATTEMPTS = 5

Result = TypeVar("Result")


def files_below(path: Path, suffix: str) -> dict[str, Path]:
    """Return the files with a suffix in a folder by name, sorted; for a file, that file alone.

    Raises
    ------
    MissingError
        If there is none.
    """
    if path.is_file():
        return {path.stem: path}
    files = files_of_users(path, f"*{suffix}")
    if not files:
        raise MissingError(f"folder {path} holds no {suffix} file.")
    return {file.relative_to(path).with_suffix("").as_posix(): file for file in files}


def open_npz(path: Path, names: ArrayNames) -> ExternalSource:
    """Open a folder of ``.npz`` files, or one of them: arrays of boxes, features and perhaps ``gt`` and
    ``objectness``.

    Boxes are taken as x1, y1, x2, y2, 0-based and half-open.

    Raises
    ------
    MissingError
        If there is none.
    ExternalFileError
        If the first one is none, or lacks its boxes.
    """
    files = files_below(path, ".npz")
    first = next(iter(files.values()))
    with opened_npz(first) as archive:
        has_features = names.features_in(archive, str(first)) is not None

    def read(key: str, features: bool) -> ExternalWindows:
        with opened_npz(files[key]) as archive:
            return names.windows(str(files[key]), archive, features)

    return ExternalSource(str(path), tuple(files), BoxConvention(), has_features, read)


def open_npy(path: Path, names: ArrayNames) -> ExternalSource:  # noqa: ARG001 - every format takes it
    """Open an array of features with its companions in the same folder.

    These are ``boxes.npy`` (n, 4), ``offsets.npy`` (m + 1), ``ids.txt`` (m lines), and perhaps ``gt.npy`` (n) and
    ``objectness.npy`` (n).

    Parameters
    ----------
    path : Path
        The ``.npy`` file of features, or its folder, where ``features.npy`` may be absent: then there are boxes alone.
    names : ArrayNames
        Not used: the files have their names.

    Raises
    ------
    MissingError, ExternalFileError
    """
    folder = path if path.is_dir() else path.parent
    features = folder / "features.npy" if path.is_dir() else path
    boxes = load_npy(folder / "boxes.npy", mapped=True)
    if boxes.ndim != 2:
        raise ExternalFileError(f"{path}: boxes must have shape (n, 4), got {boxes.shape}.")
    ids = _ids(folder / "ids.txt")
    offsets = _offsets(folder / "offsets.npy", len(ids), len(boxes))
    values = load_npy(features, mapped=True) if is_named(features) else None
    truth, objectness = (_companion(folder / f"{name}.npy") for name in (TRUTH_NAME, OBJECTNESS_NAME))
    for what, array in (("features", values), (TRUTH_NAME, truth), (OBJECTNESS_NAME, objectness)):
        if array is not None and array.shape[:1] != (len(boxes),):
            got = len(array) if array.ndim else "one number"
            raise ExternalFileError(f"{path} must have as many {what} as boxes, got {got} for {len(boxes)} boxes.")
    places = {key: slice(int(offsets[i]), int(offsets[i + 1])) for i, key in enumerate(ids)}

    def read(key: str, with_features: bool) -> ExternalWindows:
        rows = places[key]
        wanted = (values, objectness) if with_features else (None, None)
        measured, flags, shares = (None if array is None else array[rows] for array in (wanted[0], truth, wanted[1]))
        return checked_windows(f"{path}, picture {key}", boxes[rows], measured, flags, shares)

    return ExternalSource(str(path), ids, BoxConvention(), values is not None, read)


def _companion(file: Path) -> Array | None:
    """Return an array that need not be there. None if it is not."""
    return load_npy(file) if is_named(file) else None


def _ids(file: Path) -> tuple[str, ...]:
    """Return the pictures' names, all different."""
    if not is_named(file):
        raise MissingError(f"file {file} with the pictures' ids is not there.")
    lines = read_text(file, "file", ExternalFileError).split("\n")
    names = tuple(line for line in map(str.strip, lines) if line)
    check_distinct(names, f"ids of {file} must differ", ExternalFileError)
    return names


def _offsets(file: Path, pictures: int, boxes: int) -> Index:
    """Return the offsets, which rise from 0 to the number of boxes."""
    try:
        rising = as_whole_numbers("offsets", load_npy(file))
    except InputError as error:
        raise ExternalFileError(f"{file}: {error}") from None
    if len(rising) != pictures + 1:
        raise ExternalFileError(
            f"{file}: offsets must be {pictures + 1} whole numbers for {pictures} ids, got {len(rising)}."
        )
    if rising[0] != 0 or rising[-1] != boxes or (rising[1:] < rising[:-1]).any():
        raise ExternalFileError(
            f"{file}: offsets must rise from 0 to the number of boxes {boxes}, got {rising[0]} to {rising[-1]}."
        )
    return rising


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

        def read() -> Any:
            file.seek(0)
            _check_header(file, os.fstat(file.fileno()).st_size)
            file.seek(0)
            return np.load(path if mapped else file, mmap_mode="r" if mapped else None, allow_pickle=False)

        try:
            return np.asarray(_read_again_after_race(read))
        except Exception as error:  # noqa: BLE001 - numpy evaluates the header and raises whatever comes of it
            raise _unreadable(path, error, NPY) from None


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

        def read() -> Any:
            with self._packed.open(entry) as stream:
                _check_header(stream, entry.file_size)
            with self._packed.open(entry) as stream:
                return np.lib.format.read_array(stream, allow_pickle=False)

        return np.asarray(_read_again_after_race(read))


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
            otherwise = f"{path} is truncated, or no .npz file."
            raise ExternalFileError(refusal(str(path), "a .npz file", beginning(path), otherwise, (NPZ, "a ZIP")))
        try:
            with ZipFile(file) as packed:
                yield Archive(packed, os.fstat(file.fileno()).st_size)
        except (ExternalFileError, MissingError):
            raise
        except Exception as error:  # noqa: BLE001 - as in load_npy
            raise _unreadable(path, error, NPZ) from None


def _read_again_after_race(read: Callable[[], Result]) -> Result:
    """Return the result of a function that reads from the beginning. A SystemError is no damage: call it again.

    NumPy evaluates headers, and the evaluation of CPython 3.11 counts the depth of all threads in one place.
    """
    for _ in range(_ATTEMPTS - 1):
        with suppress(SystemError):
            return read()
    return read()


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


def _unreadable(path: Path, error: Exception, form: str) -> ExternalFileError:
    """Return the error for a file that NumPy cannot read."""
    reason = reason_of(error)
    if "pickle" in reason or "Python objects" in reason:
        return ExternalFileError(f"{path} holds pickled objects, which are refused; save plain arrays of numbers.")
    otherwise = f"{path} is truncated or damaged: {reason}."
    return ExternalFileError(refusal(str(path), form, beginning(path), otherwise, (form,)))


def reason_of(error: Exception) -> str:
    """Return the message of a library's error on one line without its full stop, or the error's name."""
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
