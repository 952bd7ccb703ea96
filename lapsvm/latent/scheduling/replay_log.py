"""What passes have answered, kept in a file, so that a training that was killed need not ask again.

Training is deterministic: given the same answers it asks the same questions. So nothing of a training's own state is
kept, neither planes nor windows nor candidates, but the answers alone, in the order of the passes. A second training
of the same problems reads them instead of passing over all windows, until the first one that is not there; from then
on it is where the killed one was. Every answer carries the hash of its question, the weight vectors with all their
bits: where another machine or another version rounds otherwise, the rest of the file is dropped, and passes answer.

The file is a sequence of records: the hash of the question (32 bytes), the length of the body and its CRC-32 (two
unsigned 64-bit numbers), and the body: the index (int32), score (float64) and other windows (int32) of each answer.
A record that is cut short, or broken, ends what is known.
"""

import os
import struct
import time
import zlib
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from lapsvm.arrays import Array, Float64
from lapsvm.bags import BestWindows
from lapsvm.errors import WriteError
from lapsvm.latent.scheduling.pool import PassAnswer

_HEAD = struct.Struct("<32sQQ")
_SYNC_SECONDS = 10.0  # a killed process loses nothing; a machine that loses power, this much


class ReplayLog:
    """The answers of the passes of one training, or of several that always follow each other.

    Used as a context, it closes its file at the end; `remove` it once what was trained is safe.

    Parameters
    ----------
    path : str or Path
        The file; where it is there, its answers are used. No other process may write it.

    Raises
    ------
    WriteError
        If the file cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)
        self.n_known = 0
        try:
            self._file = self.path.open("r+b" if self.path.exists() else "w+b")
        except OSError as error:
            raise self._refused(error) from error
        self._reading, self._synced = True, time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def remove(self) -> None:
        """Close and remove the file."""
        self._close()
        self.path.unlink(missing_ok=True)

    def known(self, weights: Float64, n_bags: int, count: int) -> list[BestWindows] | None:
        """Return the answers to `weights` (d, k) if they are the next ones in the file, else None.

        Parameters
        ----------
        weights : (d, k)
        n_bags : int
        count : int
            Other windows of every bag, 0 where answers have none.
        """
        if not self._reading:
            return None
        start = self._file.tell()
        body = self._next_body(_question(weights, n_bags, count))
        k = weights.shape[1]
        if body is None or len(body) != k * n_bags * (12 + 4 * count):
            self._file.seek(start)
            self._file.truncate()
            self._reading = False
            return None
        self.n_known += 1
        return [_answer(part, n_bags, count) for part in np.split(np.frombuffer(body, np.uint8), k)]

    def add(self, weights: Float64, answers: Sequence[BestWindows], count: int) -> None:
        """Write the answers to `weights` (d, k); `known` has not known them."""
        body = b"".join(_stored(answer) for answer in answers)
        question = _question(weights, len(answers[0].index), count)
        try:
            self._file.write(_HEAD.pack(question, len(body), zlib.crc32(body)) + body)
            self._file.flush()
            if time.monotonic() - self._synced > _SYNC_SECONDS:
                os.fsync(self._file.fileno())
                self._synced = time.monotonic()
        except OSError as error:
            raise self._refused(error) from error

    def _close(self) -> None:
        """Close the file; what a full disk did not take was told when it was written, and the next reader drops it."""
        with suppress(OSError):
            self._file.close()

    def _next_body(self, question: bytes) -> bytes | None:
        """Return the body of the next record, None unless it is whole and answers this question."""
        head = self._file.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return None
        stored, length, checksum = _HEAD.unpack(head)
        if stored != question or length > os.fstat(self._file.fileno()).st_size:
            return None
        body = self._file.read(length)
        return body if len(body) == length and zlib.crc32(body) == checksum else None

    def _refused(self, error: OSError) -> WriteError:
        return WriteError(f"file {self.path} could not be written: {error.strerror or error}.")


def _question(weights: Float64, n_bags: int, count: int) -> bytes:
    """Return the hash of what is asked."""
    shape = struct.pack("<4Q", *weights.shape, n_bags, count)
    return blake2b(shape + np.ascontiguousarray(weights).tobytes(), digest_size=32).digest()


def _stored(answer: BestWindows) -> bytes:
    """Return the bytes of one answer."""
    others = answer.others.astype("<i4").tobytes() if isinstance(answer, PassAnswer) else b""
    return answer.index.astype("<i4").tobytes() + answer.score.astype("<f8").tobytes() + others


def _answer(part: Array, n_bags: int, count: int) -> BestWindows:
    """Return the answer that these bytes hold."""
    index, score, others = np.split(part, [4 * n_bags, 12 * n_bags])
    best = index.view("<i4").astype(np.intp), score.view("<f8").astype(np.float64)
    return PassAnswer(*best, others.view("<i4").astype(np.intp).reshape(n_bags, count)) if count else BestWindows(*best)
