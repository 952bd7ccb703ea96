"""Networks that can be trained layer by layer: chains of modules that are linear or choose among linear pieces.

The scores of a chain are functions of one layer's weights, with bounds that are convex and concave, and with frozen
choices. Everything after the layer is a chain of linear maps and of choices (ReLU, max pooling). `at` is an activation
at the current weights W_0, whose choices are the fixed ones.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.func import functional_call

from lapsvm.errors import InputError, OptionError

Tensor = torch.Tensor

TRAINED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
"""Modules whose weights are learned."""

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
"""Frozen: an affine function with the running statistics."""

MAX_POOLS = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)

MEANS = (
    *(nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d),
    *(nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d),
    *(nn.Flatten, nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d),
)
"""Linear functions without a negative weight: they map bounds to bounds. Dropout is the identity, as in evaluation."""

SUPPORTED = (*TRAINED, *NORMS, *MAX_POOLS, *MEANS, nn.ReLU)


class Layer(NamedTuple):
    """A module of the chain and its name in the network, as in the keys of its state dict."""

    name: str
    module: nn.Module


def chain(network: object) -> list[Layer]:
    """Return the modules of a network in the order of their evaluation.

    Raises
    ------
    InputError
        If the network is no `torch.nn.Sequential`, contains a module that is neither a Sequential nor one of
        `SUPPORTED`, or the same weights at two places.
    """
    if type(network) is not nn.Sequential:
        raise InputError(f"network must be a torch.nn.Sequential, got {type(network).__name__}.")
    layers = _flatten("", network)
    for layer in layers:
        _check_module(layer)
    parameters = [id(parameter) for layer in layers for parameter in layer.module.parameters()]
    if len(set(parameters)) < len(parameters):
        raise InputError("network must use each weight once, got a weight that is shared by two modules.")
    return layers


def trained(layers: Sequence[Layer], names: Sequence[str] | None) -> list[int]:
    """Return the places in the chain of the layers to train, the last one first.

    Raises
    ------
    InputError
        If there is none.
    OptionError
        If a name is not one of a linear or convolutional module.
    """
    places = {layer.name: index for index, layer in enumerate(layers) if type(layer.module) in TRAINED}
    if not places:
        raise InputError("network must have a linear or convolutional module, got none.")
    if names is None:
        return sorted(places.values(), reverse=True)
    if isinstance(names, str) or not len(names):
        raise InputError(f"layers must be a list of at least one name, got {names!r}.")
    for name in names:
        if name not in places:
            raise OptionError(f"layers must be among {', '.join(places)}, got {name!r}.")
    return sorted({places[name] for name in names}, reverse=True)


def _flatten(prefix: str, network: nn.Sequential) -> list[Layer]:
    layers = []
    for name, module in network._modules.items():  # named_children leaves out what it has seen
        full = f"{prefix}{name}"
        layers += _flatten(f"{full}.", module) if type(module) is nn.Sequential else [Layer(full, module)]
    return layers


def _check_module(layer: Layer) -> None:
    """Raise InputError unless the module is one of `SUPPORTED` itself: a subclass may compute anything."""
    name, module = layer
    if type(module) not in SUPPORTED:
        kinds = "linear, convolution, batch normalisation, ReLU, max or average pooling, flatten, dropout"
        raise InputError(f"network must consist of {kinds}, got {type(module).__name__} at {name!r}.")
    if isinstance(module, NORMS) and module.running_mean is None:
        raise InputError(f"batch normalisation must have running statistics, got none at {name!r}.")
    if isinstance(module, MAX_POOLS) and module.return_indices:
        raise InputError(f"max pooling must return its maxima alone, got return_indices=True at {name!r}.")
    if isinstance(module, nn.Flatten) and module.start_dim != 1:
        raise InputError(f"flatten must keep the samples apart (start_dim=1), got {module.start_dim} at {name!r}.")


def network_type(layers: Sequence[Layer]) -> tuple[torch.dtype, torch.device]:
    """Return the type and the device of the weights; raise InputError if they differ or are no float32 or float64."""
    kinds = {(p.dtype, p.device) for layer in layers for p in layer.module.parameters()}
    if len(kinds) > 1:
        raise InputError(f"network must have weights of one type on one device, got {len(kinds)} combinations.")
    dtype, device = next(iter(kinds))
    if dtype not in (torch.float32, torch.float64):
        raise InputError(f"network must have float32 or float64 weights, got {dtype}.")
    return dtype, device


def run(modules: Sequence[nn.Module], values: Tensor) -> Tensor:
    """Return the output of the chain."""
    for module in modules:
        values = module(values)
    return values


def fixed_scores(modules: Sequence[nn.Module], at: Tensor, values: Tensor) -> Tensor:
    """Return the scores with the choices of `at`: a linear function of the weights, exact at W_0."""
    for module in modules:
        values = _chosen(module, at, values)
        at = module(at)
    return values


def bounded_scores(modules: Sequence[nn.Module], at: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Return (upper, lower): a convex function of the weights at or above the score, a concave one at or below it.

    Both are the score at W_0. A choice's upper bound is the maximum of its inputs' upper bounds, and its lower bound is
    the lower bound of the input that it chooses at W_0. A linear map takes upper bounds where its
    weight is positive and lower bounds where it is negative, for its upper bound, and the reverse.
    """
    upper = lower = values
    for module in modules:
        upper, lower = _bounds(module, at, upper, lower)
        at = module(at)
    return upper, lower


def _bounds(module: nn.Module, at: Tensor, upper: Tensor, lower: Tensor) -> tuple[Tensor, Tensor]:
    if isinstance(module, (nn.ReLU, *MAX_POOLS)):
        return module(upper), _chosen(module, at, lower)
    if upper is lower:  # no choice so far
        both = module(upper)
        return both, both
    if not isinstance(module, (*TRAINED, *NORMS)):
        return module(upper), module(lower)
    centre: Tensor = module((upper + lower) / 2)
    radius = _magnitudes(module)((upper - lower) / 2)
    return centre + radius, centre - radius


def _chosen(module: nn.Module, at: Tensor, values: Tensor) -> Tensor:
    """Return the module's output with the choices that it makes at `at`."""
    if isinstance(module, nn.ReLU):
        return values * (at > 0)
    if not isinstance(module, MAX_POOLS):
        return torch.as_tensor(module(values))
    places = _places(module, at)
    return values.flatten(2).gather(2, places.flatten(2)).view_as(places)


def _places(module: nn.Module, at: Tensor) -> Tensor:
    """Return which input each output of a max pooling is, counted over the positions of a channel."""
    twin: Any = copy.copy(module)
    twin.return_indices = True
    _, places = twin(at)
    return torch.as_tensor(places)


def _magnitudes(module: nn.Module) -> Callable[[Tensor], Tensor]:
    """Return the linear map with the absolute weights of a linear or normalising module, and without its offset."""
    names = dict(module.named_parameters())
    state = {name: value.detach().abs() for name, value in names.items() if name == "weight"}
    if "bias" in names:
        state["bias"] = torch.zeros_like(names["bias"])
    if isinstance(module, NORMS):
        state["running_mean"] = torch.zeros_like(module.get_buffer("running_mean"))
    return lambda values: torch.as_tensor(functional_call(module, state, (values,)))
