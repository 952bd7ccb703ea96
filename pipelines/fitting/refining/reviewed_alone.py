"""Whether a class learns from all positive pictures or from the reviewed ones alone.

Refinement trains on the boxes that a person knows and, in the other positive pictures, on those that labels choose.
Labels alone cannot say whether a part, the object or more than it is meant, and they choose wrong boxes in some
pictures of every class. A few known boxes need the others' help. From `ENOUGH` on they are better without, and from
fewer where most boxes of labels are wrong, because these outvote the known ones (docs/measurements/boxes.md).

Whether a box is right is judged by the model without the picture's fold, and the verdicts of a fold do not decide for
the model without it.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Index
from lapsvm.detection.picture_scores import best_boxes
from lapsvm.latent import KnownBoxes
from lapsvm.settings import DetectSettings

from ..reviewed import SAME, Reviews
from .chains import Chain
from .pictures import StoredPictures

ENOUGH = 15
"""Pictures with known objects from which on a class learns from these alone."""
JUDGED = 10
"""Pictures with known objects, drawn at random, by which labels are judged."""
LEAST = 5
"""Pictures with known objects that a model which learns from them alone must see."""
CLOSER = 50.0
"""By how much the weight of the loss is greater there: known boxes are right, so they may be fitted closely."""


def reviewed_chains(chains: Sequence[Chain], known: Mapping[int, KnownBoxes]) -> list[Chain]:
    """Return the chains with no other positive pictures than those with known objects."""
    reviewed = [row for row, boxes in known.items() if len(boxes.true)]
    unseen = ~np.isin(np.arange(len(chains[0].y)), reviewed)
    return [chain._replace(y=np.where((chain.y > 0) & unseen, 0, chain.y).astype(np.int8)) for chain in chains]


def are_enough(alone: Sequence[Chain]) -> bool:
    """Return whether the chains of `reviewed_chains` see so many known objects that labels need not choose windows."""
    whole, *others = (int((chain.y > 0).sum()) for chain in alone)
    return whole >= ENOUGH and min(others, default=whole) >= LEAST


def judged_pictures(reviews: Reviews, fold: Index) -> Index:
    """Return the pictures by which labels are judged: random ones of a fold with a known object.

    None if they are fewer than `JUDGED`.
    """
    rows = [row for row in reviews.random if fold[row] and len(reviews.known[row].true)]
    return np.array(rows if len(rows) >= JUDGED else [], dtype=np.intp)


def right_boxes(
    chains: Sequence[Chain], fold: Index, judged: Index, pictures: StoredPictures, settings: DetectSettings
) -> NDArray[np.bool_]:
    """Return whether the box of each judged picture (m,) is right, by the chain without its `fold` (n_bags,)."""
    right = np.zeros(len(judged), dtype=np.bool_)
    for number, chain in enumerate(chains[1:], start=1):
        own = np.flatnonzero(fold[judged] == number)
        boxes, _ = best_boxes(pictures.bags, pictures.boxes, chain.weights, judged[own], settings)
        known = (pictures.known[row] for row in judged[own].tolist())
        right[own] = [bool(one.right(box[None], SAME)[0]) for one, box in zip(known, boxes, strict=True)]
    return right


def mostly_wrong(right: NDArray[np.bool_], judged: Index, fold: Index, alone: Sequence[Chain]) -> list[int]:
    """Return the numbers of the chains that learn alone: those for which at most half of the judged boxes are right.

    None if there are no judged pictures; a chain that sees fewer than `LEAST` known objects does not.
    """
    seen = [right[fold[judged] != number] for number in range(len(alone))]
    return [
        number
        for number, (own, chain) in enumerate(zip(seen, alone, strict=True))
        if len(own) and 2 * own.sum() <= len(own) and (chain.y > 0).sum() >= LEAST
    ]
