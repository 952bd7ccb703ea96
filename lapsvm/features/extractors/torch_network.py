"""Networks run by torch, on the processor or a GPU; torch is imported only when one is opened."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from hashlib import blake2b
from threading import Lock
from typing import Any

import numpy as np

from lapsvm.arrays import Array, Float32
from lapsvm.errors import DataError, OptionError, import_optional
from lapsvm.features.extractors.networks import cannot_take


def load_torch(what: str) -> Any:
    """Return the package torch.

    Raises
    ------
    DependencyError
        If it is not installed; the sentence names `what` needs it.
    """
    return import_optional("torch", f"{what} needs torch", "torch")


def choose_device(name: str) -> str:
    """Return "cpu" or "cuda" for "auto", "cpu" or "cuda".

    Raises
    ------
    OptionError
        If `name` is "cuda" and torch cannot use it.
    DependencyError
        If torch is not installed.
    """
    if name == "cpu":
        return name
    available = bool(load_torch(f"device {name}").cuda.is_available())
    if name == "cuda" and not available:
        raise OptionError("device cuda needs a GPU that torch can use, and there is none; use cpu or auto.")
    return "cuda" if available else "cpu"


class TorchNetwork:
    """A network run by torch without gradients; results do not depend on the number of callers (see `Network`).

    Parameters
    ----------
    name : str
        Its name in messages.
    module : torch.nn.Module
        Moved to the device, set to evaluation and to float32.
    device : "cpu" or "cuda"
        On a GPU one caller runs at a time, without TF32 and nondeterministic algorithms.
    threads : int, default 1
        Threads on the processor; torch's own setting is restored after each call.

    Attributes
    ----------
    runtime : dict of str to str
        Name and version of the runtime, and the device.
    fixed_size : None
        Any size is accepted.
    """

    fixed_size: tuple[int, int] | None = None

    def __init__(self, name: str, module: Any, device: str = "cpu", threads: int = 1) -> None:
        self._torch = load_torch(f"network {name}")
        self.name, self.device, self._threads = name, device, threads
        self.runtime = {"name": "torch", "version": str(self._torch.__version__), "device": device}
        self._module = module
        self._lock: Any = Lock() if device == "cuda" else nullcontext()
        try:
            module.float().to(device).eval()
        except self._torch.OutOfMemoryError:
            raise DataError(f"network {name} does not fit into the memory of device {device}.") from None

    def run(self, batch: Float32) -> dict[str, Array]:
        """Return every output by name, for a batch of shape (n, 3, h, w).

        Raises
        ------
        DataError
            If the network rejects the pictures, returns no tensors, or memory runs out.
        """
        torch = self._torch
        try:
            with self._running():
                outputs = self._module(torch.from_numpy(batch).to(self.device))
        except torch.OutOfMemoryError:
            height, width = batch.shape[2:]
            raise DataError(
                f"network {self.name} needs more memory than device {self.device} has for a picture of "
                f"{height} x {width}; give a smaller size, or another device."
            ) from None
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise DataError(cannot_take(self.name, batch, error)) from None
        except SystemExit as error:
            raise DataError(f"network {self.name} ended with SystemExit({error.code!r}).") from None
        named = {name: value for name, value in _named(outputs).items() if isinstance(value, torch.Tensor)}
        if not named:
            raise DataError(f"network {self.name} must give a tensor or several, got {type(outputs).__name__}.")
        return {name: np.asarray(tensor.float().cpu().numpy()) for name, tensor in named.items()}

    @contextmanager
    def _running(self) -> Iterator[None]:
        """Hold the device, without gradients and with this network's number of threads."""
        torch = self._torch
        exact = {"enabled": True, "benchmark": False, "deterministic": True, "allow_tf32": False}
        with (
            self._lock,
            torch.inference_mode(),
            _THREADS.limited(torch, self._threads),
            torch.backends.cudnn.flags(**exact) if self.device == "cuda" else nullcontext(),
        ):
            yield


class _Threads:
    """Torch's number of threads while networks run: each caller sets it, the last one restores it.

    The setting is partly per thread and partly per process. A caller that restored it while others compute would change
    how their sums are split, and so their rounding.
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
        if not hasattr(value, "dtype"):  # a module's extra state
            digest.update(f"{name} {value!r}".encode())
            continue
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        content = value.detach().cpu().contiguous().flatten()
        digest.update(content.view(load_torch("a network").uint8).numpy().data)
    return digest.hexdigest()


def _named(outputs: Any) -> Mapping[str, Any]:
    """Return a network's outputs by name; a single one is named "output", those of a list are numbered."""
    if isinstance(outputs, Mapping):
        return {str(name): value for name, value in outputs.items()}
    if isinstance(outputs, tuple | list):
        return {str(index): value for index, value in enumerate(outputs)}
    return {"output": outputs}
