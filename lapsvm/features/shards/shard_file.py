"""Shards: the windows and features of consecutive pictures in one ``.safetensors`` file.

A file holds the tensors ``boxes``, ``features``, ``offsets`` and ``sizes``, and ``objectness`` if that was measured.
ONE metadata key has JSON with sorted keys as its value, because safetensors writes several keys in random order: the
ids, the pictures' hashes, the provenance, and a checksum of everything. Equal content gives equal bytes.
"""

import json
import sys
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from lapsvm._ext import bags as _bags
from lapsvm.arrays import Array, check_finite
from lapsvm.bfloat16 import BFLOAT16, type_name, widened
from lapsvm.errors import InputError, ShardError
from lapsvm.features.shards.shard import OBJECTNESS, Shard, ShardHeader, check_ids, to_json
from lapsvm.files import NOT_PARSED, check_regular, write_atomically
from lapsvm.settings import current_names

METADATA_KEY = "lapsvm"
FORMAT = "lapsvm shard 1"
_TENSORS = {"boxes": ("F32",), "features": ("F16", "F32", "BF16"), "offsets": ("I64",), "sizes": ("I32",)}
_OPTIONAL = {OBJECTNESS: ("F32",)}
_NUMPY_TYPES: dict[str, Any] = {"I64": "<i8", "F32": "<f4", "I32": "<i4", "BF16": BFLOAT16, "F16": "<f2"}
_TYPES = [np.dtype(kind) for kind in _NUMPY_TYPES.values()]  # in the order that safetensors writes them


def write_shard(path: str | Path, shard: Shard) -> None:
    """Write a shard atomically; equal shards give equal bytes.

    Parameters
    ----------
    path : str or Path
    shard : Shard

    Raises
    ------
    NotFiniteError
        If a feature or a box is NaN or infinite; the picture is named.
    MissingError, WriteError
        If the folder does not exist, or the system refuses to write (a full disk).
    """
    check_windows_are_finite(shard)
    fields = {
        "format": FORMAT,
        "image_ids": list(shard.image_ids),
        "pixel_hashes": list(shard.pixel_hashes),
        "provenance": shard.provenance,
    }
    header = to_json(fields | {"checksum": _checksum(fields, shard.tensors)})
    tensors = _in_order(shard.tensors)
    parts = (tensor.reshape(-1).view(np.uint8).data for tensor in tensors.values())
    write_atomically(path, _table(tensors, header), *parts)


def _in_order(tensors: Mapping[str, Array]) -> dict[str, Array]:
    """Return the tensors in a file's order: wide types first, so that each is aligned, then by name."""
    return dict(sorted(tensors.items(), key=lambda item: (_TYPES.index(item[1].dtype), item[0])))


def _table(tensors: Mapping[str, Array], header: str) -> bytes:
    """Return the first bytes of a file, as safetensors writes them; its own writer copies every tensor twice."""
    table: dict[str, Any] = {"__metadata__": {METADATA_KEY: header}}
    stop = 0
    for name, tensor in tensors.items():
        start, stop = stop, stop + tensor.nbytes
        kind = list(_NUMPY_TYPES)[_TYPES.index(tensor.dtype)]
        table[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [start, stop]}
    content = json.dumps(table, separators=(",", ":")).encode()
    content += b" " * (-len(content) % 8)
    return len(content).to_bytes(8, "little") + content


def read_shard(path: str | Path, *, mapped: bool = False, verify: bool = True) -> Shard:
    """Read a shard.

    Parameters
    ----------
    path : str or Path
    mapped : bool, default False
        Whether the arrays are read-only views of the memory-mapped file.
    verify : bool, default True
        Whether to compare the checksum, which reads every byte; a truncated file is found in any case.

    Returns
    -------
    Shard

    Raises
    ------
    MissingError
        If there is no such file.
    ShardError
        If the file is truncated, damaged, or no shard.
    """
    path = Path(path)
    fields = _read_fields(path)
    tensors = _map_tensors(path)
    if verify and not _is_intact(fields, tensors):
        raise ShardError(
            f"shard {path} is damaged: its content does not match its checksum; "
            "run lapsvm extract, or import, again to have just this one made anew."
        )
    if not mapped:
        tensors = {name: np.array(tensor) for name, tensor in tensors.items()}
    try:
        if verify:
            check_finite("boxes", tensors["boxes"])
        return Shard(
            image_ids=tuple(fields["image_ids"]),
            pixel_hashes=tuple(fields["pixel_hashes"]),
            provenance=fields["provenance"],
            **tensors,
        )
    except InputError as error:
        raise ShardError(f"shard {path} is damaged: {error}") from None


def read_header(path: str | Path) -> ShardHeader:
    """Read the metadata of a shard, without its tensors.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    ShardHeader

    Raises
    ------
    MissingError
        If there is no such file.
    ShardError
        If the file is truncated, or no shard; `read_shard` also finds damage inside the tensors.
    """
    path = Path(path)
    fields = _read_fields(path)
    tensors = _layout(path)
    layout = tensors["features"]
    _check_lengths(path, fields, tensors)
    return ShardHeader(
        path=path,
        image_ids=tuple(fields["image_ids"]),
        pixel_hashes=tuple(fields["pixel_hashes"]),
        provenance=_provenance(path, fields),
        checksum=fields["checksum"],
        n_windows=layout["shape"][0],
        dim=layout["shape"][1],
        dtype=type_name(_NUMPY_TYPES[layout["dtype"]]),
        offset=layout["bytes"].start,
        has_objectness=OBJECTNESS in tensors,
    )


def _check_lengths(path: Path, fields: Mapping[str, Any], tensors: Mapping[str, Any]) -> None:
    """Raise ShardError unless a header's pictures are named once, and there are as many in the tensors."""
    try:
        check_ids(fields["image_ids"], fields["pixel_hashes"])
    except InputError as error:
        raise ShardError(f"shard {path} is damaged: {error}") from None
    count, windows = len(fields["image_ids"]), tensors["features"]["shape"][0]
    shapes = {"boxes": [windows, 4], "offsets": [count + 1], "sizes": [count, 2]}
    wrong = next((name for name, shape in shapes.items() if tensors[name]["shape"] != shape), None)
    if wrong is not None:
        raise ShardError(f"shard {path} is damaged: its {wrong} do not fit its pictures and windows.")


def _checksum(fields: Mapping[str, Any], tensors: Mapping[str, Array]) -> str:
    """Return the hash of a shard's content, 32 hex digits."""
    digest = blake2b(to_json(fields).encode(), digest_size=16)
    for name, tensor in sorted(tensors.items()):
        kind = "bfloat16" if tensor.dtype == BFLOAT16 else tensor.dtype.str
        digest.update(f"{name} {kind} {tensor.shape}".encode())
        digest.update(tensor.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _is_intact(fields: Mapping[str, Any], tensors: Mapping[str, Array]) -> bool:
    """Whether a file's checksum fits its content; never for a header that no shard is written with."""
    try:
        return bool(_checksum({k: v for k, v in fields.items() if k != "checksum"}, tensors) == fields["checksum"])
    except NOT_PARSED:  # a NaN among the fields
        return False


def _read_fields(path: Path) -> dict[str, Any]:
    """Return the JSON of a file's metadata key, after checking that the file is a complete shard."""
    check_regular(path, "shard", sys.maxsize)  # mapped, not read whole
    try:
        with safe_open(path, framework="numpy") as file:  # checks the lengths
            metadata = file.metadata() or {}
    except (SafetensorError, OSError, ValueError) as error:
        raise ShardError(f"shard {path} is truncated or damaged: {str(error).rstrip('.')}.") from None
    try:
        fields: dict[str, Any] = json.loads(metadata.get(METADATA_KEY, "{}"))
    except NOT_PARSED as error:
        raise ShardError(f"shard {path} is damaged: its header is no JSON ({error}).") from None
    if not isinstance(fields, dict) or fields.get("format") != FORMAT:
        raise ShardError(f"file {path} is no shard of the format {FORMAT!r}.")
    kinds = {"image_ids": list, "pixel_hashes": list, "provenance": dict, "checksum": str}
    wrong = [name for name, kind in kinds.items() if not isinstance(fields.get(name), kind)]
    if wrong:
        raise ShardError(f"shard {path} is damaged: its header has no {wrong[0]}.")
    return fields


def _provenance(path: Path, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the provenance that a header holds, under the present names of settings; files keep their own."""
    try:
        return current_names(fields["provenance"])
    except RecursionError:
        raise ShardError(f"shard {path} is damaged: its provenance must not nest deeper than settings do.") from None


def _layout(path: Path) -> dict[str, Any]:
    """Return the type, shape and slice of bytes of each tensor in the file."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        layout: dict[str, Any] = json.loads(file.read(length))
    layout.pop("__metadata__")
    known = _TENSORS | _OPTIONAL
    for name in _TENSORS | layout:
        if name in known and layout.get(name, {}).get("dtype") not in known[name]:
            raise ShardError(f"shard {path} is damaged: its {name} are missing or of another type.")
    if not layout.keys() <= known.keys() or len(layout["features"]["shape"]) != 2:
        raise ShardError(f"shard {path} is damaged: it holds other tensors than a shard's.")
    for tensor in layout.values():
        tensor["bytes"] = slice(*(8 + length + offset for offset in tensor["data_offsets"]))
    return layout


def _map_tensors(path: Path) -> dict[str, Array]:
    """Return read-only views of a complete shard's tensors."""
    layout = _layout(path)
    content = np.asarray(np.memmap(path, dtype=np.uint8, mode="r"))
    return {
        name: content[tensor["bytes"]].view(_NUMPY_TYPES[tensor["dtype"]]).reshape(tensor["shape"])
        for name, tensor in layout.items()
    }


def check_windows_are_finite(shard: Shard) -> None:
    """Raise NotFiniteError, naming the picture, unless all boxes and features are finite."""
    tensors = shard.tensors
    for image_id, start, stop in zip(shard.image_ids, shard.offsets, shard.offsets[1:], strict=False):
        check_finite(f"boxes of picture {image_id}", tensors["boxes"][start:stop])
        features = tensors["features"][start:stop]
        # NumPy's own test of 16 bits is ten times slower
        if features.dtype != np.float16 or _bags.first_broken_row(features.view(np.uint16)) >= 0:
            check_finite(f"features of picture {image_id}", widened(features))
