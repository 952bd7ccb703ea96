"""Networks from ONNX files, run by ONNX Runtime."""

import os
from pathlib import Path
from typing import Any, Protocol

from lapsvm.arrays import Array, Float32
from lapsvm.errors import DataError, import_optional
from lapsvm.features.extractors.onnx_content import check_self_contained
from lapsvm.files import read_regular

_QUIET = 4  # log fatal messages only: failures are raised as errors
_NO_TELEMETRY = "ORT_DISABLE_TELEMETRY"


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


def read_network_file(path: str | Path) -> bytes:
    """Return the content of a network's file.

    Raises
    ------
    MissingError, DataError
        If there is no such file, or it is too large.
    """
    return read_regular(path, "network")


class RuntimeNetwork:
    """A network run by ONNX Runtime on the CPU, with the same result for every number of threads.

    Parameters
    ----------
    name : str
        For messages.
    content : bytes
        The ONNX file. Weights in separate files are refused, because the hash would not cover them.
    threads : int
    extra : str, default "onnx"
        What installs ONNX Runtime, for the error if it is missing.

    Raises
    ------
    DependencyError
        If ONNX Runtime is not installed.
    DataError
        If the content is no ONNX network, has weights in other files, or its input is not one picture of 3 channels.
    """

    def __init__(self, name: str, content: bytes, threads: int, extra: str = "onnx") -> None:
        # read on import; otherwise ONNX Runtime keeps a device id in the user's cache folder and sends usage data
        os.environ.setdefault(_NO_TELEMETRY, "1")
        onnxruntime = import_optional("onnxruntime", f"network {name} needs onnxruntime", extra)
        state = onnxruntime.capi.onnxruntime_pybind11_state
        check_self_contained(name, content)
        self._name = name
        self._errors = tuple(kind for kind in vars(state).values() if _is_exception(kind))
        self.runtime = {"name": "onnxruntime", "version": onnxruntime.__version__}
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.use_deterministic_compute = True
        options.enable_mem_pattern = False  # pictures differ in size
        options.log_severity_level = _QUIET
        try:
            self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
            self._input, self.fixed_size = self._picture_input()
            self._outputs = [output.name for output in self._session.get_outputs()]
        except (*self._errors, UnicodeDecodeError) as error:  # names in a damaged file may be no text
            raise DataError(f"network {name} is no ONNX file that can be read: {one_line(error)}.") from None

    def _picture_input(self) -> tuple[str, tuple[int, int] | None]:
        """Return the name of the one input, and its height and width if they are fixed."""
        inputs = self._session.get_inputs()
        shape = inputs[0].shape if len(inputs) == 1 else None
        if not shape or len(shape) != 4 or (isinstance(shape[1], int) and shape[1] != 3):
            got = ", ".join(f"{entry.name} {entry.shape}" for entry in inputs) or "none"
            raise DataError(f"network {self._name} must have one input of shape (1, 3, height, width), got {got}.")
        height, width = shape[2:]
        fixed = (height, width) if isinstance(height, int) and isinstance(width, int) else None
        return inputs[0].name, fixed

    def run(self, batch: Float32) -> dict[str, Array]:
        """Return every output by name."""
        try:
            return dict(zip(self._outputs, self._session.run(self._outputs, {self._input: batch}), strict=True))
        except (*self._errors, UnicodeDecodeError) as error:
            raise DataError(cannot_take(self._name, batch, error)) from None


def _is_exception(kind: Any) -> bool:
    """Return whether a module's member is an exception class."""
    return isinstance(kind, type) and issubclass(kind, Exception)


def one_line(error: Exception) -> str:
    """Return an exception's message without line breaks and the full stop."""
    return " ".join(str(error).split()).rstrip(".")


def cannot_take(name: str, batch: Any, error: Exception) -> str:
    """Return the sentence for a picture on which a network fails."""
    height, width = batch.shape[2:]
    return f"network {name} cannot take a picture of {height} x {width}: {one_line(error)}."
