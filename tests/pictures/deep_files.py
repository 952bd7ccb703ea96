"""Writers of 16-bit PNG and TIFF files, byte by byte, in the forms that cameras leave."""

import struct
import zlib

import numpy as np


def write_png(path, samples, significant=None, transparent=None):
    """Write samples (h, w) or (h, w, c) of 16 bits, with the chunk sBIT where `significant` bits are given."""
    channels = 1 if samples.ndim == 2 else samples.shape[2]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in samples)
    size = struct.pack(">II", samples.shape[1], samples.shape[0])
    chunks = [(b"IHDR", size + bytes([16, {1: 0, 2: 4, 3: 2, 4: 6}[channels], 0, 0, 0]))]
    chunks += [] if significant is None else [(b"sBIT", bytes([significant] * channels))]
    chunks += [] if transparent is None else [(b"tRNS", struct.pack(">H", transparent))]
    chunks += [(b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*chunk) for chunk in chunks))
    return path


def _chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def write_tiff(path, samples, tags=None, order="<"):
    """Write samples (h, w) or (h, w, c) of 16 bits without compression; `tags` are number -> values of 16 bits."""
    height, width = samples.shape[:2]
    channels = 1 if samples.ndim == 2 else samples.shape[2]
    content = samples.astype(f"{order}u2").tobytes()
    entries = {256: [width], 257: [height], 258: [16] * channels, 259: [1], 262: [1 if channels == 1 else 2]}
    entries |= {273: [8], 277: [channels], 278: [height], 279: [len(content)], **(tags or {})}
    table, values, start = b"", b"", 8 + len(content)
    behind = start + 2 + 12 * len(entries) + 4
    for tag, numbers in sorted(entries.items()):
        kind, letter = (4, "I") if tag in (273, 279) else (3, "H")
        packed = struct.pack(f"{order}{len(numbers)}{letter}", *numbers)
        place = packed.ljust(4, b"\0") if len(packed) <= 4 else struct.pack(f"{order}I", behind + len(values))
        values += b"" if len(packed) <= 4 else packed
        table += struct.pack(f"{order}HHI", tag, kind, len(numbers)) + place
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(f"{order}I", start)
    path.write_bytes(head + content + struct.pack(f"{order}H", len(entries)) + table + b"\0" * 4 + values)
    return path


def ramp(bits, channels=1):
    """Return samples (4, 256) that rise over the whole range of a number of bits, in one channel or several."""
    grey = np.tile(np.arange(256) * (2**bits // 256) + (2**bits // 256 - 1), (4, 1)).astype(np.uint16)
    return grey if channels == 1 else np.dstack([grey] * channels)
