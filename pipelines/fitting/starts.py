"""Where training begins when its settings name windows that only boxes tell: the central ones."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from lapsvm.arrays import Index
from lapsvm.bags import Bags
from lapsvm.boxes import central_windows
from lapsvm.errors import OptionError
from lapsvm.features import ShardSet, open_shards
from lapsvm.latent import LatentProblem, ReplayLog, fit_many

from ..run.context import RunContext

_AT_ONCE = 512  # trainings side by side: each holds its planes
_LOOSE = 0.01  # gap of the weights that only choose the first windows


def started(
    context: RunContext, starts: Sequence[tuple[LatentProblem, list[float]]], bags: Bags, log: ReplayLog | None = None
) -> Sequence[tuple[LatentProblem, list[float]]]:
    """Return problems, each with its values of C, with the beginning that the settings name.

    For "centre" these are weights trained on the most central window of every picture, positive or negative alike, as
    "mean" and "whole_image" train theirs; everything else a problem knows itself.
    """
    if context.settings.train.init != "centre":
        return starts
    shards = open_shards(context.run.shards(context.settings.data.train_set))
    central = bags.narrowed(most_central(shards))
    loose = [replace(one, C=values[0], tol=max(one.tol, _LOOSE), top=1) for one, values in starts]
    parts = [loose[first : first + _AT_ONCE] for first in range(0, len(loose), _AT_ONCE)]
    found = chain.from_iterable(fit_many(part, central, pass_counts=context.pass_counts, log=log) for part in parts)
    return [(replace(one, init=first.coef), values) for (one, values), first in zip(starts, found, strict=True)]


def check_start(init: str, shards: ShardSet) -> None:
    """Raise OptionError unless training can begin so: imported windows may lack the one of the whole picture."""
    for shard in shards if init == "whole_image" else ():
        whole = np.hstack([np.zeros_like(shard.sizes), shard.sizes[:, ::-1]])
        other = (shard.boxes[shard.offsets[:-1]] != whole).any(axis=1)
        if other.any():
            image_id = shard.image_ids[int(np.argmax(other))]
            raise OptionError(
                f"option --init whole_image needs a window of the whole picture, but picture {image_id!r} has none."
            )


def most_central(shards: ShardSet) -> Index:
    """Return the most central window of every picture; features are not read."""
    return np.concatenate([central_windows(shard.boxes, shard.offsets, shard.sizes) for shard in shards])
