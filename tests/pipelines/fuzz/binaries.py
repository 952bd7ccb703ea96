"""Strategies that change binary files where their format has a part: headers, chunks, tags, entries, messages."""

import io
import json
import struct
import zipfile
import zlib
from hashlib import blake2b

import numpy as np
from hypothesis import strategies as st

from .trees import altered, encoded, json_text, often_whole

NUMBERS = st.sampled_from((0, 1, 2, 3, 7, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1))


# ---- safetensors: shards and models ----
def _split(content):
    length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def _joined(table, body, aligned=True):
    head = json_text(table)
    head += b" " * (-len(head) % 8 if aligned else 0)
    return len(head).to_bytes(8, "little") + head + body


def _signed(description, tensors, is_shard):
    """Return a description with the digest of its content, as lapsvm writes it."""
    key, name = ("checksum", "") if is_shard else ("digest", "\n")
    plain = {k: v for k, v in description.items() if k != key}
    text = json.dumps(plain, sort_keys=True, **({"separators": (",", ":")} if is_shard else {}))
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16)
    for one, array in sorted(tensors.items()):
        digest.update(f"{one} {array.dtype.str} {array.shape}{name}".encode())
        digest.update(array.tobytes())
    return {**plain, key: digest.hexdigest()}


@st.composite
def safetensors_files(draw, content, is_shard=False):
    """Draw files whose header, or the description in it, says something else; the digest mostly fits."""
    from safetensors.numpy import load, save

    table, body = _split(content)
    if draw(st.integers(0, 2)) == 0:
        return _joined(draw(altered(table)), body[: draw(st.sampled_from((None, None, -1, 0)))])
    description, tensors = json.loads(table["__metadata__"]["lapsvm"]), load(content)
    if draw(st.booleans()):
        changed = draw(altered(description))
        description = changed if isinstance(changed, dict) else description
    if draw(st.booleans()):
        name = draw(st.sampled_from(sorted(tensors)))
        tensors[name] = draw(arrays_like(tensors[name]))
    try:
        text = json.dumps(_signed(description, tensors, is_shard), sort_keys=True)
        return save(tensors, metadata={"lapsvm": text})
    except (TypeError, ValueError, UnicodeEncodeError):
        return content


@st.composite
def arrays_like(draw, array):
    """Draw an array of another shape, another type, or numbers that do not fit."""
    kind = draw(st.integers(0, 3))
    if kind == 0:
        return np.zeros(draw(st.sampled_from(((), (0,), (1,), (3,), (1, 2), (2, 0), (4, 1, 2)))), array.dtype)
    if kind == 1:
        return np.ascontiguousarray(array.astype(draw(st.sampled_from(("f8", "f4", "f2", "i8", "i4", "u1", "?")))))
    changed, value = np.array(array).reshape(-1), draw(st.sampled_from((np.nan, np.inf, -1, 0, 2**31 - 1, 1e30)))
    if len(changed) and not (changed.dtype.kind in "iu?" and not np.isfinite(value)):
        with np.errstate(all="ignore"):
            changed[draw(st.integers(0, len(changed) - 1))] = np.asarray(value).astype(changed.dtype)
    return changed.reshape(array.shape) if kind == 2 else changed.reshape(array.shape)[: len(changed) // 2]


# ---- NumPy ----
_DESCR = ("'<f8'", "'>f4'", "'<f2'", "'<i8'", "'|b1'", "'<c16'", "'|O'", "'|S3'", "'|S0'", "'<M8[s]'",
          "[('a', '<f8'), ('b', '<i4')]", "'|V8'", "7", "None")  # fmt: skip
_SHAPES = ("(2, 4)", "(8,)", "()", "(0, 4)", "(-1, 4)", "(2.0, 4)", "(10**12, 4)", "(1000000000000, 4)", "[2, 4]",
           "(4, 2, 1)", str((1,) * 40), "(True, 8)", "7", "('a',)")  # fmt: skip


@st.composite
def npy_files(draw, array):
    """Draw .npy files whose header says something else of the same bytes."""
    descr, shape = draw(st.sampled_from((f"'{array.dtype.str}'", *_DESCR))), draw(st.sampled_from(_SHAPES))
    order = draw(st.sampled_from(("False", "True", "7")))
    text = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    version = draw(st.sampled_from((b"\1\0", b"\1\0", b"\2\0", b"\3\0", b"\7\0")))
    length = len(text).to_bytes(2 if version == b"\1\0" else 4, "little")
    return b"\x93NUMPY" + version + length + text + array.tobytes()


def npy(array):
    """Return an array as an .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


@st.composite
def npz_files(draw, arrays):
    """Draw .npz files with entries of other names, headers and sizes."""
    buffer = io.BytesIO()
    method = draw(st.sampled_from((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA)))
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, array in arrays.items():
            other = draw(st.sampled_from((name, name, name, "../" + name, "", "boxes", "a/" + name, name + "\0")))
            data = draw(st.sampled_from((npy(array), npy(array), b""))) or draw(npy_files(array))
            if draw(st.integers(0, 9)) and f"{other}.npy" not in archive.namelist():
                archive.writestr(f"{other}.npy", data)
    return draw(often_whole(st.just(buffer.getvalue())))


def _cells(values):
    found = np.empty((1, len(values)), dtype=object)
    for place, value in enumerate(values):
        found[0, place] = value
    return found


_VALUES = st.recursive(
    st.sampled_from((np.zeros((2, 4)), np.array([[0.0, 0, 5, 5]]), np.array("a"), np.zeros((0, 0)), np.array(3.0),
                     np.array([[1 + 2j]]), np.ones((2, 2), bool), np.array(["a", "b"], object),
                     np.array([[np.nan] * 4]),
                     np.zeros((1, 2, 4)), np.array(2**53, np.int64), np.array(["x", "yy"]))),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(_cells),
        st.dictionaries(st.sampled_from(("boxes", "images", "features", "a")), inner, min_size=1, max_size=2),
    ),
    max_leaves=4,
)  # fmt: skip


def mat_file(variables, packed=False):
    """Return variables as a .mat file."""
    from scipy.io import savemat

    buffer = io.BytesIO()
    savemat(buffer, variables, do_compression=packed)
    return buffer.getvalue()


@st.composite
def mat_files(draw, variables):
    """Draw .mat files in which a variable is of another kind, with some damage."""
    name = draw(st.sampled_from(sorted(variables)))
    changed = {**variables, draw(st.sampled_from((name, name, "other"))): draw(_VALUES)}
    return draw(often_whole(st.just(mat_file(changed, draw(st.booleans())))))


# ---- pictures ----
def chunk(kind, data):
    """Return a chunk of a PNG file."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


_EXTRA = (
    chunk(b"tRNS", b"\0\1\0\2\0\3"), chunk(b"PLTE", bytes(range(9))), chunk(b"sBIT", b"\0\7\x11"),
    chunk(b"bKGD", b"\0" * 6),
    chunk(b"gAMA", b"\0" * 4), chunk(b"acTL", b"\0\0\0\2\0\0\0\0"), chunk(b"iCCP", b"a\0\0x"),
    chunk(b"zTXt", b"a\0\0x"),
    chunk(b"eXIf", b"MM\0*\0\0\0\x08\0\1\x01\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0"),
    chunk(b"iTXt", b"\0" * 9), chunk(b"IDAT", b""),
    chunk(b"fcTL", b"\0" * 26), chunk(b"pHYs", b"\0" * 9), struct.pack(">I", 2**31 - 1) + b"tEXt",
)  # fmt: skip


@st.composite
def png_files(draw, content):
    """Draw PNG files whose chunks are others, with checksums that fit."""
    chunks, place = [], 8
    while place < len(content):
        end = place + 12 + int.from_bytes(content[place : place + 4], "big")
        chunks.append(content[place:end])
        place = end
    for _ in range(draw(st.integers(1, 2))):
        index, kind = draw(st.integers(0, len(chunks))), draw(st.integers(0, 3))
        if kind == 0:
            chunks.insert(index, draw(st.sampled_from(_EXTRA)))
        elif kind == 1 and index < len(chunks):
            del chunks[index]
        elif chunks:
            own = chunks[min(index, len(chunks) - 1)]
            data = bytearray(own[8:-4])
            if data:
                data[draw(st.integers(0, min(16, len(data) - 1)))] = draw(st.integers(0, 255))
            chunks[min(index, len(chunks) - 1)] = chunk(own[4:8], bytes(data))
    return content[:8] + b"".join(chunks)


_TAGS = st.sampled_from((254, 256, 257, 258, 259, 262, 266, 269, 273, 274, 277, 278, 279, 280, 281, 284, 296, 317, 320,
                         322, 323, 324, 325, 338, 339, 340, 341, 347, 530, 700, 34665, 34675))  # fmt: skip


@st.composite
def tiff_tags(draw):
    """Draw further tags of a TIFF file."""
    return draw(st.dictionaries(_TAGS, st.lists(NUMBERS.map(lambda n: n % 2**16), max_size=4), min_size=1, max_size=3))


# ---- ONNX ----
def _messages(message):
    """Return every message inside one, itself first."""
    found = [message]
    for one in found:
        for field, value in one.ListFields():
            if field.message_type is not None:
                found += list(value) if _is_repeated(field) else [value]
    return found


def _is_repeated(field):
    return getattr(field, "is_repeated", None) or getattr(field, "label", None) == 3


_TEXTS = ("", "map", "picture0", "kernel", "Loop", "Identity", "Resize", "é", "../weights", "x" * 200)


@st.composite
def onnx_files(draw, content):
    """Draw networks in which fields of messages are cleared, doubled, or have other values."""
    import onnx

    model = onnx.ModelProto.FromString(content)
    for _ in range(draw(st.integers(1, 2))):
        message = draw(st.sampled_from(_messages(model)))
        fields = message.DESCRIPTOR.fields
        _change(draw, message, fields[draw(st.integers(0, len(fields) - 1))])
    return draw(often_whole(st.just(model.SerializeToString())))


def _change(draw, message, field):
    values = {str: st.sampled_from(_TEXTS), int: NUMBERS, float: st.sampled_from((0.0, -1.0, 1e30)),
              bytes: st.sampled_from((b"", b"\0", bytes(64)))}  # fmt: skip
    kind = {9: str, 12: bytes, 1: float, 2: float}.get(field.type, int)
    if field.message_type is not None:
        if _is_repeated(field) and len(getattr(message, field.name)) and draw(st.booleans()):
            getattr(message, field.name).add().CopyFrom(getattr(message, field.name)[0])
        else:
            message.ClearField(field.name)
    elif _is_repeated(field):
        value = draw(values[kind])
        getattr(message, field.name).append(value % 2**31 if kind is int else value)
    elif field.type == 14:
        setattr(message, field.name, draw(st.sampled_from([one.number for one in field.enum_type.values])))
    else:
        value = draw(values[kind])
        setattr(message, field.name, value % 2**31 if kind is int else value)


def text_file(text):
    """Return text as a file."""
    return encoded(text)
