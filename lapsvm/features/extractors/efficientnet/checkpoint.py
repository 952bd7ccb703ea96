"""State dicts that torch saved before it used zip files, read without torch and without unpickling.

Such a file is five pickles (a magic number, a protocol number, facts about the machine, the state dict, the keys of the
storages in the order in which they lie) and then every storage: its number of elements in 8 bytes, and the elements.
The pickles are walked opcode by opcode. Only what a state dict needs is known; nothing is imported or called.
"""

import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from math import prod
from typing import Any

import numpy as np

from lapsvm.arrays import Array
from lapsvm.errors import DataError

_MAGIC, _PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
_COUNT_BYTES = 8
_TYPES: dict[str, np.dtype[Any]] = {
    "torch FloatStorage": np.dtype("<f4"),
    "torch DoubleStorage": np.dtype("<f8"),
    "torch LongStorage": np.dtype("<i8"),
}
_DICT, _TENSOR = "collections OrderedDict", "torch._utils _rebuild_tensor_v2"


@dataclass(frozen=True)
class _Name:
    """The name of a class or function, which is never looked up."""

    text: str


@dataclass(frozen=True)
class _Storage:
    """A storage that the file holds further behind."""

    key: str
    kind: np.dtype[Any]
    size: int


@dataclass(frozen=True)
class _View:
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
        place = begin + known[key].size * known[key].kind.itemsize
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


class _Mark:
    """What the opcode MARK leaves on the stack."""


@dataclass
class _Walk:
    """The state of one pickle's reader: what it has read so far, and what is named for later."""

    stack: list[Any]
    memo: dict[int, Any]

    def pop(self, kind: type[Any] = object) -> Any:
        """Take the last value, which must be of a kind."""
        value = self.stack.pop() if self.stack else _Mark()
        if isinstance(value, _Mark) or not isinstance(value, kind):
            raise _FormatError("its pickle is malformed")
        return value

    def pop_to_mark(self) -> list[Any]:
        """Take all values behind the last mark, and the mark."""
        places = [place for place, value in enumerate(self.stack) if isinstance(value, _Mark)]
        if not places:
            raise _FormatError("its pickle is malformed")
        values = self.stack[places[-1] + 1 :]
        del self.stack[places[-1] :]
        return values


def _read_pickle(file: BytesIO) -> Any:
    """Return the value of the next pickle: numbers, text, tuples, lists, dicts, storages and tensors."""
    walk = _Walk([], {})
    try:
        for opcode, argument, _ in pickletools.genops(file):
            if opcode.name == "STOP":
                return walk.pop()
            if opcode.name not in _STEPS:
                raise _FormatError(f"its pickle uses {opcode.name}, which no state dict needs")
            _STEPS[opcode.name](walk, argument)
    except (ValueError, LookupError, TypeError, OverflowError):
        pass  # cut short, or a value of another type than its place needs
    raise _FormatError("its pickle is malformed")


def _push(walk: _Walk, value: Any) -> None:
    walk.stack.append(value)


def _keep(walk: _Walk, place: int) -> None:
    value = walk.pop()
    walk.stack.append(value)
    walk.memo[place] = value


def _tuple_of(count: int) -> Callable[[_Walk, Any], None]:
    """Return the step that makes a tuple of the last few values."""

    def step(walk: _Walk, _: Any) -> None:
        walk.stack.append(tuple([walk.pop() for _ in range(count)][::-1]))

    return step


def _name(walk: _Walk, text: str) -> None:
    if text not in {_DICT, _TENSOR, *_TYPES}:
        raise _FormatError(f"its pickle names {text}, which no state dict needs")
    walk.stack.append(_Name(text))


def _storage(walk: _Walk, _: Any) -> None:
    """Put a storage in place of the tuple that names it."""
    word, kind, key, _device, size, whole = walk.pop(tuple)
    if word != "storage" or whole is not None or not isinstance(kind, _Name) or kind.text not in _TYPES:
        raise _FormatError("its pickle is malformed")
    if not (isinstance(key, str) and type(size) is int and size >= 0):
        raise _FormatError("its pickle is malformed")
    walk.stack.append(_Storage(key, _TYPES[kind.text], size))


def _call(walk: _Walk, _: Any) -> None:
    """Put an empty dict, or a tensor, in place of the call that would make it."""
    arguments, name = walk.pop(tuple), walk.pop(_Name)
    if name.text == _DICT and not arguments:
        walk.stack.append({})
        return
    if name.text != _TENSOR:
        raise _FormatError("its pickle is malformed")
    storage, offset, shape, strides, *_ = arguments
    if not (isinstance(storage, _Storage) and isinstance(shape, tuple) and isinstance(strides, tuple)):
        raise _FormatError("its pickle is malformed")
    walk.stack.append(_View(storage, offset, shape, strides))


def _set_items(walk: _Walk, _: Any) -> None:
    values = walk.pop_to_mark()
    target = walk.pop(dict)
    if len(values) % 2:
        raise _FormatError("its pickle is malformed")
    target.update(zip(values[::2], values[1::2], strict=True))
    walk.stack.append(target)


def _set_item(walk: _Walk, _: Any) -> None:
    value, key = walk.pop(), walk.pop()
    target = walk.pop(dict)
    target[key] = value
    walk.stack.append(target)


def _append_one(walk: _Walk, _: Any) -> None:
    value, target = walk.pop(), walk.pop(list)
    target.append(value)
    walk.stack.append(target)


def _append(walk: _Walk, _: Any) -> None:
    values = walk.pop_to_mark()
    target = walk.pop(list)
    target += values
    walk.stack.append(target)


def _build(walk: _Walk, _: Any) -> None:
    """Drop what a state dict keeps beside its tensors: the versions of its modules."""
    walk.pop()


_STEPS: dict[str, Callable[[_Walk, Any], None]] = {
    "PROTO": lambda walk, version: None,  # noqa: ARG005 - every version has the opcodes below
    **dict.fromkeys(("BININT", "BININT1", "BININT2", "LONG1", "BINUNICODE"), _push),
    **dict.fromkeys(("BINPUT", "LONG_BINPUT"), _keep),
    **dict.fromkeys(("BINGET", "LONG_BINGET"), lambda walk, place: walk.stack.append(walk.memo[place])),
    "NONE": lambda walk, _: walk.stack.append(None),
    "NEWTRUE": lambda walk, _: walk.stack.append(True),
    "NEWFALSE": lambda walk, _: walk.stack.append(False),
    "MARK": lambda walk, _: walk.stack.append(_Mark()),
    "EMPTY_DICT": lambda walk, _: walk.stack.append({}),
    "EMPTY_LIST": lambda walk, _: walk.stack.append([]),
    "EMPTY_TUPLE": lambda walk, _: walk.stack.append(()),
    "TUPLE": lambda walk, _: walk.stack.append(tuple(walk.pop_to_mark())),
    "TUPLE1": _tuple_of(1),
    "TUPLE2": _tuple_of(2),
    "TUPLE3": _tuple_of(3),
    "SETITEM": _set_item,
    "SETITEMS": _set_items,
    "APPEND": _append_one,
    "APPENDS": _append,
    "GLOBAL": _name,
    "BINPERSID": _storage,
    "REDUCE": _call,
    "BUILD": _build,
}
