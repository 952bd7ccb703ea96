"""Networks run by torch on the processor or a GPU; torch is imported only to open one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from threading import Lock, RLock
from typing import Any

import numpy as np

from lapsvm.arrays import Array, Float32
from lapsvm.errors import DataError, OptionError, import_optional
from lapsvm.features.extractors.maps.on_device import DeviceMap
from lapsvm.features.extractors.networks import cannot_take
from lapsvm.features.extractors.picture import Colours
from lapsvm.features.extractors.together import Together
from lapsvm.features.extractors.warped.warping import Samples, placed_windows, warp

PIXELS = 32 * 640 * 640
"""Pixels of pictures that pass through a network together at most, until memory runs out."""

ALIKE = 1e-3
"""Share of an output's largest number by which rounding may change it in the company of other pictures."""


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
    """A network run by torch without gradients; several threads may call it at once.

    Results do not depend on the number of callers, but for the rounding of pictures that pass together (`run_kept`).

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
    keeps_maps : bool, optional
        Whether maps stay on the device, which pools windows there (`run_kept`); by default on a GPU.

    Attributes
    ----------
    runtime : dict of str to str
        Name and version of the runtime, and the device.
    fixed_size : None
        Any size is accepted.
    """

    fixed_size: tuple[int, int] | None = None

    def __init__(
        self, name: str, module: Any, device: str = "cpu", threads: int = 1, keeps_maps: bool | None = None
    ) -> None:
        self._torch = load_torch(f"network {name}")
        self.name, self.device, self._threads = name, device, threads
        self.runtime = {"name": "torch", "version": str(self._torch.__version__), "device": device}
        self._module = module
        self.keeps_maps = device == "cuda" if keeps_maps is None else keeps_maps
        self._lock: Any = RLock() if device == "cuda" or self.keeps_maps else nullcontext()
        self._pixels, self._is_checked = PIXELS, False
        self._together = Together(self.run_pictures, lambda batch: batch.shape, self._most, self._lock)
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
        outputs = self._outputs(lambda: self._there(batch), batch.shape)
        return {name: _as_array(value) for name, value in outputs.items()}

    def run_windows(
        self, pixels: Array, rows: Samples, columns: Samples, colours: Colours, batch: int, output: str | None = None
    ) -> dict[str, Array]:
        """Return an output by name, or every output, for windows of a picture (h, w, 3), `batch` at a time.

        They are warped on the device: the picture travels there once, and the output back once.

        Raises
        ------
        DataError
            As `run`.
        """
        shape = batch, 3, rows.first.shape[1], columns.first.shape[1]
        with self._running("a picture"):
            placed = placed_windows(self._torch, pixels, rows, columns, colours, self.device)
        parts: dict[str, list[Any]] = {}
        for begin in range(0, len(rows.first), batch):
            outputs = self._outputs(partial(warp, placed, slice(begin, begin + batch), colours), shape)
            for name in outputs if output is None else [output]:
                parts.setdefault(name, []).append(outputs[name])
        with self._running(f"{len(rows.first)} windows", "batch"):
            return {name: self._joined(tensors) for name, tensors in parts.items()}

    def _joined(self, tensors: list[Any]) -> Array:
        return _as_array(tensors[0] if len(tensors) == 1 else self._torch.cat(tensors))

    def run_kept(self, batch: Float32) -> dict[str, Any]:
        """Return every output by name as a tensor on the device, for a batch of shape (1, 3, h, w).

        Pictures of one size, of callers who wait for the device at the same time, pass together. A network that
        mixes the pictures of a batch gets one at a time; the rounding of others may depend on the company. Pictures of
        a single caller pass alone.

        Raises
        ------
        DataError
            As `run`.
        """
        return self._together(batch)

    def run_pictures(self, batches: Sequence[Float32]) -> list[dict[str, Any] | Exception]:
        """Return the result of `run_kept`, or its DataError, for each of some pictures (1, 3, h, w) of one size.

        Where they cannot pass together, as when memory runs out, each half of them is tried, and later ones are fewer.
        """
        if len(batches) == 1:
            try:
                return [self._outputs(lambda: self._there(batches[0]), batches[0].shape)]
            except DataError as error:
                return [error]
        with suppress(DataError):
            return self._passed_together(batches)
        half = len(batches) // 2  # by now the error is gone, and the tensors of the pass that failed with it
        self._pixels = half * int(batches[0][0, 0].size)
        return [*self.run_pictures(batches[:half]), *self.run_pictures(batches[half:])]

    def _passed_together(self, batches: Sequence[Float32]) -> list[dict[str, Any] | Exception]:
        """Return the outputs of pictures that pass together, one by one. Raises DataError if this is not possible."""
        count, shape = len(batches), batches[0].shape
        outputs = self._outputs(lambda: self._there(np.concatenate(batches)), (count, *shape[1:]))
        if any(tensor.ndim == 0 or len(tensor) != count for tensor in outputs.values()):
            raise DataError(f"network {self.name} must give outputs of every picture of {count}.")
        apart: list[dict[str, Any] | Exception] = [
            {name: tensor[i : i + 1] for name, tensor in outputs.items()} for i in range(count)
        ]
        if not self._is_checked:  # once: by the first pictures that pass together
            self._check_alike(apart[0], self._outputs(lambda: self._there(batches[0]), shape))
        return apart

    def _check_alike(self, together: Any, alone: dict[str, Any]) -> None:
        """Raise DataError unless a picture has the same outputs alone as together with others, but for rounding."""
        for name, tensor in alone.items():
            expected, difference = tensor.float(), (together[name].float() - tensor.float()).abs()
            if tensor.numel() and difference.max() > ALIKE * expected.abs().max():
                raise DataError(f"network {self.name} must not mix the pictures of a batch.")
        self._is_checked = True

    def _most(self, batch: Float32) -> int:
        """Return how many pictures of this size pass together at most."""
        return max(1, self._pixels // int(batch[0, 0].size))

    def kept_map(self, cells: Any) -> DeviceMap | None:
        """Return the map of a tensor (channels, rows, columns) on the device. None if it is not finite."""
        with self._running("a map"):
            alone = cells.float().clone(memory_format=self._torch.contiguous_format)  # without the rest of its batch
            is_finite = bool(self._torch.isfinite(alone).all())
        return DeviceMap(self._torch, alone, self._running) if is_finite else None

    def _there(self, batch: Float32) -> Any:
        return self._torch.from_numpy(batch).to(self.device)

    def _outputs(self, make: Callable[[], Any], shape: tuple[int, ...]) -> dict[str, Any]:
        """Return every output as a tensor on the device, for the batch of some shape that `make` returns there."""
        torch, (count, _, height, width) = self._torch, shape
        what, smaller = ("a picture", "size") if count == 1 else (f"{count} windows", "batch")
        try:
            with self._running(f"{what} of {height} x {width}", smaller):
                outputs = self._module(make())
        except DataError:  # memory has run out
            raise
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise DataError(cannot_take(self.name, (height, width), error)) from None
        except SystemExit as error:
            raise DataError(f"network {self.name} ended with SystemExit({error.code!r}).") from None
        named = {name: value for name, value in _named(outputs).items() if isinstance(value, torch.Tensor)}
        if not named:
            raise DataError(f"network {self.name} must give a tensor or several, got {type(outputs).__name__}.")
        return named

    @contextmanager
    def _running(self, what: str, smaller: str = "size") -> Iterator[None]:
        """Hold the device, without gradients and with this network's number of threads.

        If memory runs out, a DataError says for what, and what is to be smaller.
        """
        torch = self._torch
        exact = {"enabled": True, "benchmark": False, "deterministic": True, "allow_tf32": False}
        try:
            with (
                self._lock,
                torch.inference_mode(),
                _THREADS.limited(torch, self._threads),
                torch.backends.cudnn.flags(**exact) if self.device == "cuda" else nullcontext(),
            ):
                yield
        except torch.OutOfMemoryError:
            raise DataError(
                f"network {self.name} needs more memory than device {self.device} has for {what}; give a smaller "
                f"{smaller}, or another device."
            ) from None


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


def _as_array(tensor: Any) -> Array:
    """Return a tensor as an array of the processor's, float32."""
    return np.asarray(tensor.float().cpu().numpy())


def _named(outputs: Any) -> Mapping[str, Any]:
    """Return a network's outputs by name; a single one is named "output", the outputs of a list are numbered."""
    if isinstance(outputs, Mapping):
        return {str(name): value for name, value in outputs.items()}
    if isinstance(outputs, tuple | list):
        return {str(index): value for index, value in enumerate(outputs)}
    return {"output": outputs}
