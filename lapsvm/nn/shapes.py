"""Shapes and types of the arguments of a rank loss, checked alike for arrays and for tensors of any device."""

from typing import Any

from lapsvm.errors import InputError, ShapeError


def check_shapes(scores: Any, labels: Any, mask: Any, groups: Any) -> None:
    """Raise ShapeError or InputError unless the arrays, or the tensors, fit together; no value is read.

    Parameters
    ----------
    scores : (n,) or (B, K)
    labels : as scores; or (B,) int
    mask : bool, as scores or (B,), optional
    groups : (B,) int, optional
    """
    shape = tuple(scores.shape)
    if len(shape) not in (1, 2):
        raise ShapeError(f"scores must have shape (n,) or (B, K), got {shape}.")
    _check_labels(shape, labels)
    if mask is not None:
        _check_mask(shape, mask)
    if groups is not None:
        if not _is_whole(groups):
            raise InputError(f"groups must be whole numbers, got torch.{_type(groups)}.")
        if tuple(groups.shape) != shape[:1]:
            raise ShapeError(f"groups must have shape {shape[:1]}, got {tuple(groups.shape)}.")


def _check_labels(shape: tuple[int, ...], labels: Any) -> None:
    """Raise unless labels are as scores, or one class index per sample."""
    got = tuple(labels.shape)
    if got == shape:
        return
    if len(shape) == 1 or got != shape[:1]:
        either = f"{shape} like scores" + (f", or {shape[:1]} of class indices" if len(shape) == 2 else "")
        raise ShapeError(f"labels must have shape {either}, got {got}.")
    if not _is_whole(labels):
        raise InputError(f"labels of shape {got} must be whole class indices, got torch.{_type(labels)}.")
    if shape[1] == 1:
        raise ShapeError(f"labels must have shape {shape} like scores, for class indices need two columns, got {got}.")


def _check_mask(shape: tuple[int, ...], mask: Any) -> None:
    """Raise unless the mask is boolean and has a value for each score or each sample."""
    if _type(mask) != "bool":
        raise InputError(f"mask must be boolean, got torch.{_type(mask)}.")
    if tuple(mask.shape) not in (shape, shape[:1]):
        either = f"{shape} like scores" + (f", or {shape[:1]}" if len(shape) == 2 else "")
        raise ShapeError(f"mask must have shape {either}, got {tuple(mask.shape)}.")


def _type(array: Any) -> str:
    """Return the name of the type of an array's or a tensor's numbers."""
    return str(array.dtype).removeprefix("torch.")


def _is_whole(array: Any) -> bool:
    """Return whether an array or a tensor holds whole numbers."""
    return _type(array).startswith(("int", "uint"))
