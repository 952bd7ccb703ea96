"""State dicts that torch saved before it used zip files, read without torch.

Such a file is five pickles (a magic number, a protocol number, facts about the machine, the state dict, the keys of the
storages in the order in which they lie) and then every storage: its number of elements in 8 bytes, and the elements.
The pickles may name only what a state dict needs, in place of which stands what is made here: nothing is imported.
"""

import pickle
from collections.abc import Callable
from io import BytesIO
from math import prod
from typing import Any, NamedTuple

import numpy as np

from lapsvm.arrays import Array
from lapsvm.errors import DataError

_MAGIC, _PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
_COUNT_BYTES = 8
_TYPES = {"torch FloatStorage": "<f4", "torch DoubleStorage": "<f8", "torch LongStorage": "<i8"}
_DICT, _TENSOR = "collections OrderedDict", "torch._utils _rebuild_tensor_v2"


class _Storage(NamedTuple):
    """A storage that the file holds further behind."""

    key: str
    kind: str
    size: int


class _View(NamedTuple):
    """A tensor: a part of a storage, strides in elements."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _FormatError(Exception):
    """The content is not what this reader knows; the argument says why."""


def read_legacy_checkpoint(content: bytes) -> dict[str, Array]:
    """Return the tensors of a state dict by name.

    Parameters
    ----------
    content : bytes
        Of a file that ``torch.save`` wrote without a zip file, on a little-endian machine.

    Returns
    -------
    dict of str to ndarray
        Contiguous copies, float32, float64 or int64, in the order of the file.

    Raises
    ------
    DataError
        If the content is something else, or is cut short.
    """
    try:
        return _tensors(content)
    except _FormatError as reason:
        raise DataError(f"a checkpoint must be a state dict in torch's legacy format, but {reason}.") from None


def _tensors(content: bytes) -> dict[str, Array]:
    """Return the tensors, or raise _FormatError."""
    file = BytesIO(content)
    magic, protocol, machine, state, keys = (_read_pickle(file) for _ in range(5))
    if (magic, protocol) != (_MAGIC, _PROTOCOL) or not isinstance(machine, dict):
        raise _FormatError("it does not begin as one")
    if machine.get("little_endian") is not True:
        raise _FormatError("it is big-endian")
    if not (isinstance(state, dict) and all(isinstance(view, _View) for view in state.values())):
        raise _FormatError("it does not hold tensors by name")
    known = {view.storage.key: view.storage for view in state.values()}
    if any(known[view.storage.key] != view.storage for view in state.values()):
        raise _FormatError("it gives a storage two sizes")
    storages = _read_storages(content, file.tell(), keys, known)
    return {str(name): _as_array(view, storages[view.storage.key]) for name, view in state.items()}


def _read_storages(content: bytes, place: int, keys: Any, known: dict[str, _Storage]) -> dict[str, Array]:
    """Return the elements of every storage by its key."""
    if not isinstance(keys, list) or len(keys) != len(set(keys)) or set(keys) != set(known):
        raise _FormatError("its storages are not those of its tensors")
    storages = {}
    for key in keys:
        begin = place + _COUNT_BYTES
        count = int.from_bytes(content[place:begin], "little")
        place = begin + known[key].size * np.dtype(known[key].kind).itemsize
        if len(content) < place or count != known[key].size:
            raise _FormatError("it is cut short, or its storages have other sizes than it says")
        storages[key] = np.frombuffer(content[begin:place], known[key].kind)
    if place != len(content):
        raise _FormatError("something follows its storages")
    return storages


def _as_array(view: _View, elements: Array) -> Array:
    """Return a contiguous copy of what a tensor sees of its storage."""
    numbers = (view.offset, *view.shape, *view.strides)
    if len(view.shape) != len(view.strides) or any(type(number) is not int or number < 0 for number in numbers):
        raise _FormatError("a tensor has an impossible shape")
    if prod(view.shape) == 0:
        return np.empty(view.shape, elements.dtype)
    last = view.offset + sum((side - 1) * stride for side, stride in zip(view.shape, view.strides, strict=True))
    if last >= len(elements):
        raise _FormatError("a tensor reaches out of its storage")
    strides = [stride * elements.itemsize for stride in view.strides]
    return np.lib.stride_tricks.as_strided(elements[view.offset :], view.shape, strides, writeable=False).copy()


class _StateReader(pickle.Unpickler):
    """Reads numbers, text, tuples, lists, dicts, storages and tensors.

    What a name stands for is made anew for each reader, so that no pickle can change it for others.
    """

    def find_class(self, module: str, name: str) -> Any:
        """Return what stands for a name, or raise _FormatError."""
        text = f"{module} {name}"
        known: dict[str, str | Callable[..., Any]] = {**_TYPES, _DICT: type("State", (dict,), {}), _TENSOR: _tensor()}
        if text not in known:
            raise _FormatError(f"its pickle names {text}, which no state dict needs")
        return known[text]

    def persistent_load(self, pid: Any) -> _Storage:
        """Return the storage that a tuple names."""
        word, kind, key, _device, size, whole = pid
        is_known = word == "storage" and whole is None and kind in _TYPES.values()
        if not (is_known and isinstance(key, str) and type(size) is int and size >= 0):
            raise _FormatError("its pickle is malformed")
        return _Storage(key, kind, size)


def _tensor() -> Callable[..., _View]:
    """Return the function that pickles call to make a tensor."""

    def tensor(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> _View:
        if not (isinstance(storage, _Storage) and isinstance(shape, tuple) and isinstance(strides, tuple)):
            raise _FormatError("its pickle is malformed")
        return _View(storage, offset, shape, strides)

    return tensor


def _read_pickle(file: BytesIO) -> Any:
    """Return the value of the next pickle."""
    try:
        return _StateReader(file, fix_imports=False).load()
    except (pickle.UnpicklingError, EOFError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError):
        raise _FormatError("its pickle is malformed") from None
    except MemoryError:
        raise _FormatError("its pickle says that it is larger than memory") from None
