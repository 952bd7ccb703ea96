"""Model files: arrays and a description in one ``.safetensors`` file that is found whole and unchanged, or refused.

One metadata key holds JSON with sorted keys (with several, their order would change from process to process), and in it
a digest over all that the file says. Equal content gives equal bytes. Nothing that is read can run code.
"""

import json
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from lapsvm.arrays import Array
from lapsvm.errors import InputError, MissingError, ModelFileError
from lapsvm.files import NOT_PARSED, write_atomically

_METADATA = "lapsvm"


def write_model(path: str | Path, description: Mapping[str, Any], tensors: Mapping[str, Array], name: str) -> None:
    """Write a model file, whole or not at all.

    Parameters
    ----------
    path : str or Path
    description : mapping
        What JSON can hold, with "format" and "version".
    tensors : mapping of name to array
        Of numbers or booleans.
    name : str
        What an error calls the part of the description that is the caller's.

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
    """Return the description and the arrays of a model file.

    Parameters
    ----------
    path : str or Path
    kind : str
        The "format" that is wanted, "lapsvm <noun>".
    version : int
        The "version" that is wanted.

    Raises
    ------
    MissingError
        If there is no such file.
    ModelFileError
        If it is damaged, of another kind, or of a version that is not known.
    """
    path = Path(path)
    if not path.is_file():
        raise MissingError(f"model {path} is not there.")
    noun = kind.removeprefix("lapsvm ")
    description, tensors = _read(path, noun)
    if description.get("format") != kind:
        raise ModelFileError(f"{path} is no {noun} of lapsvm, but {description.get('format')!r}.")
    found = description.get("version")
    if found != version:
        newer = isinstance(found, int) and found > version
        advice = "; it was written by a newer lapsvm, which can read it" if newer else ""
        raise ModelFileError(f"model {path} must have format version {version}, got {found!r}{advice}.")
    try:
        is_whole = description.pop("digest", None) == _digest(description, tensors)
    except NOT_PARSED:
        is_whole = False
    if not is_whole:
        raise ModelFileError(f"model {path} is damaged: its content is not what was written.")
    return description, tensors


def stored_format(path: str | Path) -> str | None:
    """Return the "format" of a safetensors file's description, "" where it has none; None if the file is damaged.

    Only the header is read. A file of another program is whole and says "", or another format.

    Parameters
    ----------
    path : str or Path
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            text = (file.metadata() or {}).get(_METADATA)
        description = json.loads(text) if text is not None else {}
    except (SafetensorError, OSError, TypeError, ValueError, RecursionError):
        return None
    found = description.get("format") if isinstance(description, dict) else None
    return found if isinstance(found, str) else ""


def _read(path: Path, noun: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return what a safetensors file holds."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            text = (file.metadata() or {}).get(_METADATA)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (no mapping)
    except (
        SafetensorError,
        OSError,
        TypeError,
        ValueError,
        AttributeError,
        KeyError,
    ) as error:  # of numpy's types, too
        raise ModelFileError(f"model {path} is damaged or no safetensors file: {error}.") from None
    if text is None:
        raise ModelFileError(f"{path} is no {noun} of lapsvm: its header has no {_METADATA!r} entry.")
    try:
        description = json.loads(text)
    except NOT_PARSED as error:
        raise ModelFileError(f"model {path} is damaged: its description is no JSON ({error}).") from None
    return (description if isinstance(description, dict) else {}), tensors


def _digest(description: Mapping[str, Any], tensors: Mapping[str, Array]) -> str:
    """Return a hash of all that a model file says: 32 hex digits."""
    digest = blake2b(json.dumps(description, sort_keys=True).encode(), digest_size=16)
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].dtype.str} {tensors[name].shape}\n".encode())
        digest.update(tensors[name].tobytes())
    return digest.hexdigest()
