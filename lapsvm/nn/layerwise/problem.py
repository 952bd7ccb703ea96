"""The convex problem of one layer: its data, planes below its hinges, and the risk of the network itself."""

import math
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn
from torch.func import functional_call

from lapsvm.arrays import Array, Float64, Index, as_numbers, check_binary
from lapsvm.errors import InputError, NotFiniteError, OneClassError, ShapeError
from lapsvm.nn.layerwise.network import bounded_scores, fixed_scores, run
from lapsvm.optim import Plane
from lapsvm.ranking import RankLoss, ZeroOneLoss, most_violated_ranking


class Blocks(NamedTuple):
    """The mini-batches: samples of each, their share of all samples, and the labels (n, K)."""

    samples: Sequence[Index]
    shares: Float64
    positive: NDArray[np.bool_]


class SummedHinge:
    """The sum over classes of max over R of Delta(R) + F(R) - F(R*), with scores times `scale`.

    It does not fall as a negative's score rises, nor as a positive's falls, for every rank loss and the 0-1 loss: in F,
    no ranking has a smaller weight for a negative, or a larger one for a positive, than R*.

    Attributes
    ----------
    seconds : float
        CPU time of the loss-augmented inference so far.
    """

    def __init__(self, loss: RankLoss | ZeroOneLoss, scale: float, method: str):
        self._loss, self._scale, self._method = loss, scale, method
        self.seconds = 0.0

    def __call__(self, scores: Float64, positive: NDArray[np.bool_]) -> tuple[float, Float64]:
        """Return the value and its gradient (n, K) for scores (n, K); classes without both kinds count 0."""
        begin = time.process_time()
        value, gradient = 0.0, np.zeros(scores.shape)
        for k in np.flatnonzero(positive.any(axis=0) & ~positive.all(axis=0)):
            violated = most_violated_ranking(self._scale * scores[:, k], positive[:, k], self._loss, self._method)
            value += violated.violation
            gradient[:, k] = -self._scale * violated.coefficients
        self.seconds += time.process_time() - begin
        return value, gradient


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
        gradient = np.concatenate([as_float64(array).ravel() for array in gradients])
        rounded = np.concatenate([as_float64(array).ravel() for array in weights.values()])
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
                as_columns(run(self._later, self._output(self._block_inputs(block), weights)))
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
            name: torch.as_tensor(values).to(self._start[name]).reshape(shape).clone()
            for (name, shape), values in zip(self._shapes.items(), parts, strict=True)
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
            return as_columns(fixed_scores(self._later, at, values))
        upper, lower = map(as_columns, bounded_scores(self._later, at, values))
        positive = torch.as_tensor(self._blocks.positive[self._blocks.samples[block]], device=upper.device)
        return torch.where(positive, lower, upper)

    def _value(self, block: int, scores: torch.Tensor) -> tuple[float, torch.Tensor]:
        """Return the block's hinge and its gradient by the scores."""
        value, slopes = self._hinge(as_float64(scores), self._blocks.positive[self._blocks.samples[block]])
        return value, torch.as_tensor(slopes).to(scores)

    def _total(self, scores: Iterator[torch.Tensor]) -> float:
        values = [self._value(block, block_scores)[0] for block, block_scores in enumerate(scores)]
        return float(self._blocks.shares @ values)


def as_columns(scores: torch.Tensor) -> torch.Tensor:
    """Return the scores as (n, K)."""
    return scores.reshape(len(scores), -1)


def as_float64(values: torch.Tensor) -> Array:
    """Return a tensor's values on the processor."""
    return np.asarray(values.detach().cpu().numpy(), dtype=np.float64)


def as_inputs(inputs: Any, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return the inputs in the network's type and place.

    Raises
    ------
    InputError
        If they are not numbers, not finite, or none.
    """
    tensor = inputs.detach() if isinstance(inputs, torch.Tensor) else torch.as_tensor(_numbers("inputs", inputs))
    if tensor.ndim < 2 or not len(tensor):
        raise ShapeError(f"inputs must have shape (n, ...) with n > 0, got {tuple(tensor.shape)}.")
    if tensor.dtype.is_complex:
        raise InputError(f"inputs must be real numbers, got {tensor.dtype}.")
    converted = tensor.to(dtype=dtype, device=device)
    if not bool(torch.isfinite(converted).all()):
        raise NotFiniteError(f"inputs must be finite, got NaN or infinity in shape {tuple(tensor.shape)}.")
    return converted


def as_targets(labels: ArrayLike, n_scores: int, n: int) -> NDArray[np.bool_]:
    """Return which samples (n, K) are positive.

    Raises
    ------
    ShapeError
        If the labels do not fit the scores.
    InputError
        If labels are not binary, or no class indices from 0 to K - 1, or one is NaN.
    """
    array = _numbers("labels", labels.detach().cpu() if isinstance(labels, torch.Tensor) else labels)
    if np.isnan(array).any():
        raise NotFiniteError("labels must not be NaN, got NaN.")
    if array.shape not in ((n, n_scores), (n,)):
        raise ShapeError(f"labels must have shape {(n, n_scores)} or {(n,)}, got {array.shape}.")
    if n_scores == 1 or array.ndim == 2:
        check_binary("labels", array)
        return np.asarray(array > 0).reshape(n, n_scores)
    wrong = ~np.isin(array, np.arange(n_scores))
    if wrong.any():
        raise InputError(f"labels of shape {(n,)} must be class indices 0 to {n_scores - 1}, got {array[wrong][0]:g}.")
    return np.asarray(array[:, None] == np.arange(n_scores))


def split(positive: NDArray[np.bool_], batch_size: int, rng: np.random.Generator) -> Blocks:
    """Return mini-batches at random.

    Raises
    ------
    OneClassError
        If no class has a positive and a negative in one of them.
    """
    n = len(positive)
    samples = np.array_split(rng.permutation(n), range(batch_size, n, batch_size))
    both = [positive[rows].any(axis=0) & ~positive[rows].all(axis=0) for rows in samples]
    if not np.any(both):
        raise OneClassError(
            f"labels must give some class a positive and a negative in one mini-batch, got none in {len(samples)}."
        )
    return Blocks(samples, np.array([len(rows) / n for rows in samples]), positive)


def _numbers(name: str, values: Any) -> Array:
    """Return an array of numbers in their own type, float64 if they come as a list."""
    array = np.asarray(values)
    return array if array.dtype.kind in "biuf" else as_numbers(name, values)
