"""How a person's few boxes and the labels of all pictures make one model.

Labels alone cannot say whether a part, the object or more than it is meant; a few known boxes say it, and little of
what else the object looks like. So both teach: the mean of the model of labels and of that of the reviewed pictures
chooses the windows of all positive pictures, on which a model is trained. The mean of this model and of that of the
reviewed pictures is the class's. The more pictures are reviewed, the more their model counts, here and there
(docs/measurements/boxes.md).

Where small things are sought on even ground, the sizes of the known boxes count in detection, too
(`lapsvm.detection.sizes`). In photographs the distance of a thing decides its size, and there they make boxes worse.

Every chain has its own: nothing of a fold, no verdict either, reaches the chain without it.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from lapsvm.arrays import Float64
from lapsvm.detection.sizes import SizePrior
from lapsvm.latent import KnownBoxes

from .chains import Chain
from .pictures import StoredPictures

FIRST = 5
"""Pictures with known objects from which on these teach."""
SEEN = 2
"""How many of them every chain must see."""
HALF = 6
"""The number of pictures with known objects at which their model counts as much as that of the labels."""
CLOSER = 50.0
"""The factor of the loss's weight on reviewed pictures: their boxes are right, so they may be fitted closely."""
WIDER = 10.0
"""The factor of the loss's weight on the windows that are taught."""


def reviewed_chains(chains: Sequence[Chain], known: Mapping[int, KnownBoxes]) -> list[Chain]:
    """Return the chains with only those of their positive pictures that have known objects."""
    reviewed = [row for row, boxes in known.items() if len(boxes.true)]
    unseen = ~np.isin(np.arange(len(chains[0].y)), reviewed)
    return [chain._replace(y=np.where((chain.y > 0) & unseen, 0, chain.y).astype(np.int8)) for chain in chains]


def can_teach(reviewed: Sequence[Chain]) -> bool:
    """Return whether the chains of `reviewed_chains` see enough known objects to learn from them."""
    whole, *others = map(count_positives, reviewed)
    return whole >= FIRST and min(others, default=whole) >= SEEN


def teachers(labels: Sequence[Chain], reviewed: Sequence[Chain]) -> list[Float64]:
    """Return the weights (d,) by which each chain chooses the windows of all positive pictures."""
    pairs = zip(labels, reviewed, strict=True)
    return [_mean((1 - _share(own), of_labels.weights), (_share(own), own.weights)) for of_labels, own in pairs]


def joined(taught: Sequence[Chain], reviewed: Sequence[Chain]) -> list[Chain]:
    """Return the taught chains with the mean of their weights and those of the reviewed pictures.

    A mean has the norm of the taught weights, and their intercept.
    """
    pairs = zip(taught, reviewed, strict=True)
    return [
        chain._replace(weights=np.linalg.norm(chain.weights) * _mean((1, chain.weights), (_share(own), own.weights)))
        for chain, own in pairs
    ]


def count_positives(chain: Chain) -> int:
    """Return how many positive pictures a chain sees."""
    return int((chain.y > 0).sum())


def known_sizes(pictures: StoredPictures, chain: Chain) -> SizePrior | None:
    """Return how large the known objects are that a chain may see. None if they are too few, or differ."""
    seen = [boxes.true for row, boxes in pictures.known.items() if chain.y[row] > 0]
    return SizePrior.of(np.concatenate([np.empty((0, 4)), *seen]))


def _share(reviewed: Chain) -> float:
    """Return the share of the model of the reviewed pictures, from 0 to 1."""
    return count_positives(reviewed) / (count_positives(reviewed) + HALF)


def _mean(first: tuple[float, Float64], second: tuple[float, Float64]) -> Float64:
    """Return the unit vector along the mean of two directions, each with its share."""
    return _unit(first[0] * _unit(first[1]) + second[0] * _unit(second[1]))


def _unit(weights: Float64) -> Float64:
    norm = float(np.linalg.norm(weights))
    return weights / norm if norm else weights
