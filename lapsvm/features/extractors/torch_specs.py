"""Extractors run by torch, opened by their text: a factory in any package, or the built-in AlexNet."""

import inspect
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from io import BytesIO
from typing import Any

from lapsvm.errors import DataError, OptionError
from lapsvm.features.extractors.networks import one_line
from lapsvm.features.extractors.picture import Colours
from lapsvm.features.extractors.pooled_network import OPTIONS as POOLED_OPTIONS
from lapsvm.features.extractors.pooled_network import PooledNetwork
from lapsvm.features.extractors.specs import Machine, Spec, choice, read_options, whole_number, word
from lapsvm.features.extractors.torch_alexnet import OUTPUTS, alexnet_forward, build_alexnet
from lapsvm.features.extractors.torch_network import TorchNetwork, choose_device, hash_of_state, load_torch
from lapsvm.features.extractors.torch_warped import OPTIONS as WARPED_OPTIONS
from lapsvm.features.extractors.torch_warped import WarpedNetwork
from lapsvm.files import read_regular

ALEXNET = "alexnet"
RANDOM = "random"
# of torchvision's published networks, for pixels from 0 to 255
MEAN = (255 * 0.485, 255 * 0.456, 255 * 0.406)
SCALE = (1 / (255 * 0.229), 1 / (255 * 0.224), 1 / (255 * 0.225))
_SHARED: dict[str, Callable[[str], Any]] = {
    "weights": word,
    "seed": whole_number(0, 2**32 - 1),
    "way": choice("pooled", "warped"),
}


def way_of(spec: Spec) -> str:
    """Return how windows reach the network of a ``torch:`` spec, "pooled" or "warped"."""
    return spec.options.get("way", "warped" if spec.file == ALEXNET else "pooled")


def open_torch(spec: Spec, machine: Machine) -> PooledNetwork | WarpedNetwork:
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
    options = read_options(spec, _SHARED | (WARPED_OPTIONS if way_of(spec) == "warped" else POOLED_OPTIONS))
    weights, seed = options.pop("weights", None), options.pop("seed", None)
    options.pop("way", None)
    torch = load_torch(f"extractor {spec.text!r}")
    device = choose_device(machine.device)
    try:
        if spec.file == ALEXNET:
            options["output"] = _alexnet_output(spec, options.get("output"))
            module = _alexnet(torch, weights, seed)
            forward = alexnet_forward(torch, module, options["output"])
        else:
            module = forward = _factory_module(torch, spec.file or "", weights, seed)
        network = TorchNetwork(spec.file or "", module, device, machine.threads, forward)
        return _extractor(network, hash_of_state(module), way_of(spec), options)
    except (OptionError, DataError) as error:
        raise type(error)(f"extractor {spec.text!r}: {error}") from None
    except SystemExit as error:  # of the factory or its module; a program that it ends would seem to have succeeded
        raise DataError(f"extractor {spec.text!r}: its code ended with SystemExit({error.code!r}).") from None


def _extractor(network: TorchNetwork, weights: str, way: str, options: dict[str, Any]) -> PooledNetwork | WarpedNetwork:
    """Return a network's extractor; colours are torchvision's by default."""
    colours = Colours(options.pop("order", "rgb"), options.pop("mean", MEAN), options.pop("scale", SCALE))
    if way == "warped":
        return WarpedNetwork(network, weights, network.name, colours, **options)
    return PooledNetwork(network, weights, name=network.name, **vars(colours), **options)


def _alexnet_output(spec: Spec, wanted: str | None) -> str:
    """Return the layer that the features are taken from."""
    allowed = OUTPUTS[way_of(spec)]
    if wanted is not None and wanted not in allowed:
        raise OptionError(f"output must be {' or '.join(allowed)} where way={way_of(spec)}, got {wanted!r}.")
    return wanted or allowed[0]


def _alexnet(torch: Any, weights: str | None, seed: int | None) -> Any:
    """Return the built-in network with its weights."""
    if weights is None or (weights == RANDOM and seed is None):
        raise OptionError(
            "alexnet needs weights=FILE, a state dict as torchvision publishes it, or weights=random&seed=N for trials."
        )
    if weights == RANDOM:
        return _seeded(torch, seed, lambda: build_alexnet(torch))
    content = read_regular(weights, "file of weights")
    with torch.device("meta"):  # without first weights, which would only be replaced
        module = build_alexnet(torch)
    return _loaded(torch, module, weights, content)


def _factory_module(torch: Any, name: str, weights: str | None, seed: int | None) -> Any:
    """Return the module of a factory, with the weights of a file if one is given."""
    factory = _find_factory(name)
    content = b"" if weights is None else read_regular(weights, "file of weights")
    takes_weights = weights is not None and "weights" in _parameters(factory)
    given = {"weights": weights} if takes_weights else {}
    try:
        module = _seeded(torch, seed or 0, lambda: factory(**given))
    except Exception as error:
        raise DataError(f"factory {name} failed with {type(error).__name__}: {one_line(error)}.") from error
    if not isinstance(module, torch.nn.Module):
        raise DataError(f"factory {name} must give a torch.nn.Module, got {type(module).__name__}.")
    return module if weights is None or takes_weights else _loaded(torch, module, weights, content)


def _find_factory(name: str) -> Callable[..., Any]:
    """Return a factory by ``package.module:name``."""
    module_name, _, attribute = name.partition(":")
    if not (module_name and attribute):
        raise OptionError(f"torch must be followed by PACKAGE.MODULE:FACTORY or {ALEXNET}, got {name!r}.")
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


def _seeded(torch: Any, seed: int | None, make: Callable[[], Any]) -> Any:
    """Return the result of a call with torch's generator seeded; restore the generator afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed or 0)
        return make()


def _loaded(torch: Any, module: Any, path: str, content: bytes) -> Any:
    """Return a module with the weights of a file's content."""
    state = _state_dict(torch, path, content)
    there, wanted = {name: tuple(value.shape) for name, value in state.items()}, _shapes(module)
    differing = sorted(name for name in there.keys() | wanted.keys() if there.get(name) != wanted.get(name))
    if differing:
        name = differing[0]
        got = f"shape {there[name]}" if name in there else "none"
        want = f"have shape {wanted[name]}" if name in wanted else "not be there"
        raise DataError(f"weights {path} do not fit: {name} must {want}, got {got}.")
    module.load_state_dict(state, assign=True)
    return module


def _shapes(module: Any) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a module's weights and buffers by name."""
    return {name: tuple(value.shape) for name, value in module.state_dict().items() if hasattr(value, "shape")}


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
