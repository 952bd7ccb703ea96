"""How much each map of the networks counts in training, for ``--map-weights``.

A coarse map sees an object and what is around it alike: it ranks pictures well and leaves open where the object is. A
fine map tells neighbouring windows apart. With features of equal length training relies on the coarse ones, which
separate the pictures best. So the length of each part of the features may be in proportion to the cells of its map
across a picture, while training chooses windows. That needs neither boxes nor anything that is known of a single
network. Refinement has negatives from the same picture and takes all parts at one length: with longer fine ones it
ranks pictures worse (docs/measurements/boxes.md).
"""

from lapsvm.features import ShardSet
from lapsvm.features.extractors.maps.resolution import cells_across

from ..run.context import RunContext
from ..run.settings import BASELINES

UNKNOWN = "train: --map-weights resolution needs the strides of all maps; all parts of the features count alike"


def map_weights(context: RunContext, shards: ShardSet) -> tuple[float, ...] | None:
    """Return the weight of each part of the features, None if all count alike, as for baselines.

    Reports if parts of the features are no maps, or no shard records the strides of theirs.
    """
    found = known_weights(context, shards)
    if found is None and _asks(context) and len(_blocks(shards)) > 1:
        context.reporter.say(f"{UNKNOWN}; extract --redo records them, where networks with maps make all features.")
    return found


def known_weights(context: RunContext, shards: ShardSet) -> tuple[float, ...] | None:
    """Return what `map_weights` does, and report nothing."""
    if not _asks(context) or len(_blocks(shards)) < 2:
        return None
    extractors = [header.provenance["features"]["extractor"] for header in shards.headers]
    cells = next((found for found in map(cells_across, extractors) if found), None)  # older shards lack strides
    return cells if cells and len(cells) == len(_blocks(shards)) else None


def _asks(context: RunContext) -> bool:
    """Return whether the settings weigh maps for the learner."""
    train = context.settings.train
    return train.map_weights == "resolution" and train.learner not in BASELINES


def _blocks(shards: ShardSet) -> list[int]:
    return shards.headers[0].provenance["features"]["extractor"]["blocks"]
