"""The convex problem of one layer: planes below its hinges, and the risk of the network itself."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.func import functional_call

from lapsvm.arrays import Array, Float64, Index
from lapsvm.nn.layerwise import activations
from lapsvm.nn.layerwise.hinge import SummedHinge
from lapsvm.optim import Plane


class Blocks(NamedTuple):
    """The mini-batches: samples of each, their share of all samples, and the labels (n, K)."""

    samples: Sequence[Index]
    shares: Float64
    positive: NDArray[np.bool_]


class LayerProblem:
    """One layer's weights against the hinges of the blocks, the rest of the network fixed.

    Parameters
    ----------
    layer : torch module
        It and the later ones are on the same device.
    later : list of torch modules
        What follows it.
    inputs : tensor (n, ...)
        The layer's input.
    blocks : Blocks
    hinge : SummedHinge
    bounded : bool
        Whether positives have the concave lower bound of their score and negatives the convex upper bound, so that the
        convex problem lies above the network's; else all have the score with the choices of the current weights.

    Attributes
    ----------
    start : (d,) float64
        The layer's weights, and its bias if there is one, when the problem was made.
    """

    def __init__(
        self,
        layer: nn.Module,
        later: Sequence[nn.Module],
        inputs: torch.Tensor,
        blocks: Blocks,
        hinge: SummedHinge,
        bounded: bool,
    ):
        self._layer, self._later, self._inputs = layer, later, inputs
        self._blocks, self._hinge, self._bounded = blocks, hinge, bounded
        self._shapes = {name: parameter.shape for name, parameter in layer.named_parameters()}
        self._start = {name: parameter.detach().clone() for name, parameter in layer.named_parameters()}
        self.start = np.concatenate([as_float64(value).ravel() for value in self._start.values()])

    def plane(self, block: int, w: Float64) -> Plane:
        """Return the plane that touches the block's convex hinge at `w`, as rounded to the network's type."""
        weights = {name: value.requires_grad_() for name, value in self._weights(w).items()}
        with torch.enable_grad():  # the caller may have switched gradients off
            scores = self._convex_scores(block, weights)
        value, slopes = self._value(block, scores)
        gradients = torch.autograd.grad(scores, list(weights.values()), slopes)
        gradient = np.concatenate([as_float64(part).ravel() for part in gradients])
        rounded = np.concatenate([as_float64(part).ravel() for part in weights.values()])
        return Plane(gradient, value - math.fsum(gradient * rounded))

    def convex_risk(self, w: Float64) -> float:
        """Return the weighted sum of the blocks' convex hinges."""
        with torch.no_grad():
            weights = self._weights(w)
            return self._total(self._convex_scores(block, weights) for block in range(len(self._blocks.samples)))

    def risk(self, w: Float64) -> float:
        """Return the weighted sum of the blocks' hinges for the scores of the network itself."""
        with torch.no_grad():
            weights = self._weights(w)
            return self._total(
                as_columns(activations.run(self._later, self._output(self._block_inputs(block), weights)))
                for block in range(len(self._blocks.samples))
            )

    def store(self, w: Float64) -> None:
        """Set the layer's weights."""
        with torch.no_grad():
            for name, value in self._weights(w).items():
                self._layer.get_parameter(name).copy_(value)

    def _weights(self, w: Float64) -> dict[str, torch.Tensor]:
        parts = np.split(w, np.cumsum([shape.numel() for shape in self._shapes.values()])[:-1])
        return {
            name: torch.as_tensor(part).to(self._start[name]).reshape(shape).clone()
            for (name, shape), part in zip(self._shapes.items(), parts, strict=True)
        }

    def _block_inputs(self, block: int) -> torch.Tensor:
        return self._inputs[torch.as_tensor(self._blocks.samples[block], device=self._inputs.device)]

    def _output(self, inputs: torch.Tensor, weights: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.as_tensor(functional_call(self._layer, weights, (inputs,)))

    def _convex_scores(self, block: int, weights: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return the scores (m, K) in which the block's hinge is convex."""
        inputs = self._block_inputs(block)
        with torch.no_grad():
            at = self._output(inputs, self._start)
        values = self._output(inputs, weights)
        if not self._bounded:
            return as_columns(activations.fixed_scores(self._later, at, values))
        upper, lower = map(as_columns, activations.bounded_scores(self._later, at, values))
        positive = torch.as_tensor(self._blocks.positive[self._blocks.samples[block]], device=upper.device)
        return torch.where(positive, lower, upper)

    def _value(self, block: int, scores: torch.Tensor) -> tuple[float, torch.Tensor]:
        """Return the block's hinge and its gradient by the scores."""
        value, slopes = self._hinge(as_float64(scores), self._blocks.positive[self._blocks.samples[block]])
        return value, torch.as_tensor(slopes).to(scores)

    def _total(self, scores: Iterator[torch.Tensor]) -> float:
        values = [self._value(block, part)[0] for block, part in enumerate(scores)]
        return float(self._blocks.shares @ values)


def as_columns(scores: torch.Tensor) -> torch.Tensor:
    """Return the scores as (n, K)."""
    return scores.reshape(len(scores), -1)


def as_float64(values: torch.Tensor) -> Array:
    """Return a tensor's values on the processor."""
    return np.asarray(values.detach().cpu().numpy(), dtype=np.float64)
