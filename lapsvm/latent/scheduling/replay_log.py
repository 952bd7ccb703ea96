"""A log of the answers of passes, from which an interrupted training resumes by replay.

Training is deterministic: with the same answers it requests the same passes. So the log stores the answers alone, in
the order of the passes, and no planes, windows or candidates. A second training of the same problems reads the answers
instead of passing over all windows, and reaches the state of the interrupted one with the last record. Every record
has the hash of its weight vectors, with all their bits. Where another machine or version rounds differently, the rest
of the file is dropped, and passes answer again.

The file is a sequence of records: the hash (32 bytes), the length of the body and its CRC-32 (two unsigned 64-bit
numbers), and the body: the index (int32), score (float64) and other windows (int32) of each answer. An incomplete or
damaged record ends the log.
"""

import os
import struct
import time
import zlib
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Self

import numpy as np

from lapsvm.arrays import Array, Float64
from lapsvm.bags import BestWindows
from lapsvm.errors import WriteError
from lapsvm.files import unshare
from lapsvm.latent.scheduling.pool import PassAnswer

_HEAD = struct.Struct("<32sQQ")
_SYNC_SECONDS = 10.0  # lost on a power failure; a killed process loses nothing


class ReplayLog:
    """The answers of the passes of one training, or of several in a fixed sequence.

    As a context manager it closes its file at the end; call `remove` once the models are saved.

    Parameters
    ----------
    path : str or Path
        The file; its answers are used if it exists. No other process may write it.

    Raises
    ------
    WriteError
        If the file cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)
        self.n_replayed = 0
        unshare(self.path)
        try:
            self._file = self.path.open("r+b" if self.path.exists() else "w+b")
        except OSError as error:
            raise self._write_error(error) from error
        self._reading, self._synced = True, time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    def remove(self) -> None:
        """Close and remove the file."""
        self._close()
        self.path.unlink(missing_ok=True)

    def replay(self, weights: Float64, n_bags: int, count: int) -> list[BestWindows] | None:
        """Return the answers for `weights` (d, k) if they are the next ones in the file, else None.

        Parameters
        ----------
        weights : (d, k)
        n_bags : int
        count : int
            Number of other windows of every bag, 0 if answers have none.
        """
        if not self._reading:
            return None
        start = self._file.tell()
        body = self._next_body(_hash(weights, n_bags, count))
        k = weights.shape[1]
        if body is None or len(body) != k * n_bags * (12 + 4 * count):
            self._file.seek(start)
            self._file.truncate()
            self._reading = False
            return None
        self.n_replayed += 1
        return [_answer(record, n_bags, count) for record in np.split(np.frombuffer(body, np.uint8), k)]

    def add(self, weights: Float64, answers: Sequence[BestWindows], count: int) -> None:
        """Append the answers for `weights` (d, k), after `replay` returned None for these."""
        body = b"".join(_stored(answer) for answer in answers)
        digest = _hash(weights, len(answers[0].index), count)
        try:
            self._file.write(_HEAD.pack(digest, len(body), zlib.crc32(body)) + body)
            self._file.flush()
            if time.monotonic() - self._synced > _SYNC_SECONDS:
                os.fsync(self._file.fileno())
                self._synced = time.monotonic()
        except OSError as error:
            raise self._write_error(error) from error

    def _close(self) -> None:
        """Close the file; `add` has raised for any record that the disk refused, and the next reader drops it."""
        with suppress(OSError):
            self._file.close()

    def _next_body(self, digest: bytes) -> bytes | None:
        """Return the body of the next record, or None if it is incomplete, damaged, or has another hash."""
        head = self._file.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return None
        stored, length, checksum = _HEAD.unpack(head)
        if stored != digest or length > os.fstat(self._file.fileno()).st_size:
            return None
        body = self._file.read(length)
        return body if len(body) == length and zlib.crc32(body) == checksum else None

    def _write_error(self, error: OSError) -> WriteError:
        return WriteError(f"file {self.path} could not be written: {error.strerror or error}.")


def _hash(weights: Float64, n_bags: int, count: int) -> bytes:
    """Return the hash of a pass's weight vectors and shape."""
    shape = struct.pack("<4Q", *weights.shape, n_bags, count)
    return blake2b(shape + np.ascontiguousarray(weights).tobytes(), digest_size=32).digest()


def _stored(answer: BestWindows) -> bytes:
    """Return the bytes of one answer."""
    others = answer.others.astype("<i4").tobytes() if isinstance(answer, PassAnswer) else b""
    return answer.index.astype("<i4").tobytes() + answer.score.astype("<f8").tobytes() + others


def _answer(content: Array, n_bags: int, count: int) -> BestWindows:
    """Return the answer stored in `content`."""
    index, score, others = np.split(content, [4 * n_bags, 12 * n_bags])
    best = index.view("<i4").astype(np.intp), score.view("<f8").astype(np.float64)
    return PassAnswer(*best, others.view("<i4").astype(np.intp).reshape(n_bags, count)) if count else BestWindows(*best)
