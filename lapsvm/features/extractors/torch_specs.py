"""Extractors run by torch, opened by their text: a factory in any package."""

import inspect
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from io import BytesIO
from typing import Any

from lapsvm.errors import DataError, OptionError
from lapsvm.features.extractors.networks import one_line
from lapsvm.features.extractors.pooled_network import OPTIONS as POOLED_OPTIONS
from lapsvm.features.extractors.pooled_network import PooledNetwork
from lapsvm.features.extractors.specs import Machine, Spec, read_options, whole_number, word
from lapsvm.features.extractors.torch_network import TorchNetwork, choose_device, hash_of_state, load_torch
from lapsvm.files import read_regular

# of torchvision's published networks, for pixels from 0 to 255
_COLOURS: dict[str, Any] = {
    "mean": (255 * 0.485, 255 * 0.456, 255 * 0.406),
    "scale": (1 / (255 * 0.229), 1 / (255 * 0.224), 1 / (255 * 0.225)),
}
_OPTIONS: dict[str, Callable[[str], Any]] = {"weights": word, "seed": whole_number(0, 2**32 - 1), **POOLED_OPTIONS}


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
    there, wanted = _shapes(state), _shapes(module.state_dict())
    differing = sorted(name for name in there.keys() | wanted.keys() if there.get(name) != wanted.get(name))
    if differing:
        name = differing[0]
        got = f"shape {there[name]}" if name in there else "none"
        want = f"have shape {wanted[name]}" if name in wanted else "not be there"
        raise DataError(f"weights {path} do not fit: {name} must {want}, got {got}.")
    module.load_state_dict(state, assign=True)
    return module


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
