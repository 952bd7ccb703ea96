"""The check that an ONNX file has no tensors in other files, which its hash would not cover and could be any file.

ONNX is a protocol buffer (onnx.proto, ONNX 1.x), of which no more is read here than where its tensors are.
"""

from collections.abc import Iterator

from lapsvm.errors import DataError

_VARINT, _EIGHT_BYTES, _MESSAGE, _FOUR_BYTES = 0, 1, 2, 5
_EXTERNAL_DATA, _DATA_LOCATION = 13, 14
# message -> field -> message inside it, as far as tensors can be there
_INSIDE: dict[str, dict[int, str]] = {
    "Model": {7: "Graph", 20: "Training", 25: "Function"},
    "Training": {1: "Graph", 2: "Graph"},
    "Function": {7: "Node", 11: "Attribute"},
    "Graph": {1: "Node", 5: "Tensor", 15: "SparseTensor"},
    "Node": {5: "Attribute"},
    "Attribute": {5: "Tensor", 6: "Graph", 10: "Tensor", 11: "Graph", 22: "SparseTensor", 23: "SparseTensor"},
    "SparseTensor": {1: "Tensor", 2: "Tensor"},
    "Tensor": {},
}


def check_self_contained(name: str, content: bytes) -> None:
    """Raise DataError if a network's file keeps tensors in other files, or is no protocol buffer.

    Parameters
    ----------
    name : str
        For messages.
    content : bytes
    """
    waiting = [("Model", memoryview(content))]
    while waiting:
        kind, message = waiting.pop()
        for field, value in _fields(name, message):
            if kind == "Tensor" and (field == _EXTERNAL_DATA or (field == _DATA_LOCATION and value == 1)):
                raise DataError(f"network {name} must hold its weights itself, but keeps some in another file.")
            inside = _INSIDE[kind].get(field)
            if inside and isinstance(value, memoryview):
                waiting.append((inside, value))


def _fields(name: str, message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield the number and the value of each field of a message."""
    place = 0
    try:
        while place < len(message):
            key, place = _varint(message, place)
            value: int | memoryview = 0
            if key & 7 == _VARINT:
                value, place = _varint(message, place)
            else:
                size, place = _size(message, place, key & 7)
                value, place = message[place : place + size], place + size
            yield key >> 3, value
    except IndexError:
        place = len(message) + 1
    if place > len(message):
        raise DataError(f"network {name} is no ONNX file that can be read: its fields do not fit into it.")


def _size(message: memoryview, place: int, wire: int) -> tuple[int, int]:
    """Return the length and offset of a field's value; IndexError for a kind that ONNX does not have."""
    if wire == _MESSAGE:
        return _varint(message, place)
    return {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}.get(wire, len(message) + 1), place


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    """Return the number at an offset, and the offset of its end."""
    value = shift = 0
    while True:
        byte = message[place]
        value, place, shift = value | (byte & 127) << shift, place + 1, shift + 7
        if byte < 128:
            return value, place
        if shift > 63:
            raise IndexError
