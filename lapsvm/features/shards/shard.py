"""The windows and features of consecutive pictures as one value, checked when it is made."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lapsvm.arrays import Array, Float32, as_numbers, check_choice, check_distinct, check_finite
from lapsvm.bfloat16 import largest_number, named_type, narrowed, to_float16, type_name, widened
from lapsvm.boxes import as_boxes
from lapsvm.errors import InputError, NotFiniteError, ShapeError

TENSORS = ("boxes", "features", "offsets", "sizes")
OBJECTNESS = "objectness"
"""The name of a tensor that a shard may have, and of the key of its provenance that says what measured it."""
FEATURE_TYPES = ("float16", "float32", "bfloat16")


@dataclass(frozen=True, eq=False)
class PictureWindows:
    """The windows of one picture, from an extractor.

    Attributes
    ----------
    image_id : str
    boxes : array-like of shape (n, 4)
    features : array-like of shape (n, d)
    pixel_hash : str
        `lapsvm.catalog.pixel_hash` of the picture.
    size : tuple of int
        Height and width in pixels.
    objectness : array-like of shape (n,), from 0 to 1, or None
        How much each window stands out; None, or NaN in all windows, if that was not measured.
    """

    image_id: str
    boxes: ArrayLike
    features: ArrayLike
    pixel_hash: str
    size: tuple[int, int]
    objectness: ArrayLike | None = field(default=None, kw_only=True)


@dataclass(frozen=True, eq=False)
class Shard:
    """The windows of m consecutive pictures, checked by the constructor.

    Attributes
    ----------
    image_ids : tuple of str, m of them, all different
    boxes : ndarray of shape (n, 4), float32: x1, y1, x2, y2, 0-based and half-open
    features : ndarray of shape (n, d), float16, float32 or `lapsvm.bfloat16.BFLOAT16`
    offsets : ndarray of shape (m + 1,), int64
        Picture i owns the windows ``offsets[i]`` to ``offsets[i + 1]``.
    pixel_hashes : tuple of str, m of them
    sizes : ndarray of shape (m, 2), int32
        Height and width of each picture.
    provenance : dict
        How the shard was made; JSON without NaN, and without any path, time, host or run name. Of a file it is as
        stored, so that the shard is written again as the same bytes.
    objectness : ndarray of shape (n,), float32, or None
        How much each window stands out, from 0 to 1; NaN in all windows of a picture that was not measured. None if no
        picture was.

    Raises
    ------
    ShapeError
        If shapes or lengths do not fit.
    InputError
        If a type is wrong, the provenance is no JSON, or an objectness is outside of 0 to 1 or NaN in some windows of a
        picture alone.
    """

    image_ids: tuple[str, ...]
    boxes: Float32
    features: Array
    offsets: NDArray[np.int64]
    pixel_hashes: tuple[str, ...]
    sizes: NDArray[np.int32]
    provenance: dict[str, Any]
    objectness: Float32 | None = None

    def __post_init__(self) -> None:
        check_ids(self.image_ids, self.pixel_hashes)
        if self.features.ndim != 2:
            raise ShapeError(f"features of a shard must have 2 dimensions, got shape {self.features.shape}.")
        m, n = len(self.image_ids), len(self.features)
        _check_array("features", self.features, FEATURE_TYPES, self.features.shape)
        _check_array("boxes", self.boxes, ("float32",), (n, 4))
        _check_array("offsets", self.offsets, ("int64",), (m + 1,))
        _check_array("sizes", self.sizes, ("int32",), (m, 2))
        if self.offsets[0] != 0 or self.offsets[-1] != n or (self.offsets[1:] < self.offsets[:-1]).any():
            raise ShapeError(f"offsets must rise from 0 to the number of windows {n}, got {self.offsets.tolist()}.")
        if self.objectness is not None:
            self._check_objectness(self.objectness)
        object.__setattr__(self, "provenance", as_plain_json(self.provenance))

    def _check_objectness(self, objectness: Float32) -> None:
        _check_array(OBJECTNESS, objectness, ("float32",), (len(self.features),))
        if np.isnan(objectness).all():
            raise InputError("objectness of a shard must be measured in a picture or more, got NaN alone.")
        for image_id, start, stop in zip(self.image_ids, self.offsets, self.offsets[1:], strict=False):
            _check_measured(image_id, objectness[start:stop])

    @property
    def tensors(self) -> dict[str, Array]:
        """The arrays as they are stored, by name: contiguous, with the least significant byte first."""
        names = TENSORS if self.objectness is None else (*TENSORS, OBJECTNESS)
        arrays = {name: np.ascontiguousarray(getattr(self, name)) for name in names}
        return {name: array.astype(array.dtype.newbyteorder("<"), copy=False) for name, array in arrays.items()}

    def pictures(self) -> Iterator[PictureWindows]:
        """Yield the windows of each picture, as views of the shard's arrays."""
        return map(self.picture, range(len(self.image_ids)))

    def picture(self, row: int) -> PictureWindows:
        """Return the windows of one picture, as views of the shard's arrays."""
        windows, (height, width) = slice(*self.offsets[row : row + 2].tolist()), self.sizes[row].tolist()
        arrays = self.boxes[windows], self.features[windows], self.pixel_hashes[row]
        return PictureWindows(self.image_ids[row], *arrays, (height, width), objectness=self._measured(windows))

    def with_objectness(self, numbers: Mapping[str, ArrayLike], source: Mapping[str, Any]) -> Self:
        """Return the shard with other objectness.

        Parameters
        ----------
        numbers : mapping of str to array-like of shape (n,)
            Picture -> how much its windows stand out, from 0 to 1; the others have none.
        source : mapping
            What measured it, for the provenance.

        Returns
        -------
        Shard

        Raises
        ------
        ShapeError, InputError
            As `assemble_shard`.
        """
        pictures = [replace(picture, objectness=numbers.get(picture.image_id)) for picture in self.pictures()]
        joined = _joined_objectness(pictures, self.offsets)
        return replace(self, objectness=joined, provenance=_recorded({**self.provenance, OBJECTNESS: source}, joined))

    def _measured(self, windows: slice) -> Float32 | None:
        """Return the objectness of a picture's windows. None if it was not measured, or has none."""
        numbers = None if self.objectness is None else self.objectness[windows]
        return None if numbers is None or np.isnan(numbers).all() else numbers


@dataclass(frozen=True)
class ShardHeader:
    """A shard's metadata, read without its tensors.

    Attributes
    ----------
    path : Path
    image_ids, pixel_hashes : tuple of str
    provenance : dict
        That of the shard, under the present names of settings.
    checksum : str
    n_windows, dim : int
    dtype : str
        "float16", "float32" or "bfloat16", the type in which features are stored.
    offset : int
        First byte of the features in the file.
    has_objectness : bool
        Whether the objectness of some picture's windows is stored.
    """

    path: Path
    image_ids: tuple[str, ...]
    pixel_hashes: tuple[str, ...]
    provenance: dict[str, Any]
    checksum: str
    n_windows: int
    dim: int
    dtype: str
    offset: int
    has_objectness: bool


def assemble_shard(pictures: Sequence[PictureWindows], provenance: dict[str, Any], dtype: str = "float16") -> Shard:
    """Return a shard of the windows of pictures.

    Parameters
    ----------
    pictures : sequence of PictureWindows, at least one
    provenance : dict
        Its key "objectness" is left out if no picture has any.
    dtype : "float16", "float32" or "bfloat16"
        Type in which features are stored.

    Returns
    -------
    Shard

    Raises
    ------
    NotFiniteError
        If a feature is NaN or infinite, or does not fit the type (float16: above 65504); the picture is named.
    ShapeError
        If a picture has another number of features or objectness than of boxes, or of columns than the first picture.
    InputError
        If an objectness is outside of 0 to 1, or is NaN in some windows of a picture alone.
    OptionError
        If there is no such `dtype`.
    """
    check_choice("the features' type", dtype, FEATURE_TYPES)
    if not pictures:
        raise InputError("a shard needs at least one picture, got none.")
    boxes = [as_boxes(picture.boxes).astype(np.float32) for picture in pictures]
    features = [_as_rows(picture) for picture in pictures]
    for picture, rows, numbers in zip(pictures, boxes, features, strict=True):
        if numbers.shape != (len(rows), features[0].shape[1]):
            expected = (len(rows), features[0].shape[1])
            raise ShapeError(f"picture {picture.image_id} must have features of shape {expected}, got {numbers.shape}.")
    offsets = np.cumsum([0, *map(len, boxes)], dtype=np.int64)
    stored = np.empty((offsets[-1], features[0].shape[1]), named_type(dtype))
    for picture, numbers, start, stop in zip(pictures, features, offsets, offsets[1:], strict=False):
        _store(picture.image_id, numbers, dtype, stored[start:stop])
    objectness = _joined_objectness(pictures, offsets)
    return Shard(
        image_ids=tuple(picture.image_id for picture in pictures),
        boxes=np.concatenate(boxes),
        features=stored,
        offsets=offsets,
        pixel_hashes=tuple(picture.pixel_hash for picture in pictures),
        sizes=np.array([picture.size for picture in pictures], dtype=np.int32),
        provenance=_recorded(provenance, objectness),
        objectness=objectness,
    )


def as_plain_json(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping after a round trip through JSON: tuples become lists, keys strings.

    Raises
    ------
    InputError
        If it holds a value that JSON has no form of, or NaN.
    """
    try:
        plain: dict[str, Any] = json.loads(to_json(value))
    except (TypeError, ValueError) as error:
        raise InputError(f"provenance must be plain JSON without NaN; {error}.") from None
    return plain


def to_json(value: Mapping[str, Any]) -> str:
    """Return the canonical JSON of a value: sorted keys, ASCII, no blanks."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _as_rows(picture: PictureWindows) -> Array:
    """Return a picture's features as numbers of two dimensions."""
    features = widened(np.asarray(picture.features))
    if features.dtype.kind not in "biuf":
        features = as_numbers(f"features of picture {picture.image_id}", features)
    if features.ndim != 2:
        raise ShapeError(f"features of picture {picture.image_id} must have 2 dimensions, got shape {features.shape}.")
    return features


def _joined_objectness(pictures: Sequence[PictureWindows], offsets: NDArray[np.int64]) -> Float32 | None:
    """Return the objectness of all windows, NaN where a picture was not measured. None if none was."""
    joined = np.full(offsets[-1], np.nan, np.float32)
    for picture, start, stop in zip(pictures, offsets, offsets[1:], strict=False):
        if picture.objectness is None:
            continue
        numbers = as_numbers(f"objectness of picture {picture.image_id}", picture.objectness)
        if numbers.shape != (stop - start,):
            rule = f"picture {picture.image_id} must have objectness of shape ({stop - start},)"
            raise ShapeError(f"{rule}, got {numbers.shape}.")
        _check_measured(picture.image_id, numbers)
        joined[start:stop] = numbers
    return None if np.isnan(joined).all() else joined


def _recorded(provenance: Mapping[str, Any], objectness: Float32 | None) -> dict[str, Any]:
    """Return a provenance without the source of objectness if there is none."""
    return {key: value for key, value in provenance.items() if key != OBJECTNESS or objectness is not None}


def _check_measured(image_id: str, numbers: Array) -> None:
    """Raise InputError unless the windows of a picture all have an objectness from 0 to 1, or all NaN."""
    missing = np.isnan(numbers)
    if missing.any() and not missing.all():
        got = f"got NaN in {missing.sum():,} of {len(numbers):,}"
        raise InputError(f"objectness of picture {image_id} must be a number in all of its windows or in none, {got}.")
    outside = numbers[~missing & ~((numbers >= 0) & (numbers <= 1))]
    if len(outside):
        raise InputError(f"objectness of picture {image_id} must be from 0 to 1, got {outside[0]:g}.")


def _store(image_id: str, features: Array, dtype: str, out: Array) -> None:
    """Write a picture's features in their stored type, checked to be finite and within its range."""
    if out.dtype == np.float16 and features.dtype == np.float32 and to_float16(features, out):
        return
    check_finite(f"features of picture {image_id}", features)
    largest, limit = max(float(features.max(initial=0)), -float(features.min(initial=0))), largest_number(dtype)
    if largest > limit:
        raise NotFiniteError(
            f"features of picture {image_id} must be at most {limit:g} to fit {dtype}, got {largest:g}."
        )
    out[:] = narrowed(features, out.dtype)


def _check_array(name: str, array: Array, types: tuple[str, ...], shape: tuple[int, ...]) -> None:
    """Raise unless an array has one of `types` and this shape."""
    if type_name(array.dtype) not in types:
        raise InputError(f"{name} of a shard must be {' or '.join(types)}, got {type_name(array.dtype)}.")
    if array.shape != shape:
        raise ShapeError(f"{name} of a shard must have shape {shape}, got {array.shape}.")


def check_ids(image_ids: Sequence[str], pixel_hashes: Sequence[str]) -> None:
    """Raise unless the ids differ and each has its hash."""
    wrong = [name for name in (*image_ids, *pixel_hashes) if not isinstance(name, str)]
    if wrong:
        raise InputError(f"image ids and pixel hashes of a shard must be str, got {wrong[0]!r}.")
    check_distinct(image_ids, "image ids of a shard must differ")
    if len(pixel_hashes) != len(image_ids):
        raise ShapeError(f"a shard needs one pixel hash per picture, got {len(pixel_hashes)} for {len(image_ids)}.")
