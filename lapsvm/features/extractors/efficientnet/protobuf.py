"""ONNX files as bytes, without the package onnx, which takes a fifth of a second to import and to fill.

ONNX is a protocol buffer (onnx.proto, ONNX 1.x). A message is its fields in the order of their numbers; a field is its
key, which is the number and the kind, and its value: a whole number, or the length and the bytes of a text or message.
"""

from collections.abc import Iterable, Mapping, Sequence

from lapsvm.arrays import Float32

_VARINT, _MESSAGE = 0, 2  # kinds of values
_INT, _STRING, _INTS = 2, 3, 7  # types of attributes
_FLOAT = 1  # the type of elements
Attribute = int | str | Sequence[int]
Dimension = int | str  # a number, or the name of one that is free


def node(kind: str, inputs: Iterable[str], output: str, attributes: Mapping[str, Attribute]) -> bytes:
    """Return a node of a graph (NodeProto), its attributes sorted by name."""
    named = [_field(5, _attribute(name, attributes[name])) for name in sorted(attributes)]
    return b"".join([*(_field(1, name) for name in inputs), _field(2, output), _field(4, kind), *named])


def tensor(name: str, values: Float32) -> bytes:
    """Return weights of a graph, float32 of any shape (TensorProto)."""
    content = values.astype("<f4", copy=False).tobytes()
    return _message([*((1, size) for size in values.shape), (2, _FLOAT), (8, name), (9, content)])


def value(name: str, shape: Sequence[Dimension]) -> bytes:
    """Return the description of an input or an output, float32 of some shape (ValueInfoProto)."""
    sizes = b"".join(_field(1, _field(2 if isinstance(size, str) else 1, size)) for size in shape)
    kind = _field(1, _FLOAT) + _field(2, sizes)
    return _field(1, name) + _field(2, _field(1, kind))


def graph(
    name: str, nodes: Iterable[bytes], weights: Iterable[bytes], inputs: Iterable[bytes], outputs: Iterable[bytes]
) -> bytes:
    """Return a graph of nodes, weights, inputs and outputs (GraphProto)."""
    kinds: list[tuple[int, Iterable[str | bytes]]] = [
        (1, nodes),
        (2, [name]),
        (5, weights),
        (11, inputs),
        (12, outputs),
    ]
    return _message((number, content) for number, of_kind in kinds for content in of_kind)


def model(content: bytes, ir_version: int, opset: int) -> bytes:
    """Return the file of a graph with the operators of one version of ONNX (ModelProto)."""
    operators = _field(1, "") + _field(2, opset)
    return _message([(1, ir_version), (7, content), (8, operators)])


def _attribute(name: str, given: Attribute) -> bytes:
    """Return an attribute (AttributeProto)."""
    if isinstance(given, int):
        kind, values = _INT, [_field(3, given)]
    elif isinstance(given, str):
        kind, values = _STRING, [_field(4, given)]
    else:
        kind, values = _INTS, [_field(8, item) for item in given]
    return b"".join([_field(1, name), *values, _field(20, kind)])


def _message(fields: Iterable[tuple[int, int | str | bytes]]) -> bytes:
    """Return the fields of these numbers, one after the other; their bytes, perhaps all weights, are copied once."""
    return b"".join(piece for number, content in fields for piece in _pieces(number, content))


def _field(number: int, content: int | str | bytes) -> bytes:
    """Return a field: its key and its value."""
    return b"".join(_pieces(number, content))


def _pieces(number: int, content: int | str | bytes) -> tuple[bytes, bytes]:
    """Return a field in two pieces, its bytes or text being the second."""
    if isinstance(content, int):
        return _varint(number << 3 | _VARINT), _varint(content)
    data = content.encode() if isinstance(content, str) else content
    return _varint(number << 3 | _MESSAGE) + _varint(len(data)), data


def _varint(number: int) -> bytes:
    """Return a whole number from 0 on, 7 bits a byte, the lowest first; all bytes but the last have their high bit."""
    parts = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])
