"""The training pictures of refinement, and the windows that a round trains on."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Array, Float32, Float64
from lapsvm.bags import Bags, Buffer, top_mask
from lapsvm.catalog import Pixels
from lapsvm.latent import KnownBoxes

from .chains import Chain
from .prior import ObjectnessPrior

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class AddedWindows:
    """Windows that a picture gains after its own: boxes (m, 4), and features (m, d) as stored, without a scale."""

    boxes: Float32
    features: Array


@dataclass(frozen=True, eq=False)
class StoredPictures:
    """The training pictures with their features as stored, and the objects of a class that a person reviewed.

    Attributes
    ----------
    bags : Bags
    boxes : (n_windows, 4)
    scale : (d,) float64
        What `bags` multiplies the stored features by.
    ids : tuple of str
    inside : (d,) bool
        Which features are a window's own, not those of its context.
    known : mapping of row to KnownBoxes, optional
        Of positive pictures. A chain without a fold takes nothing from its pictures.
    added : mapping of row to AddedWindows, optional
        Windows of known objects that the pictures lack. Chains that may see the pictures are trained with them.
    prior : ObjectnessPrior, optional
        The objectness of the windows.
    copies : Buffer
        The memory of the windows that chains are trained on.
    read : callable, optional
        Returns the pixels of a picture by its name, None if it cannot be used. Only where the ground is even.
    """

    bags: Bags
    boxes: Array
    scale: Float64
    ids: tuple[str, ...]
    inside: Mask
    known: Mapping[int, KnownBoxes] = field(default_factory=dict)
    added: Mapping[int, AddedWindows] = field(default_factory=dict)
    prior: ObjectnessPrior | None = None
    copies: Buffer = field(default_factory=Buffer, repr=False)
    read: Callable[[str], Pixels | None] | None = None

    @property
    def pixels(self) -> Callable[[int], Pixels | None] | None:
        """What returns the pixels of a row's picture. None where the ground is not even."""
        read = self.read
        return None if read is None else lambda row: read(self.ids[row])

    def windows(self, row: int) -> Array:
        """Return the boxes of a picture's windows."""
        return self.boxes[self.bags.offsets[row] : self.bags.offsets[row + 1]]

    def with_context_share(self, weights: Float64, share: float) -> Float64:
        """Return the weights (d,) with a share of the weights of the context.

        With the weights that refinement learns the best windows are often too large.
        """
        return weights * np.where(self.inside, 1.0, share)

    def active(
        self, chains: Sequence[Chain], count: int, copy_bytes: int | None = None
    ) -> Iterator[list["StoredPictures"]]:
        """Yield the pictures of the chains, whose negatives keep their `count` best-scored windows; 0: all.

        A picture of a chain's fold has one window. The windows of a group of consecutive chains are copied once, and
        each excludes those of the others; as many share a copy as `copy_bytes` admit, at least one, by default all. A
        copy lasts until the next group is asked for.
        Positive pictures gain windows of their known objects, after their own.
        """
        if not count and not self.added:
            yield [self] * len(chains)
            return
        scores = self.bags.score_windows(np.stack([chain.weights for chain in chains], axis=1))
        masks = [self._active(chain, own, count) for chain, own in zip(chains, scores.T, strict=True)]
        most = None if copy_bytes is None else copy_bytes // (self.bags.dim * self.bags.dtype.itemsize)
        for first, stop in sharing(masks, most):
            yield self._copied(masks[first:stop], chains[first:stop])

    def _active(self, chain: Chain, scores: Float64, count: int) -> Mask:
        offsets, y = self.bags.offsets, chain.y
        sizes = np.diff(offsets)
        return top_mask(scores, offsets, np.where(y > 0, sizes, np.where(y < 0, count or sizes, 1)))

    def _copied(self, masks: Sequence[Mask], chains: Sequence[Chain]) -> list["StoredPictures"]:
        """Return the pictures of chains with the windows of their masks, copied once for all, and added ones."""
        taken, rows = np.logical_or.reduce(masks), sorted(self.added)
        bags, boxes, masks = self.bags.copied(taken, self.copies), self.boxes[taken], [mask[taken] for mask in masks]
        if rows:
            counts = [len(self.added[row].boxes) for row in rows]
            ends = np.repeat(bags.offsets[1:][rows], counts)
            boxes = np.insert(boxes, ends, np.concatenate([self.added[row].boxes for row in rows]), axis=0)
            is_seen = [np.repeat(chain.y[rows] > 0, counts) for chain in chains]
            masks = [np.insert(mask, ends, seen) for mask, seen in zip(masks, is_seen, strict=True)]
            bags = bags.appended({row: self.added[row].features for row in rows})
        return [replace(self, bags=bags.excluding(~mask), boxes=boxes, prior=None) for mask in masks]


def sharing(masks: Sequence[Mask], most: int | None) -> Iterator[tuple[int, int]]:
    """Yield (first, stop) of runs of masks whose union has at most `most` windows; a larger mask is a run of its own.

    None sets no limit.
    """
    first, taken = 0, masks[0]
    for number, mask in enumerate(masks):
        together = taken | mask
        if number > first and most is not None and together.sum() > most:
            yield first, number
            first, together = number, mask
        taken = together
    yield first, len(masks)
