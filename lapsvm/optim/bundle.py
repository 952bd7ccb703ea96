"""The planes of a cutting-plane solver, with their Gram matrix."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from lapsvm.arrays import Array, Float64

_EPS = float(np.finfo(float).eps)


class Plane(NamedTuple):
    """A tangent lower bound of the risk: ``r(w) >= gradient.w + offset`` for every w.

    Attributes
    ----------
    gradient : (d,) float64
    offset : float
    tag : object
        Data of the oracle that stays with the plane.
    """

    gradient: Float64
    offset: float
    tag: Any = None

    def value(self, w: Float64) -> float:
        """Return the plane's value at `w`."""
        return float(self.gradient @ w) + self.offset


class Bundle:
    """A growing collection of planes; plane 0 is the constant 0, because a risk is never negative.

    Parameters
    ----------
    dim : int
        Length d of a gradient.
    planes : iterable of Plane
        Initial planes without the constant 0.
    """

    def __init__(self, dim: int, planes: Iterable[Plane] = ()):
        initial = list(planes)
        capacity = max(32, 2 * len(initial))
        self._size = 0
        self._tags: list[Any] = []
        self._gradients, self._offsets = np.zeros((capacity, dim)), np.zeros(capacity)
        self._gram = np.zeros((capacity, capacity))
        self._append(Plane(np.zeros(dim), 0.0))
        for plane in initial:
            self._append(plane)
        self._gram[: self._size, : self._size] = self.gradients @ self.gradients.T

    def __len__(self) -> int:
        return self._size

    @property
    def gradients(self) -> Float64:
        """The planes' gradients (m, d), a view."""
        return self._gradients[: self._size]

    @property
    def offsets(self) -> Float64:
        """The planes' offsets (m,), a view."""
        return self._offsets[: self._size]

    @property
    def gram(self) -> Float64:
        """Inner products of the gradients (m, m), a view."""
        return self._gram[: self._size, : self._size]

    @property
    def max_norm(self) -> float:
        """The largest norm of a gradient."""
        return float(np.sqrt(np.diagonal(self.gram).max()))

    def planes(self) -> list[Plane]:
        """Return the collected planes, without the constant 0."""
        return [Plane(self._gradients[i].copy(), float(self._offsets[i]), self._tags[i]) for i in range(1, self._size)]

    def add(self, plane: Plane) -> None:
        """Add one plane."""
        if self._size == len(self._offsets):
            self._grow()
        self._append(plane)
        last = self._size - 1
        self._gram[last, : self._size] = self._gram[: self._size, last] = self.gradients @ plane.gradient

    def keep(self, kept: Array) -> None:
        """Remove all planes outside the mask `kept` (m,); plane 0 always stays."""
        indices = np.flatnonzero(kept | (np.arange(self._size) == 0))
        gram = self._gram[np.ix_(indices, indices)]
        self._size = len(indices)
        self._gradients[: self._size], self._offsets[: self._size] = self._gradients[indices], self._offsets[indices]
        self._gram[: self._size, : self._size] = gram
        self._tags = [self._tags[index] for index in indices]

    def risk(self, w: Float64) -> float:
        """Return the maximum of the planes at `w`."""
        return float((self.gradients @ w + self.offsets).max())

    def combine(self, weights: Float64) -> Float64:
        """Return the w (d,) of a dual solution: minus the weighted sum of the gradients."""
        used = np.flatnonzero(weights)
        return np.asarray(-weights[used] @ self.gradients[used])

    def dual_bound(self, weights: Float64) -> float:
        """Return the dual value of `weights` (m,) >= 0 minus a bound of its rounding error."""
        used = np.flatnonzero(weights)
        a, offsets, norms = weights[used], self.offsets[used], np.sqrt(np.diagonal(self.gram))[used]
        w = a @ self.gradients[used]
        size = float(w @ w)
        unit = (len(used) + 2) * _EPS  # includes the rounding of sum(a) to C
        error = unit * float(a @ norms)  # of |w|
        of_size, of_w = (len(w) + 2) * _EPS * size, error * (float(np.sqrt(size)) + error)
        return float(a @ offsets) - 0.5 * size - (unit * float(a @ np.abs(offsets)) + of_w + of_size)

    def _append(self, plane: Plane) -> None:
        self._gradients[self._size], self._offsets[self._size] = plane.gradient, plane.offset
        self._tags.append(plane.tag)
        self._size += 1

    def _grow(self) -> None:
        """Double the capacity."""
        m, more = self._size, self._size
        self._gradients = np.pad(self._gradients[:m], ((0, more), (0, 0)))
        self._offsets = np.pad(self._offsets[:m], (0, more))
        self._gram = np.pad(self._gram[:m, :m], ((0, more), (0, more)))
