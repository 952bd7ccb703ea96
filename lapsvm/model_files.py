"""Model files: arrays and a description in one ``.safetensors`` file with a digest of its content.

One metadata key holds the description as JSON with sorted keys (the order of several metadata keys would vary between
processes), including a digest of description and arrays. Equal content gives equal bytes. Reading cannot run code.
"""

import json
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from lapsvm.arrays import Array
from lapsvm.errors import InputError, LapsvmError, ModelFileError
from lapsvm.files import NOT_PARSED, check_regular, write_atomically
from lapsvm.settings import current_names
from lapsvm.texts.contents import beginning, refusal

_METADATA = "lapsvm"


def write_model(path: str | Path, description: Mapping[str, Any], tensors: Mapping[str, Array], name: str) -> None:
    """Write a model file atomically.

    Parameters
    ----------
    path : str or Path
    description : mapping
        JSON-serialisable, with "format" and "version".
    tensors : mapping of name to array
        Arrays of numbers or booleans.
    name : str
        Name of the caller's part of the description in error messages.

    Raises
    ------
    InputError
        If the description cannot be written as JSON.
    MissingError, WriteError
        If the folder does not exist, or the system refuses to write.
    """
    from safetensors.numpy import save

    arrays = {key: np.ascontiguousarray(tensor) for key, tensor in tensors.items()}
    try:
        digest = _digest(description, arrays)
        text = json.dumps({**description, "digest": digest}, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{name} must be what JSON can hold; {error}.") from None
    write_atomically(path, save(arrays, metadata={_METADATA: text}))


def read_model(path: str | Path, kind: str, version: int) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the description, under the present names of settings, and the arrays of a model file.

    Parameters
    ----------
    path : str or Path
    kind : str
        The expected "format", "lapsvm <noun>".
    version : int
        The expected "version".

    Raises
    ------
    MissingError, DataError
        If there is no such file, or it is too large.
    ModelFileError
        If it is damaged, of another kind, or of an unknown version.
    """
    path = Path(path)
    check_regular(path, "model")
    noun = kind.removeprefix("lapsvm ")
    description, tensors = _read(path, noun)
    if description.get("format") != kind:
        raise ModelFileError(f"{path} is no {noun} of lapsvm, but {description.get('format')!r}.")
    actual = description.get("version")
    if actual != version:
        newer = isinstance(actual, int) and actual > version
        advice = "; it was written by a newer lapsvm, which can read it" if newer else ""
        raise ModelFileError(f"model {path} must have format version {version}, got {actual!r}{advice}.")
    try:
        is_intact = description.pop("digest", None) == _digest(description, tensors)
        named = current_names(description)
    except NOT_PARSED:
        is_intact = False
    if not is_intact:
        raise ModelFileError(f"model {path} is damaged: its content is not what was written.")
    return named, tensors


def stored_format(path: str | Path) -> str | None:
    """Return the "format" of a safetensors file's description, "" if it has none, or None if the file is damaged.

    The function reads the header only. Files of other programs have the format "" or another one.

    Parameters
    ----------
    path : str or Path
    """
    from safetensors import SafetensorError, safe_open

    try:
        check_regular(path, "model")
        with safe_open(path, framework="numpy") as file:
            text = (file.metadata() or {}).get(_METADATA)
        description = json.loads(text) if text is not None else {}
    except (LapsvmError, SafetensorError, OSError, TypeError, ValueError, RecursionError):
        return None
    kind = description.get("format") if isinstance(description, dict) else None
    return kind if isinstance(kind, str) else ""


def _read(path: Path, noun: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the description and the arrays of a safetensors file."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            text = (file.metadata() or {}).get(_METADATA)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (no mapping)
        description = None if text is None else json.loads(text)
    # AttributeError and KeyError: unknown dtypes
    except (SafetensorError, OSError, TypeError, AttributeError, KeyError, *NOT_PARSED) as error:
        otherwise = f"model {path} is damaged or no safetensors file: {error}."
        raise ModelFileError(refusal(f"model {path}", "a safetensors file", beginning(path), otherwise)) from None
    if text is None:
        raise ModelFileError(f"{path} is no {noun} of lapsvm: its header has no {_METADATA!r} entry.")
    return (description if isinstance(description, dict) else {}), tensors


def _digest(description: Mapping[str, Any], tensors: Mapping[str, Array]) -> str:
    """Return a hash of the description and the arrays: 32 hex digits."""
    digest = blake2b(json.dumps(description, sort_keys=True).encode(), digest_size=16)
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].dtype.str} {tensors[name].shape}\n".encode())
        digest.update(tensors[name].tobytes())
    return digest.hexdigest()
