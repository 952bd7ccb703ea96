"""Initial weights from the central window of every picture, for ``--init centre``."""

import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lapsvm.arrays import Index
from lapsvm.bags import Bags
from lapsvm.boxes import central_windows
from lapsvm.errors import OptionError
from lapsvm.features import ShardSet, open_shards
from lapsvm.latent import LatentProblem, ReplayLog

from ..run.context import RunContext
from .trainer import Trainer

_LOOSE = 0.01  # gap of the weights that only choose the first windows


def with_initial_weights(
    context: RunContext, starts: Sequence[tuple[LatentProblem, list[float]]], bags: Bags, log: ReplayLog | None = None
) -> Sequence[tuple[LatentProblem, list[float]]]:
    """Return problems, each with its values of C, with the initial weights of the settings.

    For "centre" these are weights trained on the most central window of every picture, positive or negative alike, as
    "mean" and "whole_image" train theirs; problems contain every other start.
    """
    if context.settings.train.init != "centre":
        return starts
    shards = open_shards(context.run.shards(context.settings.data.train_set))
    central = bags.narrowed(most_central(shards))
    loose = [replace(problem, C=values[0], tol=max(problem.tol, _LOOSE), top=1) for problem, values in starts]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # only the first windows depend on these weights
        solutions = Trainer(pass_counts=context.pass_counts, log=log).fit(loose, central)
    return [
        (replace(problem, init=solution.coef), values)
        for (problem, values), solution in zip(starts, solutions, strict=True)
    ]


def check_start(init: str, shards: ShardSet) -> None:
    """Raise OptionError if `init` needs a window of the whole picture and an imported picture lacks it."""
    for shard in shards if init == "whole_image" else ():
        whole = np.hstack([np.zeros_like(shard.sizes), shard.sizes[:, ::-1]])
        differs = (shard.boxes[shard.offsets[:-1]] != whole).any(axis=1)
        if differs.any():
            image_id = shard.image_ids[int(np.argmax(differs))]
            raise OptionError(
                f"option --init whole_image needs a window of the whole picture, but picture {image_id!r} has none."
            )


def most_central(shards: ShardSet) -> Index:
    """Return the index of the most central window of every picture, without reading features."""
    return np.concatenate([central_windows(shard.boxes, shard.offsets, shard.sizes) for shard in shards])
