"""The exact gradient of a loss of a whole batch, at the memory of one chunk of it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import chain, pairwise
from typing import Any

import torch

from lapsvm.errors import InputError

Batches = Iterable[Sequence[Any]]

# scores of the two passes may differ by the rounding of a device, relative to the largest score
_ROUNDING = 1e-2


def two_pass_backward(
    model: Callable[..., torch.Tensor], batches: Batches, loss: Callable[..., torch.Tensor]
) -> torch.Tensor:
    """Add the gradient of the loss of all batches together to the model's parameters, and return the loss.

    The first pass scores every batch without a graph, the loss is evaluated once on all scores, and the second pass
    computes each batch's scores again and propagates their part of the gradient. This is exactly the gradient of one
    large batch, at the memory of one batch and twice the time of its forward pass. Accumulating the losses of the
    batches would rank each by itself: another loss.

    Parameters
    ----------
    model : callable
        Maps a batch's inputs to scores (B,) or (B, K). Random numbers are drawn again as in the first pass. With
        DistributedDataParallel, gradients are exchanged once, at the last batch.
    batches : iterable of tuples
        (inputs, labels), or (inputs, labels, mask, groups, ...): what follows the inputs is concatenated and passed to
        the loss (None if it is None in all batches). It is iterated twice and must give the same batches in the same
        order: no shuffling DataLoader.
    loss : callable
        ``loss(scores, labels, ...)``, a scalar; a module of this package, or any other function of the scores.

    Returns
    -------
    tensor
        The loss, detached.

    Raises
    ------
    InputError
        If the batches cannot be iterated twice or differ between the passes, or are no tuples of tensors, or the loss
        is not one number, or the scores have no gradient, or batch normalisation is in training mode, which makes a
        sample's score depend on its chunk. Gradients of earlier batches then stay in ``.grad``.
    """
    _check(model, batches, loss)
    states, scores, targets = _score(model, batches)
    joined = torch.cat(scores).requires_grad_()
    with torch.enable_grad():
        value = loss(joined, *_join(targets))
        _check_value(value)
        (gradient,) = torch.autograd.grad(value, joined)
    after = _random_state()
    try:
        _propagate(model, batches, states, scores, targets, torch.split(gradient, list(map(len, scores))))
    finally:
        _set_random_state(after)
    return value.detach()


def _score(
    model: Callable[..., torch.Tensor], batches: Batches
) -> tuple[list[Any], list[torch.Tensor], list[Sequence[Any]]]:
    """Return the state of the random numbers, the scores and the targets of each batch."""
    states, scores = [], []
    targets: list[Sequence[Any]] = []
    with torch.no_grad():
        for batch in batches:
            if not isinstance(batch, tuple | list) or len(batch) < 2:
                raise InputError(
                    f"each batch must be a tuple of inputs, labels and further targets, got {type(batch).__name__}."
                )
            states.append(_random_state())
            scores.append(check_tensor("model must return", model(batch[0])))
            targets.append(batch[1:])
            if len(batch) != 1 + len(targets[0]):
                raise InputError(
                    f"each batch must have {len(targets[0])} targets like the first, "
                    f"got {len(batch) - 1} in batch {len(scores) - 1}."
                )
    if not scores:
        raise InputError("batches must hold at least one batch, got none.")
    return states, scores, targets


def _join(targets: list[Sequence[Any]]) -> Iterator[torch.Tensor | None]:
    """Yield each target of all batches together; None where no batch has it."""
    for number, parts in enumerate(zip(*targets, strict=True)):
        if all(target is None for target in parts):
            yield None
        else:
            yield torch.cat([check_tensor(f"target {number} of each batch must be", target) for target in parts])


def check_tensor(what: str, value: Any) -> torch.Tensor:
    """Return the value; raise InputError unless it is a tensor."""
    if not isinstance(value, torch.Tensor):
        raise InputError(f"{what} a torch.Tensor, got {type(value).__name__}.")
    return value


def _check_value(value: Any) -> None:
    """Raise InputError unless it is one number."""
    if not isinstance(value, torch.Tensor) or value.numel() != 1:
        got = f"shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__
        raise InputError(f"loss must return one number, got {got}.")
    if not value.requires_grad:
        raise InputError("loss must return a value with a gradient, got none (a detached value, or inference mode).")


def _propagate(
    model: Callable[..., torch.Tensor],
    batches: Batches,
    states: list[Any],
    scores: list[torch.Tensor],
    targets: list[Sequence[Any]],
    gradients: Sequence[torch.Tensor],
) -> None:
    """Compute each batch's scores again and propagate their gradients."""
    count = -1
    for count, (batch, following) in enumerate(pairwise(chain(batches, [()]))):
        if count >= len(scores):
            break
        _set_random_state(states[count])
        with _no_exchange(model) if following else nullcontext(), torch.enable_grad():
            again = model(batch[0])
            if not _same(again.detach(), scores[count]):
                raise InputError(f"batches must be the same in both passes, got other scores in batch {count}.")
            if len(batch) - 1 != len(targets[count]) or not all(map(_equal, batch[1:], targets[count])):
                raise InputError(f"batches must be the same in both passes, got other labels in batch {count}.")
            if not again.requires_grad:
                raise InputError(f"model must return scores with a gradient, got none in batch {count}.")
            torch.autograd.backward(again, gradients[count])
    if count != len(scores) - 1:
        raise InputError(f"batches must be the same in both passes, got {len(scores)} and then another number.")


def _equal(again: torch.Tensor | None, target: torch.Tensor | None) -> bool:
    """Return whether two passes gave the same target."""
    return again is target if again is None or target is None else torch.equal(again, target)


def _same(again: torch.Tensor, scores: torch.Tensor) -> bool:
    """Return whether two passes gave the same scores, up to rounding."""
    if again.shape != scores.shape:
        return False
    if not scores.numel():
        return True
    spread = scores.max() - scores.min()  # an offset that all scores share tells no samples apart
    rounding = 8 * torch.finfo(scores.dtype).eps * scores.abs().max()
    return bool((again - scores).abs().max() <= _ROUNDING * spread + rounding)


def _no_exchange(model: Any) -> AbstractContextManager[Any]:
    """Return a context in which DistributedDataParallel keeps its gradients to itself."""
    no_sync: Callable[[], AbstractContextManager[Any]] = getattr(model, "no_sync", nullcontext)
    return no_sync()


def _random_state() -> Any:
    """Return the state of torch's random numbers on all devices in use."""
    on_gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else None
    return torch.get_rng_state(), on_gpus


def _set_random_state(state: Any) -> None:
    """Set the state of torch's random numbers."""
    on_processor, on_gpus = state
    torch.set_rng_state(on_processor)
    if on_gpus is not None:
        torch.cuda.set_rng_state_all(on_gpus)


def _check(model: Any, batches: Any, loss: Any) -> None:
    """Raise InputError unless two passes can give the same scores."""
    for name, value in (("model", model), ("loss", loss)):
        if not callable(value):
            raise InputError(f"{name} must be callable, got {type(value).__name__}.")
    if iter(batches) is batches:
        raise InputError(f"batches must be iterable twice, as a list is, got {type(batches).__name__}.")
    if isinstance(model, torch.nn.Module):
        check_norms(model)


def check_norms(model: torch.nn.Module) -> None:
    """Raise InputError if batch normalisation is in training mode."""
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and module.training:
            raise InputError(f"batch normalisation must be frozen (.eval()), got {name!r} in training mode.")
