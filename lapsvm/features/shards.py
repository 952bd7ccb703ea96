"""Shards: the windows and features of consecutive pictures in one ``.safetensors`` file.

A file holds the tensors ``boxes``, ``features``, ``offsets`` and ``sizes``, and ONE metadata key whose value is JSON
with sorted keys (several keys would be written in another order by every process): the ids, the pictures' hashes, the
provenance, and a checksum over all of it. Equal content gives equal bytes.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from lapsvm.arrays import Array, Float32, check_finite
from lapsvm.boxes import as_boxes
from lapsvm.errors import InputError, MissingError, NotFiniteError, OptionError, ShapeError, ShardError
from lapsvm.features.atomic import write_atomically

METADATA_KEY = "lapsvm"
FORMAT = "lapsvm shard 1"
FEATURE_TYPES = ("float16", "float32")
_TENSORS = {"boxes": ("F32",), "features": ("F16", "F32"), "offsets": ("I64",), "sizes": ("I32",)}
_NUMPY_TYPES = {"F16": "<f2", "F32": "<f4", "I64": "<i8", "I32": "<i4"}


@dataclass(frozen=True, eq=False)
class PictureWindows:
    """The windows of one picture, as an extractor leaves them.

    Attributes
    ----------
    image_id : str
    boxes : array-like of shape (n, 4)
    features : array-like of shape (n, d)
    pixel_hash : str
        `lapsvm.catalog.pixel_hash` of the picture.
    size : tuple of int
        Height and width in pixels.
    """

    image_id: str
    boxes: ArrayLike
    features: ArrayLike
    pixel_hash: str
    size: tuple[int, int]


@dataclass(frozen=True, eq=False)
class Shard:
    """The windows of m consecutive pictures; the constructor checks that everything fits.

    Attributes
    ----------
    image_ids : tuple of str, m of them, all different
    boxes : ndarray of shape (n, 4), float32, in the house's convention
    features : ndarray of shape (n, d), float16 or float32
    offsets : ndarray of shape (m + 1,), int64
        Picture i owns the windows ``offsets[i]`` to ``offsets[i + 1]``.
    pixel_hashes : tuple of str, m of them
    sizes : ndarray of shape (m, 2), int32
        Height and width of each picture.
    provenance : dict
        How the shard was made; JSON without NaN, and without any path, time, host or run name.

    Raises
    ------
    ShapeError
        If shapes or lengths do not fit.
    InputError
        If a type is another one, or the provenance is no JSON.
    """

    image_ids: tuple[str, ...]
    boxes: Float32
    features: Array
    offsets: NDArray[np.int64]
    pixel_hashes: tuple[str, ...]
    sizes: NDArray[np.int32]
    provenance: dict[str, Any]

    def __post_init__(self) -> None:
        _check_ids(self.image_ids, self.pixel_hashes)
        if self.features.ndim != 2:
            raise ShapeError(f"features of a shard must have 2 dimensions, got shape {self.features.shape}.")
        m, n = len(self.image_ids), len(self.features)
        _check_array("features", self.features, FEATURE_TYPES, self.features.shape)
        _check_array("boxes", self.boxes, ("float32",), (n, 4))
        _check_array("offsets", self.offsets, ("int64",), (m + 1,))
        _check_array("sizes", self.sizes, ("int32",), (m, 2))
        if self.offsets[0] != 0 or self.offsets[-1] != n or (np.diff(self.offsets) < 0).any():
            raise ShapeError(f"offsets must rise from 0 to the number of windows {n}, got {self.offsets.tolist()}.")
        object.__setattr__(self, "provenance", as_plain_json(self.provenance))

    @property
    def tensors(self) -> dict[str, Array]:
        """The arrays as they are stored, by name."""
        return {name: np.ascontiguousarray(getattr(self, name)) for name in sorted(_TENSORS)}


@dataclass(frozen=True)
class ShardHeader:
    """What a shard says of itself before its tensors are read.

    Attributes
    ----------
    path : Path
    image_ids, pixel_hashes : tuple of str
    provenance : dict
    checksum : str
    n_windows, dim : int
    dtype : str
        "float16" or "float32": how the features are stored.
    """

    path: Path
    image_ids: tuple[str, ...]
    pixel_hashes: tuple[str, ...]
    provenance: dict[str, Any]
    checksum: str
    n_windows: int
    dim: int
    dtype: str


def assemble_shard(pictures: Sequence[PictureWindows], provenance: dict[str, Any], dtype: str = "float16") -> Shard:
    """Put the windows of pictures together.

    Parameters
    ----------
    pictures : sequence of PictureWindows, at least one
    provenance : dict
    dtype : "float16" or "float32"
        How the features are stored.

    Returns
    -------
    Shard

    Raises
    ------
    NotFiniteError
        If a feature is NaN or infinite, or does not fit float16 (above 65504); the picture is named.
    ShapeError
        If a picture has not as many features as boxes, or another number of columns than the first one.
    OptionError
        If `dtype` is another one.
    """
    if dtype not in FEATURE_TYPES:
        raise OptionError(f"the features' type must be one of {', '.join(FEATURE_TYPES)}, got {dtype!r}.")
    if not pictures:
        raise InputError("a shard needs at least one picture, got none.")
    boxes = [as_boxes(picture.boxes).astype(np.float32) for picture in pictures]
    features = [_stored(picture, dtype) for picture in pictures]
    for picture, rows, part in zip(pictures, boxes, features, strict=True):
        if part.shape != (len(rows), features[0].shape[1]):
            expected = (len(rows), features[0].shape[1])
            raise ShapeError(f"picture {picture.image_id} must have features of shape {expected}, got {part.shape}.")
    return Shard(
        image_ids=tuple(picture.image_id for picture in pictures),
        boxes=np.concatenate(boxes),
        features=np.concatenate(features),
        offsets=np.cumsum([0, *map(len, boxes)], dtype=np.int64),
        pixel_hashes=tuple(picture.pixel_hash for picture in pictures),
        sizes=np.array([picture.size for picture in pictures], dtype=np.int32),
        provenance=provenance,
    )


def write_shard(path: str | Path, shard: Shard) -> None:
    """Write a shard so that a reader sees it whole or not at all; equal shards give equal bytes.

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
    _check_windows_are_finite(shard)
    fields = {
        "format": FORMAT,
        "image_ids": list(shard.image_ids),
        "pixel_hashes": list(shard.pixel_hashes),
        "provenance": shard.provenance,
    }
    header = _to_json(fields | {"checksum": _checksum(fields, shard.tensors)})
    write_atomically(path, save(shard.tensors, metadata={METADATA_KEY: header}))


def read_shard(path: str | Path, *, mapped: bool = False, verify: bool = True) -> Shard:
    """Read a shard.

    Parameters
    ----------
    path : str or Path
    mapped : bool, default False
        True: the arrays are read-only views of the file, read by the system when they are touched.
    verify : bool, default True
        Compare the checksum, which reads every byte. False still finds a file that is cut short.

    Returns
    -------
    Shard

    Raises
    ------
    MissingError
        If there is no such file.
    ShardError
        If it is truncated, damaged, or no shard.
    """
    path = Path(path)
    fields = _read_fields(path)
    tensors = _map_tensors(path)
    if verify and _checksum({k: v for k, v in fields.items() if k != "checksum"}, tensors) != fields["checksum"]:
        raise ShardError(f"shard {path} is damaged: its content does not match its checksum.")
    if not mapped:
        tensors = {name: np.array(tensor) for name, tensor in tensors.items()}
    try:
        return Shard(
            image_ids=tuple(fields["image_ids"]),
            pixel_hashes=tuple(fields["pixel_hashes"]),
            provenance=fields["provenance"],
            **tensors,
        )
    except InputError as error:
        raise ShardError(f"shard {path} is damaged: {error}") from None


def read_header(path: str | Path) -> ShardHeader:
    """Read what a shard says of itself, without its tensors.

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
        If it is cut short, or no shard. Damage inside the tensors is found by `read_shard`.
    """
    path = Path(path)
    fields = _read_fields(path)
    layout = _layout(path)["features"]
    return ShardHeader(
        path=path,
        image_ids=tuple(fields["image_ids"]),
        pixel_hashes=tuple(fields["pixel_hashes"]),
        provenance=fields["provenance"],
        checksum=fields["checksum"],
        n_windows=layout["shape"][0],
        dim=layout["shape"][1],
        dtype=np.dtype(_NUMPY_TYPES[layout["dtype"]]).name,
    )


def as_plain_json(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping as JSON gives it back (tuples become lists, keys strings).

    Raises
    ------
    InputError
        If it holds anything that JSON cannot, or a NaN.
    """
    try:
        plain: dict[str, Any] = json.loads(_to_json(value))
    except (TypeError, ValueError) as error:
        raise InputError(f"provenance must be plain JSON without NaN; {error}.") from None
    return plain


def _to_json(value: Mapping[str, Any]) -> str:
    """Return the one spelling of a value: sorted keys, ASCII, no blanks."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _checksum(fields: Mapping[str, Any], tensors: Mapping[str, Array]) -> str:
    """Return the hash of a shard's content, 32 hex digits."""
    digest = blake2b(_to_json(fields).encode(), digest_size=16)
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype.str} {tensor.shape}".encode())
        digest.update(tensor.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _read_fields(path: Path) -> dict[str, Any]:
    """Return the JSON of a file's one metadata key, having checked that the file is whole and a shard."""
    if not path.is_file():
        raise MissingError(f"shard {path} is not there.")
    try:
        with safe_open(path, framework="numpy") as file:  # checks the lengths
            metadata = file.metadata() or {}
    except (SafetensorError, OSError, ValueError) as error:
        raise ShardError(f"shard {path} is truncated or damaged: {str(error).rstrip('.')}.") from None
    try:
        fields: dict[str, Any] = json.loads(metadata.get(METADATA_KEY, "{}"))
    except ValueError as error:
        raise ShardError(f"shard {path} is damaged: its header is no JSON ({error}).") from None
    if not isinstance(fields, dict) or fields.get("format") != FORMAT:
        raise ShardError(f"file {path} is no shard of the format {FORMAT!r}.")
    kinds = {"image_ids": list, "pixel_hashes": list, "provenance": dict, "checksum": str}
    wrong = [name for name, kind in kinds.items() if not isinstance(fields.get(name), kind)]
    if wrong:
        raise ShardError(f"shard {path} is damaged: its header has no {wrong[0]}.")
    return fields


def _layout(path: Path) -> dict[str, Any]:
    """Return type, shape and place of each tensor; places count from the start of the file."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        layout: dict[str, Any] = json.loads(file.read(length))
    layout.pop("__metadata__")
    for name, types in _TENSORS.items():
        if name not in layout or layout[name]["dtype"] not in types:
            raise ShardError(f"shard {path} is damaged: its {name} are missing or of another type.")
    if set(layout) != set(_TENSORS) or len(layout["features"]["shape"]) != 2:
        raise ShardError(f"shard {path} is damaged: it holds other tensors than a shard's.")
    for tensor in layout.values():
        tensor["place"] = slice(*(8 + length + offset for offset in tensor["data_offsets"]))
    return layout


def _map_tensors(path: Path) -> dict[str, Array]:
    """Return read-only views of a whole shard's tensors."""
    layout = _layout(path)
    content = np.asarray(np.memmap(path, dtype=np.uint8, mode="r"))
    return {
        name: content[tensor["place"]].view(_NUMPY_TYPES[tensor["dtype"]]).reshape(tensor["shape"])
        for name, tensor in layout.items()
    }


def _stored(picture: PictureWindows, dtype: str) -> Array:
    """Return a picture's features in the type they are stored in, all finite."""
    features = np.asarray(picture.features)
    if features.ndim != 2:
        raise ShapeError(f"features of picture {picture.image_id} must have 2 dimensions, got shape {features.shape}.")
    check_finite(f"features of picture {picture.image_id}", features)
    largest, limit = max(float(features.max(initial=0)), -float(features.min(initial=0))), float(np.finfo(dtype).max)
    if largest > limit:
        raise NotFiniteError(
            f"features of picture {picture.image_id} must be at most {limit:g} to be stored as {dtype}, got {largest:g}."
        )
    return features.astype(dtype)


def _check_windows_are_finite(shard: Shard) -> None:
    """Raise NotFiniteError, naming the picture, unless all boxes and features are finite."""
    for name in ("boxes", "features"):
        array = getattr(shard, name)
        finite = np.isfinite(array).all(axis=1)
        if not finite.all():
            row = int(np.argmin(finite))
            picture = int(np.searchsorted(shard.offsets, row, side="right")) - 1
            window = row - int(shard.offsets[picture])
            check_finite(f"{name} of picture {shard.image_ids[picture]}, window {window},", array[row])


def _check_array(name: str, array: Array, types: tuple[str, ...], shape: tuple[int, ...]) -> None:
    """Raise unless an array has one of `types` and this shape."""
    if array.dtype.name not in types:
        raise InputError(f"{name} of a shard must be {' or '.join(types)}, got {array.dtype.name}.")
    if array.shape != shape:
        raise ShapeError(f"{name} of a shard must have shape {shape}, got {array.shape}.")


def _check_ids(image_ids: Sequence[str], pixel_hashes: Sequence[str]) -> None:
    """Raise unless the ids differ and each has its hash."""
    wrong = [name for name in (*image_ids, *pixel_hashes) if not isinstance(name, str)]
    if wrong:
        raise InputError(f"image ids and pixel hashes of a shard must be str, got {wrong[0]!r}.")
    if len(set(image_ids)) != len(image_ids):
        twice = next(name for name in image_ids if list(image_ids).count(name) > 1)
        raise InputError(f"image ids of a shard must differ, got {twice!r} twice.")
    if len(pixel_hashes) != len(image_ids):
        raise ShapeError(f"a shard needs one pixel hash per picture, got {len(pixel_hashes)} for {len(image_ids)}.")
