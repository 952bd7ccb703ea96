"""State dicts that torch saved before it used zip files, read without torch.

Such a file is five pickles (a magic number, a protocol number, facts about the machine, the state dict, the keys of the
storages in the order in which they lie) and then every storage: its number of elements in 8 bytes, and the elements.
The pickles may name only what a state dict needs, in place of which stands what is made here: nothing is imported.
"""

import pickle
from collections.abc import Callable
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np

from lapsvm.arrays import Array
from lapsvm.errors import DataError, one_line

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

    def of(self, elements: Array) -> Array:
        """Return a contiguous copy of the part. Raises ValueError if it reaches out of the storage."""
        size = elements.itemsize
        strides = [stride * size for stride in self.strides]
        return np.ndarray(self.shape, elements.dtype, elements.data, self.offset * size, strides).copy()


def read_legacy_checkpoint(content: bytes) -> dict[str, Array]:
    """Return the tensors of a state dict by name.

    Parameters
    ----------
    content : bytes
        Of a file that ``torch.save`` wrote without a zip file, on a little-endian machine. Its hash is what shows that
        it is undamaged.

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
        return _tensors(BytesIO(content))
    except Exception as error:  # noqa: BLE001 - what is no state dict may lead the reader of pickles anywhere
        reason = f"{type(error).__name__}: {one_line(error)}"
        raise DataError(f"a checkpoint must be a state dict in torch's legacy format, but gave {reason}.") from None


def _tensors(file: BytesIO) -> dict[str, Array]:
    """Return the tensors."""
    magic, protocol, machine, state, keys = (_StateReader(file, fix_imports=False).load() for _ in range(5))
    if (magic, protocol, machine["little_endian"]) != (_MAGIC, _PROTOCOL, True):
        raise ValueError("it does not begin as one of a little-endian machine")
    known = {view.storage.key: view.storage for view in state.values()}
    storages = {key: _elements(file, known[key]) for key in keys}
    return {name: view.of(storages[view.storage.key]) for name, view in state.items()}


def _elements(file: BytesIO, storage: _Storage) -> Array:
    """Return the elements of the next storage of a file."""
    count = int.from_bytes(file.read(_COUNT_BYTES), "little")
    elements = np.frombuffer(file.read(storage.size * np.dtype(storage.kind).itemsize), storage.kind)
    if not count == len(elements) == storage.size:
        raise ValueError("it is cut short, or its storages have other sizes than it says")
    return elements


class _StateReader(pickle.Unpickler):
    """Reads numbers, text, tuples, lists, dicts, storages and tensors.

    What a name stands for is made anew for each reader, so that no pickle can change it for others.
    """

    def find_class(self, module: str, name: str) -> Any:
        """Return the class or function of a name. Raises ValueError for a name that no state dict needs."""
        text = f"{module} {name}"
        known: dict[str, str | Callable[..., Any]] = {
            **_TYPES,
            _DICT: type("State", (dict,), {}),
            _TENSOR: lambda storage, offset, shape, strides, *_: _View(storage, offset, shape, strides),
        }
        if text not in known:
            raise ValueError(f"its pickle names {text}, which no state dict needs")
        return known[text]

    def persistent_load(self, pid: Any) -> _Storage:
        """Return the storage that a tuple names."""
        _word, kind, key, _device, size, _whole = pid
        return _Storage(key, kind, size)
