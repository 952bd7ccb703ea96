"""Networks from ONNX files, run by ONNX Runtime, and the check that such a file has all its tensors."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from lapsvm.arrays import Array, Float32
from lapsvm.errors import DataError, import_optional, one_line
from lapsvm.texts.contents import refusal

_QUIET = 4  # log fatal messages only: failures are raised as errors
_NO_TELEMETRY = "ORT_DISABLE_TELEMETRY"
NVIDIA = ("/dev/nvidiactl", "/dev/dxg")
"""Of which one is there where Linux has a driver of NVIDIA's."""

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
# whole float32 products, and no trying of algorithms for every size of a picture, which would not always choose alike
_EXACT = {"use_tf32": "0", "cudnn_conv_algo_search": "HEURISTIC"}


class Network(Protocol):
    """A network with one picture as its input; several threads may run it at once.

    Attributes
    ----------
    runtime : dict of str to str
        Name and version of the runtime.
    fixed_size : tuple of int or None
        Height and width, if the network accepts only these.
    """

    runtime: dict[str, str]
    fixed_size: tuple[int, int] | None

    def run(self, batch: Float32) -> dict[str, Array]:
        """Return every output by name, for a batch of shape (1, 3, h, w).

        Raises
        ------
        DataError
            If the network does not accept a picture of this size.
        """


class RuntimeNetwork:
    """A network run by ONNX Runtime, with the same result for every number of threads.

    Parameters
    ----------
    name : str
        For messages.
    content : bytes
        The ONNX file. Weights in separate files are refused, because the hash would not cover them.
    threads : int
        On the processor.
    device : "cpu", "cuda" or "auto", default "cpu"
        A GPU is used if this ONNX Runtime has CUDA (the package onnxruntime-gpu) and can use it; "auto" tries it where
        there is a driver.
    extra : str, default "onnx"
        What installs ONNX Runtime, for the error if it is missing.

    Attributes
    ----------
    name : str
    runtime : dict of str to str
        Name and version of ONNX Runtime, and the device "cuda" if it runs there.
    outputs : dict of str to list
        Name of every output, and its shape as the file declares it: a dimension that is free is a name or None.

    Raises
    ------
    DependencyError
        If ONNX Runtime is not installed.
    DataError
        If the content is no ONNX network, has weights in other files, or its input is not one picture of 3 channels.
    """

    def __init__(self, name: str, content: bytes, threads: int, device: str = "cpu", *, extra: str = "onnx") -> None:
        onnxruntime, options = open_runtime(f"network {name} needs onnxruntime", extra, threads)
        state = onnxruntime.capi.onnxruntime_pybind11_state
        check_self_contained(name, content)
        self.name = name
        kinds: list[Any] = [kind for kind in vars(state).values() if isinstance(kind, type)]
        self._errors = tuple(kind for kind in kinds if issubclass(kind, Exception))
        self.runtime = {"name": "onnxruntime", "version": onnxruntime.__version__}
        options.inter_op_num_threads, options.use_deterministic_compute = 1, True
        try:
            self._session = self._opened(onnxruntime, content, options, device)
            self._input, self.fixed_size = self._picture_input()
            self.outputs = {output.name: list(output.shape or ()) for output in self._session.get_outputs()}
        except (*self._errors, UnicodeDecodeError) as error:  # names in a damaged file may be no text
            raise DataError(f"network {name} is no ONNX file that can be read: {one_line(error)}.") from None

    def _opened(self, onnxruntime: Any, content: bytes, options: Any, device: str) -> Any:
        """Return the session of a network, on a GPU if the caller wants one and it can be used."""
        if _may_use_cuda(onnxruntime, device):
            onnxruntime.set_default_logger_severity(_QUIET)  # of libraries that are missing
            with suppress(*self._errors, RuntimeError, ValueError):
                providers = [(CUDA, _EXACT), CPU]
                session = onnxruntime.InferenceSession(content, options, providers=providers, enable_fallback=0)
                if CUDA in session.get_providers():
                    self.runtime["device"] = "cuda"
                return session
        return onnxruntime.InferenceSession(content, options, providers=[CPU])

    def _picture_input(self) -> tuple[str, tuple[int, int] | None]:
        """Return the name of the one input, and its height and width if they are fixed."""
        inputs = self._session.get_inputs()
        shape = inputs[0].shape if len(inputs) == 1 else None
        if not shape or len(shape) != 4 or (isinstance(shape[1], int) and shape[1] != 3):
            got = ", ".join(f"{entry.name} {entry.shape}" for entry in inputs) or "none"
            raise DataError(f"network {self.name} must have one input of shape (1, 3, height, width), got {got}.")
        height, width = shape[2:]
        fixed = (height, width) if isinstance(height, int) and isinstance(width, int) else None
        return inputs[0].name, fixed

    def run(self, batch: Float32, outputs: Iterable[str] | None = None) -> dict[str, Array]:
        """Return every output by name, or only some."""
        names = list(self.outputs if outputs is None else outputs)
        try:
            return dict(zip(names, self._session.run(names, {self._input: batch}), strict=True))
        except (*self._errors, UnicodeDecodeError) as error:
            raise DataError(cannot_take(self.name, batch.shape[2:], error)) from None
        except RuntimeError as error:  # an output of bfloat16, for instance
            raise DataError(f"network {self.name} must give numbers of NumPy's types: {one_line(error)}.") from None


def _may_use_cuda(onnxruntime: Any, device: str) -> bool:
    """Return whether to try a GPU."""
    if device == "cpu" or CUDA not in onnxruntime.get_available_providers():
        return False
    return device == "cuda" or any(Path(driver).exists() for driver in NVIDIA)


def load_runtime(needs: str, extra: str) -> Any:
    """Return ONNX Runtime, without telemetry. Raises DependencyError if it is not installed."""
    # read on import; otherwise ONNX Runtime keeps a device id in the user's cache folder and sends usage data
    os.environ.setdefault(_NO_TELEMETRY, "1")
    return import_optional("onnxruntime", needs, extra)


def open_runtime(needs: str, extra: str, threads: int) -> tuple[Any, Any]:
    """Return ONNX Runtime, without telemetry, and a quiet session's options; DependencyError if it is not installed."""
    onnxruntime = load_runtime(needs, extra)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, _QUIET
    options.enable_mem_pattern = False  # pictures differ in size
    return onnxruntime, options


def cannot_take(name: str, size: tuple[int, ...], error: Exception) -> str:
    """Return the sentence for a picture, of some height and width, on which a network fails."""
    height, width = size
    return f"network {name} cannot take a picture of {height} x {width}: {one_line(error)}."


# ONNX is a protocol buffer (onnx.proto, ONNX 1.x), of which no more is read here than where its tensors are
_VARINT, _EIGHT_BYTES, _MESSAGE, _FOUR_BYTES = 0, 1, 2, 5
_EXTERNAL_DATA, _DATA_LOCATION = 13, 14
# message -> field -> message inside it, as far as tensors can be there
LARGEST_NETWORK = 2**31
"""Bytes of the largest ONNX file: its format takes no more."""

_NODE_INPUT, _NODE_KIND, _ATTRIBUTE = 1, 4, 5  # the numbers of these fields of a node
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
    """Raise DataError if a network's file keeps tensors in other files, loops without a limit, or is no ONNX file.

    The file's hash would not cover other files, which could be any. A loop with a limit may still take any time, and a
    tensor any memory: what a network computes is known when it runs.

    Parameters
    ----------
    name : str
        For messages.
    content : bytes
    """
    if refused := refusal(f"network {name}", "an ONNX file", content, ""):
        raise DataError(refused)
    waiting = [("Model", memoryview(content))]
    while waiting:
        kind, message = waiting.pop()
        fields = list(_fields(name, message))
        if kind == "Node" and _loops_for_ever(fields):
            raise DataError(f"network {name} must end: a node Loop of it has no limit of its rounds.")
        for field, value in fields:
            if kind == "Tensor" and (field == _EXTERNAL_DATA or (field == _DATA_LOCATION and value == 1)):
                raise DataError(f"network {name} must hold its weights itself, but keeps some in another file.")
            inside = _INSIDE[kind].get(field)
            if inside and isinstance(value, memoryview):
                waiting.append((inside, value))


def _loops_for_ever(fields: Sequence[tuple[int, int | memoryview]]) -> bool:
    """Return whether the fields of a node are of a loop whose first input, the number of rounds, is left out."""
    texts = [(field, bytes(value)) for field, value in fields if isinstance(value, memoryview) and field != _ATTRIBUTE]
    kinds, inputs = ([text for field, text in texts if field == wanted] for wanted in (_NODE_KIND, _NODE_INPUT))
    return kinds[-1:] == [b"Loop"] and not any(inputs[:1])


def _fields(name: str, message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield the number and the value of each field of a message."""
    offset = 0
    try:
        while offset < len(message):
            key, offset = _varint(message, offset)
            value: int | memoryview = 0
            if key & 7 == _VARINT:
                value, offset = _varint(message, offset)
            else:
                size, offset = _size(message, offset, key & 7)
                value, offset = message[offset : offset + size], offset + size
            yield key >> 3, value
    except IndexError:
        offset = len(message) + 1
    if offset > len(message):
        raise DataError(f"network {name} is no ONNX file that can be read: its fields do not fit into it.")


def _size(message: memoryview, offset: int, wire: int) -> tuple[int, int]:
    """Return the length and offset of a field's value. Raises IndexError for a kind that ONNX does not have."""
    if wire == _MESSAGE:
        return _varint(message, offset)
    return {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}.get(wire, len(message) + 1), offset


def _varint(message: memoryview, offset: int) -> tuple[int, int]:
    """Return the number at an offset, and the offset of its end."""
    value = shift = 0
    while True:
        byte = message[offset]
        value, offset, shift = value | (byte & 127) << shift, offset + 1, shift + 7
        if byte < 128:
            return value, offset
        if shift > 63:
            raise IndexError
