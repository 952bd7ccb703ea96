"""The planes that a cutting-plane solver has collected, with their Gram matrix."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from lapsvm.arrays import Array, Float64
from lapsvm.optim.certificate import CutPlanes


class Plane(NamedTuple):
    """A lower bound of the risk: ``r(w) >= gradient.w + offset`` for every w, with equality where it was made.

    Attributes
    ----------
    gradient : (d,) float64
    offset : float
    tag : object
        Whatever its maker needs to remember; handed back with the plane.
    """

    gradient: Float64
    offset: float
    tag: Any = None

    def value(self, w: Float64) -> float:
        """Return the plane's height at `w`."""
        return float(self.gradient @ w) + self.offset


class Bundle:
    """Planes, growing one by one; plane 0 is the constant 0, for a risk is never negative.

    Parameters
    ----------
    dim : int
        Length d of a gradient.
    planes : iterable of Plane
        Planes to begin with, the constant 0 left out.
    """

    def __init__(self, dim: int, planes: Iterable[Plane] = ()):
        known = list(planes)
        capacity = max(32, 2 * len(known))
        self._size = 0
        self._tags: list[Any] = []
        self._gradients, self._offsets = np.zeros((capacity, dim)), np.zeros(capacity)
        self._gram = np.zeros((capacity, capacity))
        self._append(Plane(np.zeros(dim), 0.0))
        for plane in known:
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
    def cut_planes(self) -> CutPlanes:
        """The planes as `dual_bound` takes them."""
        return CutPlanes(self.gradients, self.offsets, np.sqrt(np.diagonal(self.gram)))

    @property
    def steepest(self) -> float:
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
        """Forget all planes but those of this mask (m,); plane 0 always stays."""
        places = np.flatnonzero(kept | (np.arange(self._size) == 0))
        gram = self._gram[np.ix_(places, places)]
        self._size = len(places)
        self._gradients[: self._size], self._offsets[: self._size] = self._gradients[places], self._offsets[places]
        self._gram[: self._size, : self._size] = gram
        self._tags = [self._tags[place] for place in places]

    def risk(self, w: Float64) -> float:
        """Return the highest plane's height at `w`."""
        return float((self.gradients @ w + self.offsets).max())

    def combine(self, weights: Float64) -> Float64:
        """Return minus the weighted sum (d,) of the gradients: the w of a dual solution."""
        used = np.flatnonzero(weights)
        return np.asarray(-weights[used] @ self.gradients[used])

    def _append(self, plane: Plane) -> None:
        self._gradients[self._size], self._offsets[self._size] = plane.gradient, plane.offset
        self._tags.append(plane.tag)
        self._size += 1

    def _grow(self) -> None:
        """Make room for as many planes again."""
        m, more = self._size, self._size
        self._gradients = np.pad(self._gradients[:m], ((0, more), (0, 0)))
        self._offsets = np.pad(self._offsets[:m], (0, more))
        self._gram = np.pad(self._gram[:m, :m], ((0, more), (0, more)))
