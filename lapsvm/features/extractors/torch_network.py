"""Networks run by torch, on the processor or a GPU; torch is imported only when one is opened."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from hashlib import blake2b
from threading import Lock
from typing import Any

import numpy as np

from lapsvm.arrays import Array, Float32
from lapsvm.errors import DataError, DependencyError, OptionError
from lapsvm.features.extractors.networks import cannot_take


def load_torch(what: str) -> Any:
    """Return the package torch.

    Raises
    ------
    DependencyError
        If it is not installed; `what` needs it.
    """
    try:
        import torch
    except ImportError:
        raise DependencyError(f'{what} needs torch, which is not installed; pip install "lapsvm[torch]".') from None
    return torch


def choose_device(name: str) -> str:
    """Return "cpu" or "cuda" for "auto", "cpu" or "cuda".

    Raises
    ------
    OptionError
        If "cuda" is asked for and torch cannot use it.
    DependencyError
        If torch is not installed.
    """
    if name == "cpu":
        return name
    there = bool(load_torch(f"device {name}").cuda.is_available())
    if name == "cuda" and not there:
        raise OptionError("device cuda needs a GPU that torch can use, and there is none; use cpu or auto.")
    return "cuda" if there else "cpu"


class TorchNetwork:
    """A network run by torch without gradients, with the same result for every number of callers (see `Network`).

    Parameters
    ----------
    name : str
        For messages.
    module : torch.nn.Module
        Moved to the device, set to evaluation and to float32.
    device : "cpu" or "cuda"
        On a GPU callers take turns, and neither TF32 nor algorithms that vary from run to run are used.
    threads : int, default 1
        Threads of the processor. Torch's own number is put back after each call.
    forward : callable, optional
        What maps a batch to outputs; by default the module.

    Attributes
    ----------
    runtime : dict of str to str
        Name and version of what runs it, and the device.
    fixed_size : None
        Sizes are not fixed.
    """

    fixed_size: tuple[int, int] | None = None

    def __init__(
        self, name: str, module: Any, device: str = "cpu", threads: int = 1, forward: Callable[[Any], Any] | None = None
    ) -> None:
        self._torch = load_torch(f"network {name}")
        self.name, self.device, self._threads = name, device, threads
        self.runtime = {"name": "torch", "version": str(self._torch.__version__), "device": device}
        self._forward = forward or module
        self._turn: Any = Lock() if device == "cuda" else nullcontext()
        try:
            module.float().to(device).eval()
        except self._torch.OutOfMemoryError:
            raise DataError(f"network {name} does not fit into the memory of device {device}.") from None

    def run(self, batch: Float32) -> dict[str, Array]:
        """Return every output by name, for a batch of shape (n, 3, h, w).

        Raises
        ------
        DataError
            If the network cannot take the pictures, gives no tensors, or memory runs out.
        """
        try:
            found = self.forward(self._torch.from_numpy(batch))
        except self._torch.OutOfMemoryError:
            height, width = batch.shape[2:]
            raise DataError(
                f"network {self.name} needs more memory than device {self.device} has for a picture of "
                f"{height} x {width}; give a smaller size, or another device."
            ) from None
        return {name: np.asarray(tensor.float().cpu().numpy()) for name, tensor in found.items()}

    def forward(self, batch: Any) -> dict[str, Any]:
        """Return every output by name as tensors on the device, for a tensor of shape (n, 3, h, w).

        Raises
        ------
        DataError
            If the network cannot take it, or gives no tensors.
        torch.OutOfMemoryError
            If memory runs out.
        """
        torch = self._torch
        try:
            with self.running():
                outputs = self._forward(batch.to(self.device))
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise DataError(cannot_take(self.name, batch, error)) from None
        except SystemExit as error:
            raise DataError(f"network {self.name} ended with SystemExit({error.code!r}).") from None
        named = {name: value for name, value in _named(outputs).items() if isinstance(value, torch.Tensor)}
        if not named:
            raise DataError(f"network {self.name} must give a tensor or several, got {type(outputs).__name__}.")
        return named

    @contextmanager
    def running(self) -> Iterator[None]:
        """Hold the device, without gradients and with as many threads as this network may use."""
        torch = self._torch
        exact = {"enabled": True, "benchmark": False, "deterministic": True, "allow_tf32": False}
        with (
            self._turn,
            torch.inference_mode(),
            _THREADS.limited(torch, self._threads),
            torch.backends.cudnn.flags(**exact) if self.device == "cuda" else nullcontext(),
        ):
            yield


class _Threads:
    """Torch's number of threads while networks run: set by each caller, put back by the last one to leave.

    Part of the number is kept per thread and part of it per process, so a caller who put it back while others still
    compute would change how their sums are split, and so how they round.
    """

    def __init__(self) -> None:
        self._lock, self._callers, self._before = Lock(), 0, 0

    @contextmanager
    def limited(self, torch: Any, threads: int) -> Iterator[None]:
        """Let torch use `threads` threads in this thread."""
        with self._lock:
            if not self._callers:
                self._before = torch.get_num_threads()
            self._callers += 1
            if torch.get_num_threads() != threads:
                torch.set_num_threads(threads)
        try:
            yield
        finally:
            with self._lock:
                self._callers -= 1
                if not self._callers and self._before != threads:
                    torch.set_num_threads(self._before)


_THREADS = _Threads()


def hash_of_state(module: Any) -> str:
    """Return the hash of a module's weights and buffers, with their names and types: 32 hex digits."""
    digest = blake2b(digest_size=16)
    for name, value in sorted(module.state_dict().items()):
        if not hasattr(value, "dtype"):  # what a module keeps beside its tensors
            digest.update(f"{name} {value!r}".encode())
            continue
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        content = value.detach().cpu().contiguous().flatten()
        digest.update(content.view(load_torch("a network").uint8).numpy().data)
    return digest.hexdigest()


def _named(outputs: Any) -> Mapping[str, Any]:
    """Return a network's outputs by name; the only one is called "output", those of a list are numbered."""
    if isinstance(outputs, Mapping):
        return {str(name): value for name, value in outputs.items()}
    if isinstance(outputs, tuple | list):
        return {str(index): value for index, value in enumerate(outputs)}
    return {"output": outputs}
