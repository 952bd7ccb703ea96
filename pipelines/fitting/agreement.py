"""Agreement: how well models trained without a picture choose the window that the model of all pictures chooses.

Image-level AP depends on the score of a picture's best window, never on its position: where pictures are easy to
classify, every candidate has nearly the same AP, and the most confident one may lie on the background. A model that has
found the object also chooses it in held-out pictures; one that fits accidental background does not. Agreement is
the mean, over the positive pictures of a fold, of the IoU between the window chosen by the model without that fold and
the one chosen by the model of all pictures. It needs proposals only, no boxes of objects.

Agreement proves nothing alone: a model that always takes the same kind of box, such as the largest, agrees with itself
perfectly. `selection` therefore considers only candidates that classify pictures about as well as the best.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from lapsvm.arrays import Float64, Index
from lapsvm.boxes import paired_iou
from lapsvm.features import ShardSet


@dataclass(frozen=True)
class Proposals:
    """The boxes (n_windows, 4) of the training pictures one after another, and the index of each picture's first."""

    boxes: Float64
    first: Index

    @classmethod
    def of(cls, shards: ShardSet) -> Self:
        """Read the boxes of shards; features are not read."""
        read = list(shards)
        counts = np.concatenate([np.diff(shard.offsets) for shard in read])
        return cls(np.concatenate([shard.boxes for shard in read]).astype(np.float64), np.cumsum(counts) - counts)

    def overlaps(self, pictures: Index, windows: Index, others: Index) -> Float64:
        """Return the IoU of two windows of each picture, given as indices inside the picture."""
        first = self.first[pictures]
        return paired_iou(self.boxes[first + windows], self.boxes[first + others])
