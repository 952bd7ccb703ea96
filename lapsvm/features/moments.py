"""Sums over windows, from which principal components are computed; an interrupted sum can be stored and continued."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lapsvm.arrays import Array, Float64
from lapsvm.model_files import read_model, write_model

FORMAT = "lapsvm sums for a projection"
VERSION = 1


@dataclass(frozen=True, eq=False)
class Moments:
    """The sums of some windows' features, part by part.

    Attributes
    ----------
    samples : int
        Number of samples (pictures) that are summed.
    windows : int
        Number of their windows.
    sums : tuple of ndarray of shape (d_i,), float64
    products : tuple of ndarray of shape (d_i, d_i), float64
        The sums of the features' products.
    """

    samples: int
    windows: int
    sums: tuple[Float64, ...]
    products: tuple[Float64, ...]

    @classmethod
    def empty(cls, sizes: Sequence[int]) -> "Moments":
        """Return the sums of no window, of parts of some sizes."""
        return cls(0, 0, tuple(np.zeros(d) for d in sizes), tuple(np.zeros((d, d)) for d in sizes))

    def plus(self, samples: int, parts: Sequence[Float64]) -> "Moments":
        """Return the sums with the features (n, d_i) of more samples."""
        sums = (total + part.sum(axis=0) for total, part in zip(self.sums, parts, strict=True))
        products = (total + part.T @ part for total, part in zip(self.products, parts, strict=True))
        return Moments(self.samples + samples, self.windows + len(parts[0]), tuple(sums), tuple(products))

    def covariances(self) -> list[Float64]:
        """Return the covariance (d_i, d_i) of each part."""
        pairs = zip(self.sums, self.products, strict=True)
        return [product / self.windows - np.outer(total, total) / self.windows**2 for total, product in pairs]

    def save(self, path: str | Path, made_with: Mapping[str, Any]) -> None:
        """Write the sums to a file, with the settings that determine the samples."""
        tensors: dict[str, Array] = {f"sums{i}": part for i, part in enumerate(self.sums)}
        tensors |= {f"products{i}": part for i, part in enumerate(self.products)}
        counts = {"samples": self.samples, "windows": self.windows, "made_with": dict(made_with)}
        write_model(path, {"format": FORMAT, "version": VERSION, **counts}, tensors, "sums")

    @classmethod
    def load(cls, path: str | Path, made_with: Mapping[str, Any], sizes: Sequence[int]) -> "Moments | None":
        """Return the sums of a file; None if they were made with something else.

        Raises
        ------
        MissingError
            If there is no such file.
        ModelFileError
            If it is damaged.
        """
        description, tensors = read_model(path, FORMAT, VERSION)
        shapes = {f"sums{i}": (d,) for i, d in enumerate(sizes)} | {f"products{i}": (d, d) for i, d in enumerate(sizes)}
        found = {name: tensor.shape for name, tensor in tensors.items()}
        if description.get("made_with") != dict(made_with) or found != shapes:
            return None
        arrays = tuple(tensors[name] for name in shapes)
        return cls(description["samples"], description["windows"], arrays[: len(sizes)], arrays[len(sizes) :])
