"""Networks of a factory in any package, run by torch on the processor or a GPU; torch is imported only to open one."""

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from hashlib import blake2b
from importlib import import_module
from io import BytesIO
from threading import Lock
from typing import Any

import numpy as np

from lapsvm.arrays import Array, Float32
from lapsvm.errors import DataError, OptionError, import_optional
from lapsvm.features.extractors.networks import cannot_take, one_line
from lapsvm.features.extractors.pooled_network import OPTIONS as POOLED_OPTIONS
from lapsvm.features.extractors.pooled_network import PooledNetwork
from lapsvm.features.extractors.specs import Machine, Spec, read_options, whole_number
from lapsvm.files import read_regular

# of torchvision's published networks, for pixels from 0 to 255
_COLOURS: dict[str, Any] = {
    "mean": (255 * 0.485, 255 * 0.456, 255 * 0.406),
    "scale": (1 / (255 * 0.229), 1 / (255 * 0.224), 1 / (255 * 0.225)),
}
_OPTIONS: dict[str, Callable[[str], Any]] = {"weights": str, "seed": whole_number(0, 2**32 - 1), **POOLED_OPTIONS}


def open_torch(spec: Spec, machine: Machine) -> PooledNetwork:
    """Return the extractor that a ``torch:`` spec asks for (see `open_extractor`).

    Raises
    ------
    OptionError
        If an option or its value is not known, or the factory cannot be found or called.
    MissingError, DataError
        If the weights are not there, or do not fit; if the factory gives no network.
    DependencyError
        If torch is not installed.
    """
    options = read_options(spec, _OPTIONS)
    weights, seed = options.pop("weights", None), options.pop("seed", 0)
    torch = load_torch(f"extractor {spec.text!r}")
    device = choose_device(machine.device)
    try:
        module = _factory_module(torch, spec.file or "", weights, seed)
        _check_plain(torch, f"network {spec.file}", module.state_dict())
        network = TorchNetwork(spec.file or "", module, device, machine.threads)
        return PooledNetwork(network, hash_of_state(module), name=network.name, **(_COLOURS | options))
    except SystemExit as error:  # of the factory or its module; a program that it ends would seem to have succeeded
        raise DataError(f"its code ended with SystemExit({error.code!r}).") from None


def _factory_module(torch: Any, name: str, weights: str | None, seed: int) -> Any:
    """Return the module of a factory, with the weights of a file if one is given."""
    factory = _find_factory(name)
    content = b"" if weights is None else read_regular(weights, "file of weights")
    takes_weights = weights is not None and "weights" in _parameters(factory)
    given = {"weights": weights} if takes_weights else {}
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            module = factory(**given)
    except Exception as error:
        raise DataError(f"factory {name} failed with {type(error).__name__}: {one_line(error)}.") from error
    if not isinstance(module, torch.nn.Module):
        raise DataError(f"factory {name} must give a torch.nn.Module, got {type(module).__name__}.")
    return module if weights is None or takes_weights else _loaded(torch, module, weights, content)


def _find_factory(name: str) -> Callable[..., Any]:
    """Return a factory by ``package.module:name``."""
    module_name, _, attribute = name.partition(":")
    if not (module_name and attribute):
        raise OptionError(f"torch must be followed by PACKAGE.MODULE:FACTORY, got {name!r}.")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        raise OptionError(
            f"module {error.name} cannot be found; install it, or put its folder into PYTHONPATH."
        ) from None
    except Exception as error:
        raise OptionError(f"module {module_name} cannot be imported: {one_line(error)}.") from error
    factory: Callable[..., Any] | None = getattr(module, attribute, None)
    if factory is None or not callable(factory):
        got = "no such name" if factory is None else type(factory).__name__
        raise OptionError(f"{attribute} of module {module_name} must be callable, got {got}.")
    return factory


def _parameters(factory: Callable[..., Any]) -> Mapping[str, Any]:
    """Return the named parameters of a factory; none if it has no signature."""
    try:
        return inspect.signature(factory).parameters
    except (TypeError, ValueError):
        return {}


def _loaded(torch: Any, module: Any, path: str, content: bytes) -> Any:
    """Return a module with the weights of a file's content."""
    state = _state_dict(torch, path, content)
    _check_plain(torch, f"weights {path}", state)
    there, wanted = _shapes(state), _shapes(module.state_dict())
    differing = sorted(name for name in there.keys() | wanted.keys() if there.get(name) != wanted.get(name))
    if differing:
        name = differing[0]
        got = f"shape {there[name]}" if name in there else "none"
        want = f"have shape {wanted[name]}" if name in wanted else "not be there"
        raise DataError(f"weights {path} do not fit: {name} must {want}, got {got}.")
    own = module.state_dict()
    for name in wanted:
        if state[name].is_floating_point() != own[name].is_floating_point() or state[name].is_complex():
            kinds = [str(value.dtype).removeprefix("torch.") for value in (own[name], state[name])]
            raise DataError(f"weights {path} do not fit: {name} must be of type {kinds[0]}, got {kinds[1]}.")
    try:
        module.load_state_dict(state, assign=True)
    except Exception as error:  # of hooks of the user's module, too
        raise DataError(f"weights {path} do not fit: {_first_line(error)}.") from error
    return module


def _check_plain(torch: Any, what: str, state: Mapping[str, Any]) -> None:
    """Raise DataError unless every tensor holds its numbers one by one: sparse and quantised ones, say, do not."""
    for name, value in state.items():
        if not isinstance(value, torch.Tensor):
            continue
        kinds = {"meta": value.is_meta, "quantised": value.is_quantized, "nested": value.is_nested}
        kinds["sparse"] = value.layout is not torch.strided
        if kind := next((kind for kind, is_so in kinds.items() if is_so), ""):
            raise DataError(f"{what} must hold plain tensors of numbers, got the {kind} tensor {name}.")


def _shapes(tensors: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of tensors by name, without what is no tensor."""
    return {name: tuple(value.shape) for name, value in tensors.items() if hasattr(value, "shape")}


def _state_dict(torch: Any, path: str, content: bytes) -> dict[str, Any]:
    """Return the tensors of a ``.safetensors`` file, or of one that torch saved; nothing in it is run."""
    try:
        if path.endswith(".safetensors"):
            from safetensors.torch import load

            state = load(content)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of what it meets before it gives a file up
                state = torch.load(BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # of any kind: what is not a state dict may lead its reader anywhere
        raise DataError(f"weights {path} are no state dict that can be read: {_first_line(error)}.") from error
    if not isinstance(state, Mapping) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise DataError(f"weights {path} must be a state dict, names with tensors, got {type(state).__name__}.")
    return dict(state)


def _first_line(error: Exception) -> str:
    """Return the first sentence of torch's message."""
    return (str(error).splitlines() or [type(error).__name__])[0].split(". ")[0].rstrip(".")


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
