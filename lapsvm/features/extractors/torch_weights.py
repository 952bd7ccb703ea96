"""Weights of torch's networks: read from files without running anything in them, checked, loaded, and hashed."""

import warnings
from collections.abc import Mapping
from hashlib import blake2b
from io import BytesIO
from typing import Any

from lapsvm.errors import DataError
from lapsvm.texts.contents import refusal


def loaded_module(torch: Any, module: Any, path: str, content: bytes) -> Any:
    """Return a module with the weights of a file's content."""
    return with_state(torch, module, path, read_state_dict(torch, path, content))


def with_state(torch: Any, module: Any, path: str, state: Mapping[str, Any]) -> Any:
    """Return a module with the tensors of a file, which must be the module's own, name by name and shape by shape."""
    check_plain(torch, f"weights {path}", state)
    there, wanted = _shapes(state), _shapes(module.state_dict())
    differing = sorted(name for name in there.keys() | wanted.keys() if there.get(name) != wanted.get(name))
    if differing:
        name = differing[0]
        got = f"shape {there[name]}" if name in there else "none"
        want = f"have shape {wanted[name]}" if name in wanted else "not be there"
        raise DataError(f"weights {path} do not fit: {name} must {want}, got {got}.")
    expected = module.state_dict()
    for name in wanted:
        if state[name].is_floating_point() != expected[name].is_floating_point() or state[name].is_complex():
            kinds = [str(value.dtype).removeprefix("torch.") for value in (expected[name], state[name])]
            raise DataError(f"weights {path} do not fit: {name} must be of type {kinds[0]}, got {kinds[1]}.")
    try:
        module.load_state_dict(state, assign=True)
    except Exception as error:  # of hooks of the user's module, too
        raise DataError(f"weights {path} do not fit: {_first_line(error)}.") from error
    return module


def check_plain(torch: Any, what: str, state: Mapping[str, Any]) -> None:
    """Raise DataError unless every tensor holds its numbers one by one: sparse and quantised ones, say, do not."""
    for name, value in state.items():
        if not isinstance(value, torch.Tensor):
            continue
        kinds = {"meta": value.is_meta, "quantised": value.is_quantized, "nested": value.is_nested}
        kinds["sparse"] = value.layout is not torch.strided
        if kind := next((kind for kind, is_so in kinds.items() if is_so), ""):
            raise DataError(f"{what} must hold plain tensors of numbers, got the {kind} tensor {name}.")


def _shapes(tensors: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the tensors by name."""
    return {name: tuple(value.shape) for name, value in tensors.items() if hasattr(value, "shape")}


def read_state_dict(torch: Any, path: str, content: bytes) -> dict[str, Any]:
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
        otherwise = f"weights {path} are no state dict that can be read: {_first_line(error)}."
        readable = ("a checkpoint of torch", "a Python pickle")
        raise DataError(refusal(f"weights {path}", "a state dict of tensors", content, otherwise, readable)) from error
    if not isinstance(state, Mapping) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise DataError(f"weights {path} must be a state dict, names with tensors, got {type(state).__name__}.")
    return dict(state)


def _first_line(error: Exception) -> str:
    """Return the first sentence of torch's message."""
    return (str(error).splitlines() or [type(error).__name__])[0].split(". ")[0].rstrip(".")


def hash_of_state(torch: Any, module: Any) -> str:
    """Return the hash of a module's weights and buffers, with their names and types: 32 hex digits."""
    digest = blake2b(digest_size=16)
    for name, value in sorted(module.state_dict().items()):
        if not hasattr(value, "dtype"):  # a module's extra state
            digest.update(f"{name} {value!r}".encode())
            continue
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        content = value.detach().cpu().contiguous().flatten()
        digest.update(content.view(torch.uint8).numpy().data)
    return digest.hexdigest()
