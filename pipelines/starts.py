"""Where training begins when its settings name windows that only boxes tell: the central ones."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lapsvm.arrays import Index
from lapsvm.bags import Bags
from lapsvm.boxes import central_windows
from lapsvm.features import ShardSet, open_shards
from lapsvm.latent import LatentProblem, fit_many

from .stages import Context

_LOOSE = 0.01  # gap of the weights that only choose the first windows


def started(context: Context, problems: Sequence[LatentProblem], bags: Bags) -> Sequence[LatentProblem]:
    """Return the problems with the beginning that the settings name.

    For "centre" these are weights trained on the most central window of every picture, positive or negative alike, as
    "mean" and "whole_image" train theirs; everything else a problem knows itself.
    """
    if context.settings.train.init != "centre":
        return problems
    shards = open_shards(context.run.shards(context.settings.data.train_set))
    central = bags.narrowed(most_central(shards))
    loose = [replace(one, tol=max(one.tol, _LOOSE), top=1) for one in problems]
    return [replace(one, init=found.coef) for one, found in zip(problems, fit_many(loose, central), strict=True)]


def most_central(shards: ShardSet) -> Index:
    """Return the most central window of every picture; features are not read."""
    return np.concatenate([central_windows(shard.boxes, shard.offsets, shard.sizes) for shard in shards])
