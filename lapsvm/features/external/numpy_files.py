"""Windows from NumPy files: one ``.npz`` per picture, or ``.npy`` files of all pictures with offsets.

The files are not trusted. Pickled objects are refused, for reading them may run code. A header must agree with the size
of its file: what a header or a compressed entry claims is compared with
the file's size before memory is asked for.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any
from zipfile import ZipFile, is_zipfile

import numpy as np

from lapsvm.arrays import Array, Index, as_whole_numbers
from lapsvm.errors import ExternalFileError, InputError, MissingError
from lapsvm.features.external.windows import ArrayNames, BoxConvention, ExternalSource, ExternalWindows, checked_windows
from lapsvm.files import is_named, open_regular, read_json, read_regular

INDEX = "index.json"
RATIO = 100
"""Bytes that one compressed byte may stand for in what is larger than `SMALL`: features of a network reach about 20."""

SMALL = 2**26
"""Size up to which any ratio is accepted: 64 MiB."""

_MOST_DIMENSIONS = 32


def files_below(path: Path, suffix: str) -> dict[str, Path]:
    """Return the files with a suffix in a folder by name, sorted; for a file, that file alone.

    Raises
    ------
    MissingError
        If there is none.
    """
    if path.is_file():
        return {path.stem: path}
    files = sorted(file for file in path.rglob(f"*{suffix}") if not file.name.startswith("."))
    if not files:
        raise MissingError(f"folder {path} holds no {suffix} file.")
    return {file.relative_to(path).with_suffix("").as_posix(): file for file in files}


def open_npz(path: Path, names: ArrayNames) -> ExternalSource:
    """Open a folder of ``.npz`` files, or one of them: arrays of boxes, features and perhaps ``gt``.

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

    These are ``boxes.npy`` (n, 4), ``offsets.npy`` (m + 1), ``ids.txt`` (m lines), and perhaps ``gt.npy`` (n).
    An ``index.json`` may hold lists "ids" and "offsets" itself, or name other files below its own folder under "boxes",
    "features", "ids", "offsets" and "gt".

    Parameters
    ----------
    path : Path
        The ``.npy`` file of features, the JSON, or their folder; ``features.npy`` may be absent in a folder or JSON,
        which then give boxes alone.
    names : ArrayNames
        Not used: the files have their names.

    Raises
    ------
    MissingError, ExternalFileError
    """
    folder, index = path if path.is_dir() else path.parent, _index(path)
    features = folder / str(index.get("features", "features.npy"))
    features = path if path.suffix == ".npy" else features
    has_features = is_named(features) or "features" in index
    boxes = load_npy(folder / str(index.get("boxes", "boxes.npy")), mapped=True)
    if boxes.ndim != 2:
        raise ExternalFileError(f"{path}: boxes must have shape (n, 4), got {boxes.shape}.")
    ids = _ids(folder, index)
    offsets = _offsets(folder, index, len(ids), len(boxes), str(path))
    truth_file = folder / str(index.get("gt", "gt.npy"))
    values = load_npy(features, mapped=True) if has_features else None
    truth = load_npy(truth_file) if "gt" in index or is_named(truth_file) else None
    for what, array in (("features", values), ("gt", truth)):
        if array is not None and array.shape[:1] != (len(boxes),):
            got = len(array) if array.ndim else "one number"
            raise ExternalFileError(f"{path} must have as many {what} as boxes, got {got} for {len(boxes)} boxes.")
    places = {key: slice(int(offsets[i]), int(offsets[i + 1])) for i, key in enumerate(ids)}

    def read(key: str, with_features: bool) -> ExternalWindows:
        rows = places[key]
        measured = values[rows] if with_features and values is not None else None
        return checked_windows(f"{path}, picture {key}", boxes[rows], measured, None if truth is None else truth[rows])

    return ExternalSource(str(path), ids, BoxConvention(), values is not None, read)


def is_index(content: Any) -> bool:
    """Tell whether the content of a JSON file is an index of ``.npy`` files."""
    return isinstance(content, dict) and "offsets" in content and "ids" in content


def _index(path: Path) -> dict[str, Any]:
    """Return the index that a path names or lies beside; an empty one if there is none."""
    file = path if path.suffix == ".json" else (path if path.is_dir() else path.parent) / INDEX
    if not is_named(file):
        return {}
    content = read_json(file, "index", ExternalFileError)
    if not is_index(content):
        raise ExternalFileError(f"{file} must hold ids and offsets, got {type(content).__name__} without them.")
    return dict(content)


def _ids(folder: Path, index: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the pictures' names, all different."""
    ids = index.get("ids", "ids.txt")
    if isinstance(ids, str):
        file = folder / ids
        ids = _stored_ids(file) if file.suffix == ".npy" else [line for line in map(str.strip, _lines(file)) if line]
    if not isinstance(ids, list) or not all(isinstance(key, str | int) for key in ids):
        raise ExternalFileError(f"ids of {folder} must be a list of names or numbers, got {_kinds(ids)}.")
    names = tuple(str(key) for key in ids)
    check_different(names, f"ids of {folder} must differ")
    return names


def check_different(names: Iterable[str], rule: str) -> None:
    """Raise ExternalFileError, saying the rule, if a picture's name is there twice."""
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise ExternalFileError(f"{rule}, got {twice[0]!r} twice.")


def _stored_ids(file: Path) -> Any:
    """Return the ids in an ``.npy`` file; names of bytes, as some programs store them, are UTF-8."""
    ids = load_npy(file)
    if ids.dtype.kind != "S":
        return [key.strip() if isinstance(key, str) else key for key in ids.tolist()] if ids.ndim else ids
    try:
        return [key.decode("utf-8").strip() for key in ids.ravel().tolist()]
    except UnicodeDecodeError as error:
        raise ExternalFileError(f"{file} must hold names in UTF-8; {error}.") from None


def _kinds(ids: Any) -> str:
    """Return which types ids have, for a sentence."""
    return " and ".join(sorted({type(key).__name__ for key in ids})) if isinstance(ids, list) else type(ids).__name__


def _lines(file: Path) -> list[str]:
    """Return the lines of a file of ids."""
    if not is_named(file):
        raise MissingError(f"file {file} with the pictures' ids is not there.")
    try:
        return read_regular(file, "file").decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise ExternalFileError(f"{file} must be text in UTF-8; {error}.") from None


def _offsets(folder: Path, index: Mapping[str, Any], pictures: int, boxes: int, where: str) -> Index:
    """Return the offsets, which rise from 0 to the number of boxes."""
    given = index.get("offsets", "offsets.npy")
    try:
        rising = as_whole_numbers("offsets", load_npy(folder / given) if isinstance(given, str) else given)
    except InputError as error:
        raise ExternalFileError(f"{where}: {error}") from None
    if len(rising) != pictures + 1:
        raise ExternalFileError(
            f"{where}: offsets must be {pictures + 1} whole numbers for {pictures} ids, got {len(rising)}."
        )
    if rising[0] != 0 or rising[-1] != boxes or (rising[1:] < rising[:-1]).any():
        raise ExternalFileError(
            f"{where}: offsets must rise from 0 to the number of boxes {boxes}, got {rising[0]} to {rising[-1]}."
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
