"""Extractors of other packages, whose failures and wrong features are named in one sentence."""

from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Array, Float32, check_finite
from lapsvm.catalog import OwnObject, running
from lapsvm.errors import DataError, InputError, ShapeError
from lapsvm.features.extractors.blocks import Block
from lapsvm.features.extractors.maps.prepared import PreparedPicture, PreparedPixels


class OwnExtractor(OwnObject):
    """An extractor of another package (see `lapsvm.features.Extractor`)."""

    dim: int
    blocks: Sequence[Block]

    def describe(self) -> dict[str, Any]:
        """Return the description of the extractor. Raises InputError if it is none."""
        return self._description("extractor")

    def prepare(self, pixels: Array) -> PreparedPicture:
        """Return a picture that the extractor has prepared, or its pixels if it prepares none."""
        if not hasattr(self._made, "prepare"):
            return PreparedPixels(self, pixels)
        with running(self._point):
            return OwnPrepared(self._point, self._made.prepare(pixels), self._made.dim)

    def __call__(self, pixels: Array, boxes: ArrayLike) -> Float32:
        """Return the features of windows, float32 of shape (n, dim).

        Raises
        ------
        DataError
            If the extractor fails.
        InputError, ShapeError, NotFiniteError
            If its features are no finite numbers of this shape.
        """
        with running(self._point):
            features, dim = self._made(pixels, boxes), self._made.dim
        return _checked(self._point, features, boxes, dim)


class OwnPrepared(OwnObject):
    """A picture that an extractor of another package, of `dim` features, has prepared (see `PreparedPicture`)."""

    nbytes: int

    def __init__(self, point: EntryPoint, made: Any, dim: int) -> None:
        super().__init__(point, made)
        self._dim = dim

    def __call__(self, boxes: ArrayLike) -> Float32:
        """Return the features of windows."""
        with running(self._point):
            features = self._made(boxes)
        return _checked(self._point, features, boxes, self._dim)

    def project(self, boxes: ArrayLike, components: Sequence[Float32]) -> Float32:
        """Return the projected features of windows."""
        with running(self._point):
            features = self._made.project(boxes, components)
        return _checked(self._point, features, boxes, None)


class OwnNetwork(OwnObject):
    """A network of another package (see `Network`)."""

    runtime: dict[str, str]
    fixed_size: tuple[int, int] | None

    def run(self, batch: Float32) -> dict[str, Array]:
        """Return every output by name. Raises DataError if the network fails, or gives no arrays by name."""
        with running(self._point):
            outputs = self._made.run(batch)
        start = f"the network of extractor {self._point.name!r} must give arrays of numbers by name"
        if not isinstance(outputs, Mapping):
            raise DataError(f"{start}, got {type(outputs).__name__}.")
        for name, value in outputs.items():
            if not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf":
                raise DataError(f"{start}, got {_kind(value)} for {name!r}.")
        return dict(outputs)


def _checked(point: EntryPoint, features: Any, boxes: ArrayLike, dim: int | None) -> Float32:
    """Return features of windows, with `dim` columns if known; an error names the extractor if they are none."""
    name = f"features of extractor {point.name!r}"
    if not isinstance(features, np.ndarray) or features.dtype.kind not in "biuf":
        raise InputError(f"{name} must be an array of numbers, got {_kind(features)}.")
    count = len(np.asarray(boxes))
    if features.ndim != 2 or len(features) != count or dim not in (None, features.shape[1]):
        raise ShapeError(f"{name} must have shape ({count}, {dim or 'any'}), got {features.shape}.")
    check_finite(name, features)
    return features


def _kind(value: object) -> str:
    """Return the type of a value, or of the entries of an array."""
    return f"one of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
