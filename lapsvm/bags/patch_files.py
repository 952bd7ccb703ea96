"""Bags of patches from HDF5 files, as tools of pathology write them: an array of features and one of coordinates.

A slide is a bag, its patches are the instances. CLAM and TRIDENT write one file a slide with ``features`` (n, d), or
(1, n, d), and ``coords`` (n, 2), the left upper corner (x, y) of each patch in pixels of the slide.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Array, Float64, as_floats, check_finite
from lapsvm.bags.bags import Bags
from lapsvm.errors import ExternalFileError, MissingError, ShapeError, import_optional, one_line

_SIZE_NAMES = ("patch_size_level0", "patch_size")
"""Attributes of ``coords`` that hold the side of a patch in pixels of the slide; the first one that is there counts."""


@dataclass(frozen=True)
class Patches:
    """The patches of one slide.

    Attributes
    ----------
    features : (n, d) float
    coords : (n, 2) int
        Left upper corner (x, y) of each patch, in pixels of the slide.
    side : int
        Side of a patch in the same pixels.
    """

    features: Array
    coords: Array
    side: int

    def heat_map(self, scores: ArrayLike) -> Float64:
        """Return the scores (n,) of the patches as a picture of one pixel a patch.

        Returns
        -------
        (rows, columns) float64
            From the first patch in each direction on; NaN where the file has no patch, and the largest score where
            patches share a pixel.

        Raises
        ------
        ShapeError
            If there is not one score for each patch.
        """
        values = as_floats("scores", scores, 1)
        if values.shape != (len(self.coords),):
            raise ShapeError(f"scores must be one number for each of {len(self.coords):,} patches, got {values.shape}.")
        columns, rows = ((self.coords - self.coords.min(axis=0)) // self.side).astype(np.intp).T
        picture = np.full((rows.max() + 1, columns.max() + 1), -np.inf)
        np.maximum.at(picture, (rows, columns), values)
        return np.where(np.isinf(picture), np.nan, picture)


def read_patches(path: Path | str) -> Patches:
    """Return the patches of a slide's HDF5 file; its tables are named in the module's docstring.

    Raises
    ------
    DependencyError
        If h5py, of the extra ``h5``, is not installed.
    MissingError
        If there is no such file.
    ExternalFileError
        If the file is no HDF5 file, lacks a table, or its tables do not fit.
    NotFiniteError
        If a feature or a coordinate is NaN or infinite.
    """
    h5py = import_optional("h5py", f"{path} needs the package h5py", "h5")
    if not Path(path).is_file():
        raise MissingError(f"{path} must be a file of patches, got none there.")
    try:
        with h5py.File(path, "r") as file:
            features, coords = (_table(file, name, path) for name in ("features", "coords"))
            side = _side(file["coords"].attrs, coords)
    except (OSError, RuntimeError) as error:
        raise ExternalFileError(
            f"{path} must be an HDF5 file that can be read whole, got: {one_line(error)}."
        ) from None
    if features.ndim == 3 and len(features) == 1:
        features = features[0]
    if features.ndim != 2 or coords.shape != (len(features), 2) or not features.size:
        raise ExternalFileError(
            f"{path} must hold features (n, d) and coords (n, 2) of at least one patch, "
            f"got {features.shape} and {coords.shape}."
        )
    for name, table in (("features", features), ("coords", coords)):
        check_finite(f"{name} of {path}", table)
    return Patches(features, coords, side)


def bags_of_patches(slides: Sequence[Patches]) -> Bags:
    """Return the features of slides as bags, in their order, for the latent estimators."""
    return Bags.from_arrays([slide.features for slide in slides])


def _table(file: Any, name: str, path: Path | str) -> Array:
    """Return a table of numbers; ExternalFileError if it is missing, is a group, or holds other things."""
    table = file.get(name)
    if not hasattr(table, "dtype") or table.dtype.kind not in "fiu":
        names = ", ".join(sorted(file)) or "nothing"
        raise ExternalFileError(f"{path} must hold a table of numbers called {name}, got {names}.")
    return np.asarray(table)


def _side(attributes: Any, coords: Array) -> int:
    """Return the side of a patch: as the file says, else the least distance between two columns or rows."""
    for name in _SIZE_NAMES:
        value = attributes.get(name)
        if isinstance(value, (int, np.integer)) and value > 0:
            return int(value)
    steps = [np.diff(np.unique(axis)) for axis in coords.T] if coords.ndim == 2 else []
    return int(min((step.min() for step in steps if len(step)), default=1))
