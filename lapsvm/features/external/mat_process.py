"""The process that reads MATLAB's files, and its messages: a header of JSON, then the bytes of arrays.

Some damaged files end the process that reads them, and what ends a process could take it over. So no message runs code
when it is read, as a pickle would, and what an answer claims is checked before memory is asked for.
"""

import atexit
import json
import os
import signal
import struct
import sys
import warnings
from collections.abc import Collection, Sequence
from contextlib import suppress
from io import BytesIO
from math import prod
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired
from threading import Lock
from typing import Any, BinaryIO, cast

import numpy as np

from lapsvm.arrays import Array
from lapsvm.errors import ExternalFileError
from lapsvm.features.external.numpy_files import reason_of, unfolded_limit
from lapsvm.files import NOT_PARSED

_LENGTH = struct.Struct("<Q")
_TYPES = {"bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)), "float32", "float64"}
_LONGEST_SIDE = 2**40
_FROM_OUTSIDE = {-getattr(signal, name, 0) for name in ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP")} - {0}
"""Exit codes of a process that somebody ended: the system, where memory runs out, or a user."""


class _EndedError(Exception):
    """The process ended before it answered; its argument is the exit code."""


class MatReader:
    """A process that reads files, one after the other; it is started when it is needed, and again after it ended."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process: Popen[bytes] | None = None
        atexit.register(self._end)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._leave)

    def read(self, path: Path, content: bytes, without: Collection[str]) -> dict[str, Any]:
        """Return the variables of a file's content as plain values, None for unwanted variables.

        Raises
        ------
        ExternalFileError
            If the file is damaged, or cannot be read for want of a process.
        """
        with self._lock:
            answer = None
            if self._process is not None:
                with suppress(_EndedError):  # perhaps of an earlier cause, so that a new one tries
                    answer = self._asked(content, without)
            try:
                answer = self._started()._asked(content, without) if answer is None else answer
            except _EndedError as error:
                raise ExternalFileError(f"{path} {_end_message(error.args[0])}.") from None
        if isinstance(answer, str):
            raise ExternalFileError(f"{path} is truncated or damaged: {answer}.")
        return answer

    def _started(self) -> "MatReader":
        """Start a process, and wait until it answers."""
        try:
            self._process = new_process()
            self._asked(b"", ())
        except (_EndedError, OSError):
            raise _EndedError(None) from None
        return self

    def _asked(self, content: bytes, without: Collection[str]) -> dict[str, Any] | str:
        """Return the variables of a file, or its fault."""
        process = cast("Popen[bytes]", self._process)
        requests, answers = cast(BinaryIO, process.stdin), cast(BinaryIO, process.stdout)
        try:
            _send(requests, {"size": len(content), "without": sorted(without)}, [content])
            return received(answers, unfolded_limit(len(content)))
        except (EOFError, OSError):
            raise _EndedError(self._end(patience=5)) from None
        except (AttributeError, TypeError, *NOT_PARSED):
            self._end()
            return "the process that reads it gave no answer that can be read"
        except BaseException:  # also Ctrl-C: the rest of this answer is none to the next file
            self._end()
            raise

    def _end(self, patience: float = 0) -> int | None:
        """End the process, and return the exit code of one that ends by itself within some seconds."""
        process, code = self._process, None
        self._process = None
        if process is not None:
            with suppress(TimeoutExpired):
                code = process.wait(patience) if patience else None
            process.kill()
            with suppress(OSError), process:  # closes the pipes; a part of a request may be left in one
                pass
        return code

    def _leave(self) -> None:
        """Leave the process to the one that was forked: a thread of it may be reading, and have the lock."""
        for pipe in () if self._process is None else (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        self._lock, self._process = Lock(), None


def _end_message(code: int | None) -> str:
    """Return why a file could not be read, by the exit code of the process; None is one that did not start."""
    if code is None:
        return "cannot be read: the process that reads such files does not start"
    if code in _FROM_OUTSIDE:
        killer = f"the process that reads it was ended by {signal.Signals(-code).name}"
        return f"cannot be read: {killer}, as the system does where memory runs out"
    return "is truncated or damaged: the process that reads it ended"


def new_process() -> "Popen[bytes]":
    """Return a process that serves; it does not see Ctrl-C, and ends when its pipes do."""
    places = os.pathsep.join(map(os.path.abspath, sys.path))
    line = [sys.executable, "-P", "-c", f"from {__name__} import serve; serve()"]
    environment = {**os.environ, "PYTHONPATH": places}
    return Popen(  # noqa: S603 - this program itself
        line, bufsize=0, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=environment, start_new_session=True
    )


# ---- messages ----
def _send(stream: BinaryIO, header: Any, contents: Sequence[bytes | Array]) -> None:
    """Write a header and the bytes that it announces to a pipe without a buffer."""
    text = json.dumps(header).encode()
    for piece in (_LENGTH.pack(len(text)), text, *contents):
        view = memoryview(piece).cast("B") if len(piece) else memoryview(b"")  # type: ignore[arg-type]
        while view:
            view = view[stream.write(view) :]


def _header(stream: BinaryIO, most: int) -> Any:
    """Read a header of at most `most` bytes."""
    (length,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size))
    if length > most:
        raise ValueError(f"a header of {length} bytes")
    return json.loads(_exactly(stream, length))


def _exactly(stream: BinaryIO, size: int) -> bytearray:
    """Read a number of bytes. Raises EOFError if the other side ends before."""
    content = bytearray(size)
    view = memoryview(content)
    while view:
        count = stream.readinto(view)  # type: ignore[attr-defined]
        if not count:
            raise EOFError
        view = view[count:]
    return content


def received(stream: BinaryIO, most: int) -> dict[str, Any] | str:
    """Return an answer of the process: variables of at most 2 * `most` bytes, or the fault of the file."""
    header = _header(stream, most)
    if isinstance(header, str):
        return " ".join(header.split())[:300]
    decoded = _decoded(header, stream, [2 * most])
    if not isinstance(decoded, dict):
        raise TypeError("no variables")
    return decoded


def _decoded(entry: Any, stream: BinaryIO, left: list[int]) -> Any:
    """Return a value that `_encoded` describes, with the bytes that arrays may still take in `left`."""
    if entry is None or isinstance(entry, str):
        return entry
    if isinstance(entry, list):
        return [_decoded(item, stream, left) for item in entry]
    ((kind, content),) = entry.items()
    if kind == "struct" and isinstance(content, dict):
        return {name: _decoded(item, stream, left) for name, item in content.items()}
    if kind != "array":
        raise ValueError(kind)
    name, shape = content
    if name not in _TYPES or any(type(side) is not int or not 0 <= side <= _LONGEST_SIDE for side in shape):
        raise ValueError(content)
    stored = np.dtype(np.uint8 if name == "bool" else name)
    left[0] -= (size := prod(shape) * stored.itemsize)
    if left[0] < 0:
        raise ValueError(content)
    array = np.frombuffer(_exactly(stream, size), stored).reshape(shape)
    return array != 0 if name == "bool" else array


def _encoded(value: Any, arrays: list[Array]) -> Any:
    """Return a plain value as JSON, and append the arrays of which it has types and shapes."""
    if isinstance(value, np.ndarray):
        arrays.append(np.ascontiguousarray(value, value.dtype.newbyteorder("=")).reshape(-1))
        return {"array": [value.dtype.name, value.shape]}
    if isinstance(value, list):
        return [_encoded(item, arrays) for item in value]
    return (
        {"struct": {name: _encoded(item, arrays) for name, item in value.items()}} if isinstance(value, dict) else value
    )


# ---- in the process ----
def serve() -> None:
    """Answer the requests of the process that started this one, until it ends."""
    warnings.simplefilter("error", np.exceptions.ComplexWarning)  # of numbers that would lose a part
    requests, answers = open(0, "rb", buffering=0), open(1, "wb", buffering=0)  # noqa: SIM115 - as long as it lives
    with suppress(EOFError):
        while True:
            request = _header(requests, 2**32)
            content = bytes(_exactly(requests, request["size"]))
            _limit_memory(2 * unfolded_limit(len(content)))
            answer = _answer(content, set(request["without"]))
            _limit_memory(None)
            arrays: list[Array] = []
            _send(answers, _encoded(answer, arrays), arrays)


def _limit_memory(more: int | None) -> None:
    """Limit the memory of this process to a number of bytes more than it has, on systems that tell and limit it."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_AS)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = most if more is None else pages * resource.getpagesize() + more
        resource.setrlimit(resource.RLIMIT_AS, (limit, most))


def _answer(content: bytes, without: set[str]) -> dict[str, Any] | str:
    """Return the variables of a file, or its fault."""
    from scipy.io import loadmat, whosmat

    try:
        names = [name for name, *_ in whosmat(BytesIO(content))]
        wanted = [name for name in names if name not in without]
        variables = loadmat(BytesIO(content), mat_dtype=True, variable_names=wanted)
        return {name: _plain(variables.get(name)) for name in names}
    except MemoryError:
        return "its values take far more memory than a file of its size can hold"
    except Exception as error:  # noqa: BLE001 - SciPy raises whatever comes of what it reads
        return reason_of(error)


def _plain(value: Any) -> Any:
    """Return a value of SciPy's as `read_mat_variables` gives it."""
    if type(value) is not np.ndarray:  # its own kinds of arrays are of objects and functions
        return None
    rows = value.ravel(order="F")
    if value.dtype.names is not None:
        entries = [{name: _plain(row[name]) for name in value.dtype.names} for row in rows]
        return entries[0] if len(entries) == 1 else entries
    if value.dtype.kind == "O":
        return [_plain(row) for row in rows]
    if value.dtype.kind == "U":
        return "".join(rows)
    return value if value.dtype.name in _TYPES else None
