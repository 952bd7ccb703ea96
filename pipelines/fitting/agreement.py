"""Agreement: how far models that have not seen a picture choose the window that the model of all pictures chooses.

Image-level AP looks at the score of a picture's best window, never at where it lies; where pictures are told apart
easily, every candidate has nearly the same AP and the surest of them sits on the scenery. A model that has found the
object chooses it in pictures that it was not trained on, too; one that holds on to what happens to be there does not.
So agreement is the mean, over the positive pictures of a fold, of the overlap (IoU) between the window that the model
without that fold chooses and the one that the model of all pictures chooses. Only proposals are needed, no boxes of
objects.

It is no proof: a model that always takes the same kind of box, say the largest, or the first because all weights are
0, agrees with itself perfectly. `selection` therefore lets only those candidates take part that also tell pictures
apart about as well as the best.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from lapsvm.arrays import Float64, Index
from lapsvm.boxes import paired_iou
from lapsvm.features import open_shards

from ..run.context import RunContext


@dataclass(frozen=True)
class Proposals:
    """The windows of the training pictures.

    Attributes
    ----------
    boxes : (n_windows, 4) float64
        Those of picture 0, then those of picture 1, ...
    first : (n_pictures,) intp
        Where each picture's windows begin.
    """

    boxes: Float64
    first: Index

    @classmethod
    def of_training(cls, context: RunContext) -> Self:
        """Read the boxes of the training set's shards; features are not read."""
        shards = list(open_shards(context.run.shards(context.settings.data.train_set)))
        counts = np.concatenate([np.diff(shard.offsets) for shard in shards])
        return cls(np.concatenate([shard.boxes for shard in shards]).astype(np.float64), np.cumsum(counts) - counts)

    def overlaps(self, pictures: Index, windows: Index, others: Index) -> Float64:
        """Return for each of these pictures the IoU of two of its windows, named by their numbers inside it."""
        first = self.first[pictures]
        return paired_iou(self.boxes[first + windows], self.boxes[first + others])
