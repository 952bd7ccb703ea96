"""Scores as functions of one layer's weights: bounds that are convex and concave, and the network with frozen choices.

Everything after the layer is a chain of linear maps and of choices (ReLU, max pooling). `at` is an activation at
the current weights W_0, whose choices are the fixed ones.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.func import functional_call

from lapsvm.nn.layerwise.network import MAX_POOLS, NORMS, TRAINED

Tensor = torch.Tensor


def run(modules: Sequence[nn.Module], values: Tensor) -> Tensor:
    """Return what the chain computes."""
    for module in modules:
        values = module(values)
    return values


def fixed_scores(modules: Sequence[nn.Module], at: Tensor, values: Tensor) -> Tensor:
    """Return the scores if every choice is that of `at`: a linear function of the weights, exact at W_0."""
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
    radius = magnitudes(module)((upper - lower) / 2)
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


def magnitudes(module: nn.Module) -> Callable[[Tensor], Tensor]:
    """Return the linear map with the absolute weights of a linear or normalising module, and without its offset."""
    names = dict(module.named_parameters())
    state = {name: value.detach().abs() for name, value in names.items() if name == "weight"}
    if "bias" in names:
        state["bias"] = torch.zeros_like(names["bias"])
    if isinstance(module, NORMS):
        state["running_mean"] = torch.zeros_like(module.get_buffer("running_mean"))
    return lambda values: torch.as_tensor(functional_call(module, state, (values,)))
