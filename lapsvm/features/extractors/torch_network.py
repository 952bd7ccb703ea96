"""Extractors on networks of a factory in any package, or of the package's own AlexNet, which torch runs."""

import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from lapsvm.errors import DataError, OptionError, one_line
from lapsvm.features.extractors.picture import Colours
from lapsvm.features.extractors.pooled_network import OPTIONS as POOLED_OPTIONS
from lapsvm.features.extractors.pooled_network import PooledNetwork
from lapsvm.features.extractors.specs import ALEXNET, Machine, Spec, choice, is_warped, read_options, whole_number
from lapsvm.features.extractors.torch_running import TorchNetwork, choose_device, load_torch
from lapsvm.features.extractors.torch_weights import (
    check_plain,
    hash_of_state,
    loaded_module,
    read_state_dict,
    with_state,
)
from lapsvm.features.extractors.warped.alexnet import LAYERS, alexnet, without_later_layers
from lapsvm.features.extractors.warped.network import OPTIONS as WARPED_OPTIONS
from lapsvm.features.extractors.warped.network import WarpedNetwork
from lapsvm.features.extractors.warped.warping import Warping
from lapsvm.files import read_regular

# of torchvision's published networks, for pixels from 0 to 255
_COLOURS: dict[str, Any] = {
    "mean": (255 * 0.485, 255 * 0.456, 255 * 0.406),
    "scale": (1 / (255 * 0.229), 1 / (255 * 0.224), 1 / (255 * 0.225)),
}
_OF_ALL: dict[str, Callable[[str], Any]] = {
    "weights": str,
    "seed": whole_number(0, 2**32 - 1),
    "way": choice("pooled", "warped"),
}
_POOLED: Mapping[str, Callable[[str], Any]] = POOLED_OPTIONS
_RANDOM = "random"


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
    options = read_options(spec, {**_OF_ALL, **(WARPED_OPTIONS if is_warped(spec) else _POOLED)})
    torch = load_torch(f"extractor {spec.text!r}")
    device = choose_device(machine.device)
    try:
        module, name = _spec_module(torch, spec.file or "", options)
        check_plain(torch, f"network {name}", module.state_dict())
        network = TorchNetwork(name, module, device, machine.threads)
        return (_warped if is_warped(spec) else _pooled)(network, hash_of_state(torch, module), _COLOURS | options)
    except SystemExit as error:  # of the factory or its module; a program that it ends would seem to have succeeded
        raise DataError(f"its code ended with SystemExit({error.code!r}).") from None


def _pooled(network: TorchNetwork, weights: str, options: dict[str, Any]) -> PooledNetwork:
    """Return the extractor of a network's maps."""
    return PooledNetwork(network, weights, name=network.name, **options)


def _warped(network: TorchNetwork, weights: str, options: dict[str, Any]) -> WarpedNetwork:
    """Return the extractor of windows that the network sees one by one."""
    colours = Colours(options.pop("order", "rgb"), options.pop("mean"), options.pop("scale"))
    square = {name: options.pop(name) for name in ("size", "context") if name in options}
    return WarpedNetwork(network, weights, colours=colours, warping=Warping(**square), **options)


def _spec_module(torch: Any, name: str, options: dict[str, Any]) -> tuple[Any, str]:
    """Return a spec's module and its name, and take the options that do not concern windows out of `options`."""
    weights, seed, way = options.pop("weights", None), options.pop("seed", 0), options.pop("way", "warped")
    if name != ALEXNET:
        return _factory_module(torch, name, weights, seed), name
    layer = options.pop("output", "fc7")
    if way != "warped":
        raise OptionError(f"way of {ALEXNET} must be warped, got {way!r}.")
    if layer not in LAYERS:
        raise OptionError(f"output of {ALEXNET} must be {' or '.join(LAYERS)}, got {layer!r}.")
    return _alexnet_module(torch, weights, seed, layer), f"{ALEXNET}:{layer}"


def _alexnet_module(torch: Any, weights: str | None, seed: int, layer: str) -> Any:
    """Return AlexNet up to a layer, with the weights of a file or random ones."""
    if weights is None:
        raise OptionError(
            f"weights of {ALEXNET} must be named: weights=FILE, a state dict of torchvision's AlexNet, or "
            f"weights={_RANDOM}."
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = alexnet(torch, layer)
    if weights == _RANDOM:
        return module
    state = read_state_dict(torch, weights, read_regular(weights, "file of weights"))
    return with_state(torch, module, weights, without_later_layers(state, layer))


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
    return module if weights is None or takes_weights else loaded_module(torch, module, weights, content)


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
