"""Inputs, labels and mini-batches of layerwise training."""

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from lapsvm.arrays import Array, as_numbers, check_binary
from lapsvm.errors import InputError, NotFiniteError, OneClassError, ShapeError
from lapsvm.nn.layerwise.problem import Blocks


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
    both = [positive[part].any(axis=0) & ~positive[part].all(axis=0) for part in samples]
    if not np.any(both):
        raise OneClassError(
            f"labels must give some class a positive and a negative in one mini-batch, got none in {len(samples)}."
        )
    return Blocks(samples, np.array([len(part) / n for part in samples]), positive)


def _numbers(name: str, values: Any) -> Array:
    """Return an array of numbers in their own type, float64 if they come as a list."""
    array = np.asarray(values)
    return array if array.dtype.kind in "biuf" else as_numbers(name, values)
